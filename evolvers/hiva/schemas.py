"""What HiVA asks a model for: one schema per step, with the paper's fields (App. A)."""

from typing import Literal

from pydantic import Field

from selfwire.core.reply_schema import ReplySchema

Sentiment = Literal["positive", "neutral", "critical"]


class Instruction(ReplySchema):
    """What an agent tells a chosen successor to do (Fig. 6)."""

    instruction: str = Field(description="What the successor should do, with all context that it needs.")


class TaskProfile(ReplySchema):
    """What a task is about (App. D.3), and whether its parts can be worked on side by side."""

    main_concept: str = Field(description="The most specific concept that names this sort of task.")
    broader: list[str] = Field(description="Concepts above the main one, nearest first, no root.", max_length=5)
    concepts: list[str] = Field(description="Further concepts and skills that the task needs.", max_length=12)
    required_tools: list[str] = Field(description="Names of offered tools that the task cannot be solved without.")
    parallelizability: float = Field(ge=0, le=1, description="0: strictly one step after another; 1: fully parallel.")


class GlobalGradient(ReplySchema):
    """The aggregator's diagnosis of the environment's feedback (Fig. 7)."""

    feedback: str = Field(description="What was wrong or right with the final answer, and what to change.")
    sentiment: Sentiment = Field(description="critical if the aggregator itself must change.")


class AgentGradient(ReplySchema):
    """One agent's share of the blame, out of its successors' gradients (Fig. 8)."""

    system_prompt_feedback: str = Field(description="How its role or prompt should change; empty if it should not.")
    tool_feedback: str = Field(description="How its use of tools should change; empty if it should not.")
    overall_feedback: str = Field(description="What its predecessors and the team around it should change.")
    sentiment: Sentiment = Field(description="critical if this agent caused or passed on a fault.")


class ParsedGradient(ReplySchema):
    """The textual gradient parser's verdict: what a gradient concerns (Sec. 3.1)."""

    concerns: Literal["semantics", "topology", "both", "none"]


class PromptRewrite(ReplySchema):
    """A rewritten prompt, whole (Fig. 9)."""

    prompt: str = Field(min_length=1, description="The whole improved prompt.")


class TopologyDecision(ReplySchema):
    """One change around an agent (Fig. 10)."""

    operation: Literal["ADD_PARALLEL", "ADD_SERIAL", "REMOVE_SUCCESSOR", "CONNECT_TO_AGGREGATOR", "NO_CHANGE"]
    description: str = Field(default="", description="For ADD_*: what the new agent is and does, as its prompt.")
    successor: str = Field(default="", description="For REMOVE_SUCCESSOR: its id.")
    reason: str = Field(default="", description="Why, in one sentence.")


class SelfCriticism(ReplySchema):
    """The aggregator's opinion of its own answer, where there is no environment."""

    criticism: str = Field(description="What is doubtful or missing in the answer; empty if nothing.")
    good_enough: bool
