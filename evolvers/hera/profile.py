"""Characterises a question before it is planned for (Alg. 4, line 2)."""

from selfwire.core.excerpt import excerpt
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.experience.library import ExperienceLibrary
from selfwire.evolvers.experience.profile import Profile
from selfwire.evolvers.hera.schemas import QueryProfile
from selfwire.evolvers.prompted_model import PromptedModel

SUMMARY_LENGTH = 300
TASK_LENGTH = 3_000
"""Characters of a question by which its sort shows: how it begins and ends."""


class Brief(FrozenModel):
    """What is known of a question before it is planned for: c, E_rel, and the cost of finding both."""

    profile: Profile = Profile()
    insights: ExperienceLibrary = ()
    usage: Usage = Usage()


async def characterize_query(question: Question, orchestrator: PromptedModel, *, scope: Scope) -> tuple[Profile, Usage]:
    """CharacterizeQuery; a question without a valid profile gets the default one.

    Raises:
        ModelError: the call failed.
    """
    here, task = scope.at(task=question.id, node="characterize"), excerpt(question.input, TASK_LENGTH)
    reply, usage = await orchestrator.ask_or(None, QueryProfile, "characterize", scope=here, task=task)
    if reply is None:
        return Profile(), usage
    summary = " ".join(reply.summary.split())[:SUMMARY_LENGTH]
    return Profile(type=reply.query_type, difficulty=reply.difficulty, summary=summary), usage
