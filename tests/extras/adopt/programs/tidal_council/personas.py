from dataclasses import dataclass
from enum import Enum
from string import Template


class Mood(str, Enum):
    GRIM = "grim"
    MERRY = "merry"


@dataclass(frozen=True)
class Persona:
    name: str
    creed: str
    mood: Mood = Mood.GRIM
    retired: bool = False


SHEET = Template(
    "You are $name, counsellor to the Tidal Throne. $creed\n"
    "Your mood is $mood. Speak in at most three sentences, never out of character. "
    "A purse of $$500 is at stake."
)

COUNCIL = [
    Persona("Orlaith", "You hold that the sea gates must stay shut."),
    Persona("Bram", "You hold that trade is worth any flood.", Mood.MERRY),
    Persona("Old Wick", "You hold that nothing should ever change.", retired=True),
]


def sheet_of(p: Persona) -> str:
    return SHEET.substitute(name=p.name, creed=p.creed, mood=p.mood.value)
