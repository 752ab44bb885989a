"""Subjects of studies: a method's variants, the mechanisms of a world, or the learning test of a router."""

from selfwire.core.values import FrozenModel
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.worlds.errands import ErrandStudy


class WorldStudy(FrozenModel):
    """A method's world."""

    method: str
    world: str


class LearningTest(FrozenModel):
    """The learning test of a method's router."""

    method: str
    errands: ErrandStudy


Subject = Study | WorldStudy | LearningTest


class StudyHead(FrozenModel):
    """The first line of a study's rows: what it is about."""

    head: Subject
