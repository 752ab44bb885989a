"""Replies that DyTopo asks models for: of every worker, of the manager (App. B.1, Eq. 2 and 13).

Models read the docstrings of the classes.
"""

from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import Field, create_model

from selfwire.core.chat import ReplySchema

Checked = Literal["pass", "fail", "open"]


class Call(ReplySchema):
    """A use of a tool."""

    tool: str = Field(description="Name of the tool.")
    arguments: str = Field(description="Its input, a JSON object in a string.")


class Turn(ReplySchema):
    """What you say in a round."""

    public: str = Field(description="Your contribution in this round; the manager reads it.")
    private: str = Field(default="", description="What somebody who needs your offer has to read; empty if nothing.")
    query: str = Field(default="", description="One sentence: what you need from others next; empty if nothing.")
    key: str = Field(default="", description="One sentence: what you can hand over now; empty if nothing.")


_EXTRAS: dict[str, Any] = {
    "answer": (
        str,
        Field(default="", description="The whole final answer as the task wants it; empty while unknown or unchanged."),
    ),
    "verdict": (Checked, Field(default="open", description="Whether the solution that you were sent is right.")),
    "calls": (list[Call], Field(default_factory=list, description="Tools to use; you read the results next round.")),
}


@cache
def turn_schema(*, answers: bool = False, checks: bool = False, tools: bool = False) -> type[Turn]:
    """The reply of a worker who answers the task, checks a solution (D4) or holds tools (D5)."""
    wanted = {"answer": answers, "verdict": checks, "calls": tools}
    extras = {name: field for name, field in _EXTRAS.items() if wanted[name]}
    if not extras:
        return Turn
    name = "".join(["Turn", *(f"With{name.title()}" for name in extras)])
    return create_model(name, __base__=Turn, __doc__=Turn.__doc__, **extras)


class Halting(ReplySchema):
    """Whether the team is done, and its next goal."""

    MAX_TOKENS: ClassVar[int] = 400

    is_complete: bool = Field(description="Whether the task is done.")
    next_goal: str = Field(description="What the next round should achieve, in at most 60 words; empty if done.")
    speakers: list[str] = Field(default_factory=list, description="Members who speak in the next round; empty for all.")
    public: str = Field(default="", description="Where the team stands, in one sentence.")
