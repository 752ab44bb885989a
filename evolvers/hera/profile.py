"""What sort of question it is: the profile by which experience is found again (Alg. 4, line 2; App. D.1)."""

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.hera.schemas import Difficulty, QueryProfile, QueryType
from selfwire.evolvers.prompted_model import PromptedModel

SUMMARY_LENGTH = 300


class Profile(FrozenModel):
    """A query's characteristics c.

    Args:
        type: one of the paper's types of question; other where none fits.
        difficulty: easy, medium or hard.
        summary: what such a question takes, in a sentence.
    """

    type: QueryType = "other"
    difficulty: Difficulty = "medium"
    summary: str = ""

    @property
    def text(self) -> str:
        """The profile as it is shown."""
        return f"{self.type} question, {self.difficulty}. {self.summary}".strip()


async def characterize_query(question: Question, orchestrator: PromptedModel, *, scope: Scope) -> tuple[Profile, Usage]:
    """CharacterizeQuery: a question without a valid profile is one of no particular type.

    Raises:
        ModelError, BudgetError: the call failed.
    """
    place = scope.at(task=question.id, node="characterize")
    try:
        found, usage = await orchestrator.ask(QueryProfile, "characterize", scope=place, task=question.input)
    except ReplyError as error:
        return Profile(), get_error_cost(error)
    summary = " ".join(found.summary.split())[:SUMMARY_LENGTH]
    return Profile(type=found.query_type, difficulty=found.difficulty, summary=summary), usage


def parse_query_type(text: str) -> QueryType | None:
    """The type that a model's words mean; None where they name none."""
    types: dict[str, QueryType] = {
        "bridge": "bridge",
        "intersection": "intersection",
        "comparison": "comparison",
        "temporal": "temporal",
        "causal": "causal",
        "ambiguous": "ambiguous",
        "other": "other",
    }
    lowered = text.lower()
    return next((found for name, found in types.items() if name in lowered), None)
