"""Names of models."""


def is_offline(name: str) -> bool:
    """Whether a name means the offline model, with any of its voices: `offline`, `offline:system`, `offline:user`."""
    return name.partition(":")[0] == "offline"
