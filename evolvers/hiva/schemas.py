"""Objects that HiVA asks a model for: one schema per step, with the paper's fields (App. A).

Docstrings and descriptions of schemas are part of the prompts.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, cast

from pydantic import Field, create_model

from selfwire.core.chat import ReplySchema

Sentiment = Literal["positive", "neutral", "critical"]
Concern = Literal["semantics", "topology", "both", "none"]


class Instruction(ReplySchema):
    """What the next agent is told to do."""

    instruction: str = Field(description="What it should do, with all findings that it needs; at most 200 words.")


class TaskProfile(ReplySchema):
    """What a task is about, and whether its parts can be worked on side by side."""

    main_concept: str = Field(description="The most specific concept that names this sort of task.")
    broader: list[str] = Field(description="Concepts above the main one, nearest first, at most 5.", max_length=5)
    concepts: list[str] = Field(description="Further concepts and skills that it needs, at most 12.", max_length=12)
    required_tools: list[str] = Field(description="Names of offered tools that the task cannot be solved without.")
    parallelizability: float = Field(ge=0, le=1, description="0: strictly one step after another; 1: fully parallel.")


class GlobalGradient(ReplySchema):
    """A diagnosis of a team's answer."""

    feedback: str = Field(
        description="What was wrong or right, where, and what those before the last agent should change; "
        "at most 150 words."
    )
    own_feedback: str = Field(
        default="", description="How the agent that gave the answer should itself change; empty if it should not."
    )
    sentiment: Sentiment = Field(
        description="critical: the agent that gave the answer must change; neutral: the fault lies before it."
    )


class AgentGradient(ReplySchema):
    """One agent's share of the feedback on its team's answer."""

    system_prompt_feedback: str = Field(description="How its role or prompt should change; empty if it should not.")
    tool_feedback: str = Field(
        description="How its use of tools should change, what is wrong with a tool of its own, or which tool it lacks; "
        "empty if nothing."
    )
    overall_feedback: str = Field(
        description="What the agents before it and the team around it should change; empty if nothing."
    )
    concerns: Concern = Field(
        description="What has to change: semantics (its prompt or use of tools), topology (the team), both or none."
    )
    sentiment: Sentiment = Field(description="critical if this agent caused or passed on a fault.")


class PromptRewrite(ReplySchema):
    """An agent's improved prompt."""

    prompt: str = Field(min_length=1, description="The whole improved prompt.")


class KnownCall(ReplySchema):
    """A call of a tool whose right result the environment states."""

    arguments: str = Field(description="Its input, a JSON object in a string.")
    result: str = Field(description="The right result, word for word as the environment states it.")


class ToolDecision(ReplySchema):
    """At most one change to an agent's tools."""

    operation: Literal["REWRITE_TOOL", "CREATE_TOOL", "GRANT_TOOL", "NO_CHANGE"]
    tool: str = Field(default="", description="Name of the tool; a new name for CREATE_TOOL.")
    description: str = Field(default="", description="For CREATE_TOOL: what it takes, does and returns.")
    examples: list[KnownCall] = Field(
        default_factory=list, max_length=5, description="Calls of it whose right result the environment states."
    )
    reason: str = Field(default="", description="What is wrong or missing, in one sentence.")


class ToolSource(ReplySchema):
    """The code of a tool."""

    MAX_TOKENS: ClassVar[int] = 1500

    source: str = Field(min_length=1, description="The whole Python code, with the function tool_function.")
    calls: list[str] = Field(
        default_factory=list,
        description="One to three calls to try it with, each its input: a JSON object in a string.",
    )


class TopologyDecision(ReplySchema):
    """At most one change to the team around an agent."""

    operation: Literal["ADD_PARALLEL", "ADD_SERIAL", "REMOVE_SUCCESSOR", "CONNECT_TO_AGGREGATOR", "NO_CHANGE"]
    name: str = Field(default="", description="For ADD_*: two or three words for its job, such as date checker.")
    description: str = Field(default="", description="For ADD_*: what the new agent is and does, as its prompt.")
    successor: str = Field(default="", description="For REMOVE_SUCCESSOR: its id.")
    reason: str = Field(default="", description="Why, in one sentence.")


Decision = TypeVar("Decision", ToolDecision, TopologyDecision)


def offer_operations(schema: type[Decision], offered: Sequence[str]) -> type[Decision]:
    """The schema of a decision as models read it where these operations are offered; a reply may still name others."""
    return cast(type[Decision], _offer_operations(schema, tuple(offered)))


@cache
def _offer_operations(schema: type[ReplySchema], offered: tuple[str, ...]) -> type[ReplySchema]:
    kind: Any = schema.model_fields["operation"].annotation
    shown: Any = Field(json_schema_extra={"enum": list(offered)})
    return create_model(schema.__name__, __base__=schema, __doc__=schema.__doc__, operation=(kind, shown))


class ProgramEdit(ReplySchema):
    """At most one change of the steps or the settings of a program."""

    place: str = Field(default="", description="The change before its colon, exactly as listed; empty for none.")
    name: str = Field(
        default="", description="Of a new agent: two or three words for its job, such as date checker; else empty."
    )
    description: str = Field(default="", description="Of a new agent: what it is and does, as its prompt; else empty.")
    merge: str = Field(
        default="", description="Of an agent beside a step: how the two texts become one, as a prompt; else empty."
    )
    value: str = Field(default="", description="Of a setting: its new value; else empty.")
    reason: str = Field(default="", description="Why, in one sentence.")


class SelfCriticism(ReplySchema):
    """An opinion of one's own answer."""

    criticism: str = Field(description="What is doubtful or missing, and what to change; empty if nothing.")
    sentiment: Sentiment = Field(
        description="critical: the agent that gave the answer must change; neutral: the fault lies before it."
    )
    good_enough: bool = Field(description="Whether the answer can stand as it is.")
