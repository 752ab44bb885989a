"""Reply schemas of HERA's calls: one per step, with the paper's fields (App. B).

Docstrings and descriptions of schemas are part of the prompts.
"""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from selfwire.core.chat import ReplySchema
from selfwire.evolvers.hera.library import Difficulty, QueryType

Operation = Literal["ADD", "MERGE", "PRUNE", "KEEP"]


class QueryProfile(ReplySchema):
    """What sort of question it is."""

    query_type: QueryType
    difficulty: Difficulty
    summary: str = Field(description="What it takes to answer such a question, in one sentence without its names.")


class PlanStep(ReplySchema):
    """One step of a plan."""

    step: int = Field(description="Its number, from 1.")
    agent: str = Field(description="Name of an agent, as listed.")
    depends_on: list[Annotated[int | str, WithJsonSchema({"type": "integer"})]] = Field(
        default=[], description="Numbers of the steps whose outputs it reads."
    )


class TopologyPlan(ReplySchema):
    """Who takes part, in which order, and who reads whose output."""

    execution_order: list[PlanStep] = Field(description="The steps, in order; the last one answers.")


class NewInsight(ReplySchema):
    """One thing that the comparison teaches."""

    query_type: str = Field(description="The type of question that it applies to.")
    insight: str = Field(min_length=1, description="What to do for such questions, without names of this one.")


class Reflection(ReplySchema):
    """What made the difference between good and bad runs."""

    success_factors: list[str] = Field(default=[], description="What only the successful runs did.")
    failure_modes: list[str] = Field(default=[], description="What went wrong in the others.")
    insights: list[NewInsight] = Field(default=[], description="At most three.")


class LibraryOperation(ReplySchema):
    """What to do with one new insight."""

    operation: Operation
    new_insight: str = Field(description="Its text, as given.")
    target_entry_ids: list[str] = Field(default=[], description="Entries to merge with or to prune.")
    merged_insight: str | None = Field(default=None, description="The combined text, for MERGE.")
    rationale: str = Field(default="", description="Why, in one sentence.")


class LibraryOperations(ReplySchema):
    """What becomes of the new insights, one operation for each."""

    operations: list[LibraryOperation]


class FailedAgent(ReplySchema):
    """Who is the primary cause of a failure."""

    agent: str = Field(description="Name of one agent that ran.")
    cause: str = Field(default="", description="What it did wrong or left out, in one sentence.")


class Mutation(ReplySchema):
    """Two ways to change a topology that keeps failing."""

    alternative: str = Field(description="Name of the agent that could take the failed agent's place.")
    name: str = Field(description="Name of a new agent, of one to four words.")
    role: str = Field(description="What the new agent is for, in one line.")
    instruction: str = Field(description="Its whole prompt, in the second person.")
    tools: list[str] = Field(default=[], description="Names out of the tools on offer.")


class PromptVariant(ReplySchema):
    """A prompt varied in one direction."""

    instructions: list[str] = Field(description="One to three instructions that the variant adds to the prompt.")


class Rule(ReplySchema):
    """A short-term correction."""

    rule: str = Field(description="One concrete instruction.")
    derived_from: str = Field(default="", description="The comparison that supports it.")


class Principle(ReplySchema):
    """A long-term strategy."""

    principle: str = Field(description="One general instruction.")
    derived_from: str = Field(default="", description="The comparisons that support it.")


class Contrast(ReplySchema):
    """What an agent should be told, as an experiment with its prompt shows."""

    operational_rules: list[Rule] = Field(default=[], description="Short-term corrections, at most three.")
    behavioral_principles: list[Principle] = Field(default=[], description="Long-term strategies, at most three.")


class Replacement(ReplySchema):
    """An instruction in the place of another one."""

    old: str = Field(description="The line as it stands, without the dash.")
    new: str = Field(description="The line that takes its place.")


class PromptDiff(ReplySchema):
    """How proposals are integrated into a prompt."""

    added_rules: list[str] = []
    added_principles: list[str] = []
    deleted: list[str] = Field(default=[], description="Rules as they stand, without the dash.")
    replaced: list[Replacement] = []
