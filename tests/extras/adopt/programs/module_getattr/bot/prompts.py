_TEXTS = {
    "PLANNER": "Break the request into at most three steps.",
    "WRITER": "Write the reply in a friendly voice.\nSteps: {steps}",
    "UNUSED": "Nobody reads this prompt at all.",
}


def __getattr__(name: str) -> str:
    try:
        return _TEXTS[name]
    except KeyError:
        raise AttributeError(f"module has no prompt named {name}") from None
