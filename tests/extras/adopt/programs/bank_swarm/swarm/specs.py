from typing import NamedTuple

COMMON = "You work at Harbour Bank. "


class Spec(NamedTuple):
    name: str
    prompt: str
    handoffs: dict[str, str] = {}
    greeting: str = "Greet the customer by name."

    @property
    def full(self) -> str:
        return COMMON + self.prompt + " " + self.greeting


SPECS = [
    Spec("cards", "You block lost cards.", {"loans": "Transfer to the desk for loans and mortgages."}),
    Spec(
        name="loans",
        prompt="You explain loans; never state a rate.",
        handoffs={"cards": "Transfer to the desk for cards.", "fraud": "Transfer anything that smells of fraud."},
        greeting="Do not greet.",
    ),
    Spec("fraud", "You take reports of fraud. Ask for the date and the amount."),
]
BY_NAME = {spec.name: spec for spec in SPECS}
