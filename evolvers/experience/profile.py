"""The profile of a question, by which experience with similar questions is found again (HERA, Alg. 4, App. D.1)."""

from typing import Literal, get_args

from selfwire.core.values import FrozenModel

QueryType = Literal["bridge", "intersection", "comparison", "temporal", "causal", "ambiguous", "other"]
"""The paper's types of question (App. D.1), and one for all others."""
Difficulty = Literal["easy", "medium", "hard"]


class Profile(FrozenModel):
    """A query's characteristics c; `summary` is what such a question takes, in a sentence."""

    type: QueryType = "other"
    difficulty: Difficulty = "medium"
    summary: str = ""

    @property
    def text(self) -> str:
        """The profile as models read it."""
        return f"{self.type} question, {self.difficulty}. {self.summary}".strip()


def parse_query_type(text: str) -> QueryType | None:
    """The first type that a model's words name; None where they name none."""
    types: tuple[QueryType, ...] = get_args(QueryType)
    lowered = text.lower()
    return next((name for name in types if name in lowered), None)
