"""What HERA asks a model for: one schema per step, with the paper's fields (App. B)."""

from typing import Literal

from pydantic import Field

from selfwire.core.reply_schema import ReplySchema
from selfwire.evolvers.experience.profile import Difficulty, QueryType

Operation = Literal["ADD", "MERGE", "PRUNE", "KEEP"]


class QueryProfile(ReplySchema):
    """What sort of question it is (Alg. 4, CharacterizeQuery)."""

    query_type: QueryType
    difficulty: Difficulty
    summary: str = Field(description="What it takes to answer such a question, in one sentence without its names.")


class PlanStep(ReplySchema):
    """One step of a plan. Types are loose, as every plan is repaired anyway."""

    step: int = Field(description="Its number, from 1.")
    agent: str = Field(description="Name of an agent.")
    depends_on: list[int | str] = Field(default=[], description="Numbers of the steps whose outputs it reads.")
    mode: str = Field(default="sequential", description="sequential or parallel.")


class TopologyPlan(ReplySchema):
    """A topology as the orchestrator writes it (App. B, topology sampling)."""

    query_profile: str = Field(default="", description="What sort of question it is, in one sentence.")
    selected_agents: list[str] = []
    execution_order: list[PlanStep]


class NewInsight(ReplySchema):
    """One thing that a comparison taught."""

    query_type: str = Field(description="The type of question that it applies to.")
    insight: str = Field(min_length=1, description="What to do for such questions, without names of this one.")


class Reflection(ReplySchema):
    """A group compared (App. B, semantic advantage extraction)."""

    success_factors: list[str] = []
    failure_modes: list[str] = []
    insights: list[NewInsight] = []


class LibraryOperation(ReplySchema):
    """What to do with one new insight."""

    operation: Operation
    new_insight: str = Field(description="Its text, as given.")
    target_entry_ids: list[str] = Field(default=[], description="Entries to merge with or to prune.")
    merged_insight: str | None = Field(default=None, description="The combined text, for MERGE.")
    rationale: str = ""


class LibraryOperations(ReplySchema):
    """Consolidation of the library (App. B, experience library operations)."""

    operations: list[LibraryOperation]


class FailedAgent(ReplySchema):
    """Who is the primary cause of a failure (Alg. 1, IdentifyFailedAgents)."""

    agent: str = Field(description="Name of one agent that ran.")
    cause: str = Field(default="", description="What it did wrong or left out, in one sentence.")


class Mutation(ReplySchema):
    """Two ways to change a topology that keeps failing (Alg. 6)."""

    alternative: str = Field(description="Name of the agent that could take the failed agent's place.")
    name: str = Field(description="Name of a new agent, of one to four words.")
    role: str = Field(description="What the new agent is for, in one line.")
    instruction: str = Field(description="Its whole prompt, in the second person.")
    tools: list[str] = Field(default=[], description="Names out of the tools on offer.")


class PromptVariant(ReplySchema):
    """A prompt varied along one axis (Alg. 5, GenerateVariant)."""

    instructions: list[str] = Field(description="One to three instructions that the variant adds to the prompt.")


class Rule(ReplySchema):
    """A short-term correction."""

    rule: str
    derived_from: str = ""


class Principle(ReplySchema):
    """A long-term strategy."""

    principle: str
    derived_from: str = ""


class Contrast(ReplySchema):
    """What re-executions with prompt variants show (App. B, contrastive analysis)."""

    operational_rules: list[Rule] = []
    behavioral_principles: list[Principle] = []


class Replacement(ReplySchema):
    """An instruction in the place of another one."""

    old: str
    new: str


class PromptDiff(ReplySchema):
    """How to integrate proposals into a prompt (App. B, prompt integration)."""

    added_rules: list[str] = []
    added_principles: list[str] = []
    deleted: list[str] = []
    replaced: list[Replacement] = []
