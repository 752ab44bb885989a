"""The vocabulary of skills and the families of tasks; no other module lists them."""

import tomllib
from functools import lru_cache
from importlib.resources import files

from selfwire.extras.offline import archive, crafting, shelfmarks, stages, tariffs
from selfwire.extras.offline.skills import Family, Skill, choose_opening_skills, find_instructed_skills

_SKILLS = tomllib.loads((files(__package__) / "skills.toml").read_text("utf-8"))
FED_BACK = frozenset(skill["name"] for skill in _SKILLS["shelfmark"])
"""Names of the skills that feedback alone can teach: a critic that errs never names one."""
VOCABULARY: tuple[Skill, ...] = tuple(Skill(**skill) for group in _SKILLS.values() for skill in group)
USELESS = frozenset(skill["name"] for skill in _SKILLS["plain"])
"""Names of the skills without use for any family: they sound helpful, take a place and write a note."""
FAMILIES: tuple[Family, ...] = (archive.FAMILY, crafting.FAMILY, tariffs.FAMILY, shelfmarks.FAMILY, stages.FAMILY)


def skill(name: str) -> Skill:
    """The skill of that name."""
    return next(skill for skill in VOCABULARY if skill.name == name)


@lru_cache(maxsize=4096)
def find_skills(text: str) -> tuple[str, ...]:
    """Every skill that a text asks for, in order of appearance."""
    return find_instructed_skills(text, VOCABULARY)


def active_skills(instructions: str) -> tuple[str, ...]:
    """Names of the two skills that instructions give an agent, in order of appearance."""
    return choose_opening_skills(find_skills(instructions))


def family_of(task: str) -> Family | None:
    """The family of a task's text; None if it is unknown."""
    return next((family for family in FAMILIES if family.recognises(task)), None)
