from enum import Enum, StrEnum
from types import MappingProxyType


class Lang(StrEnum):
    EN = "en"
    NL = "nl"


class Step(str, Enum):
    INTAKE = "You take down the complaint of a patient."
    ADVICE = "You advise a patient. Stay calm."
    LETTER = "You write a letter to the doctor."
    ARCHIVE = "You file letters."

    def filled(self, **values: str) -> str:
        return self.value + " " + " ".join(f"{key} is {value}." for key, value in values.items())


GREETINGS = MappingProxyType({Lang.EN: "Greet in English.", Lang.NL: "Begroet in het Nederlands."})

REGISTRY: dict[str, dict[str, str]] = {}


def register(name: str):
    def keep(fn):
        REGISTRY[name] = {"text": fn(), "help": fn.__doc__ or ""}
        return fn

    return keep


@register("followup")
def _followup() -> str:
    """Shown in the admin page."""
    return "Ask one question that helps to tell the cause."


@register("closing")
def _closing():
    """Shown in the admin page too."""
    return "\n".join(
        [
            "Close the talk.",
            "Wish the patient well.",
        ]
    )
