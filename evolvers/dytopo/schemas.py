"""What DyTopo asks models for: one reply per worker and round, one verdict of the manager (App. B.1)."""

from functools import cache
from typing import Any, Literal

from pydantic import Field, create_model

from selfwire.core.reply_schema import ReplySchema

Checked = Literal["pass", "fail", "open"]


class Note(ReplySchema):
    """One entry of the private channel; a list of them, as strict schemas allow no open objects."""

    to: str = Field(description="Role that it is meant for; empty for whoever needs it.")
    text: str = Field(description="The message.")


class Call(ReplySchema):
    """A wish to use a tool."""

    tool: str = Field(description="Name of the tool.")
    arguments: str = Field(description="Its input as a JSON object.")


class Turn(ReplySchema):
    """What a worker says in a round: the four outputs of equation 2."""

    public: str = Field(description="Your contribution to the task, for the record.")
    private: list[Note] = Field(default_factory=list, description="Messages for other roles.")
    query: str = Field(default="", description="One sentence: what you need from others next.")
    key: str = Field(default="", description="One sentence: what you can give to others.")


_EXTRAS: dict[str, Any] = {
    "answer": (str, Field(default="", description="The whole final answer; empty while it is not known.")),
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
    return create_model("".join(["Turn", *(f"With{name.title()}" for name in extras)]), __base__=Turn, **extras)


class Verdict(ReplySchema, title="Halting"):
    """The manager's policy of equation 13."""

    is_complete: bool = Field(description="Whether the task is done and the result has been verified.")
    next_goal: str = Field(description="What the team should achieve in the next round.")
    public: str = Field(default="", description="Where the team stands, in a few sentences.")
