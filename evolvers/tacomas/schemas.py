"""Reply schemas of TacoMAS, one per step, with the paper's fields (App. D). Models read the docstrings."""

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from selfwire.core.chat import ReplySchema

Operator = Literal["correctness", "contradiction"]
TimeControl = Literal["continue", "slow_again", "stop"]


class ChecklistItem(ReplySchema):
    """One thing to check in an answer."""

    criterion: str = Field(min_length=1, description="A statement that is either true or false of an answer.")
    operator: Operator = Field(description="correctness, or contradiction if the statement names a mistake.")


class Checklist(ReplySchema):
    """What a good answer must satisfy."""

    MAX_TOKENS: ClassVar[int] = 800

    items: list[ChecklistItem] = Field(min_length=4, max_length=6, description="5 items.")


class Verdict(ReplySchema):
    """The finding on every item of the checklist."""

    MAX_TOKENS: ClassVar[int] = 400

    results: list[bool] = Field(description="One per item, in its order: whether its statement is true of the answer.")
    impossible: list[int] = Field(default=[], description="Numbers of items that no answer to this task could pass.")
    reason: str = Field(default="", description="What decided, in at most 40 words.")


class AgentScore(ReplySchema):
    """How much one agent contributed."""

    agent: str = Field(description="Its id.")
    score: float = Field(ge=0, le=1, description="From 0 to 1: 0, 0.3, 0.5, 0.7, 1 or a value between.")
    reason: str = Field(description="What made the difference, in at most 25 words.")


class Contributions(ReplySchema):
    """The contributions, one entry per agent."""

    MAX_TOKENS: ClassVar[int] = 1500

    scores: list[AgentScore]


class AgentRefinement(ReplySchema):
    """What one agent should do otherwise."""

    agent: str = Field(description="Its id.")
    errors: str = Field(default="", description="What it did wrong, in at most 30 words; empty if nothing.")
    plan: str = Field(default="", description="What it should do in the next round, in at most 40 words.")
    kind: Literal["prompt", "memory", "tool"] = Field(description="What the update is: a rule, a fact, a use of tools.")
    update: str = Field(default="", description="One concrete update, in at most 30 words; empty if none is needed.")
    drop: list[int] = Field(default=[], description="Numbers of its notes that no longer hold.")


class Refinement(ReplySchema):
    """The coach's advice."""

    MAX_TOKENS: ClassVar[int] = 1500

    agents: list[AgentRefinement] = Field(description="One entry per agent that should work differently.")


class NewAgent(ReplySchema):
    """An agent that joins the team."""

    role: str = Field(description="A name of one to four words.")
    goal: str = Field(description="What it does, as an instruction to it, in at most 60 words.")
    tools: list[str] = Field(default=[], description="Names of tools on offer.")


class BirthDeathPair(ReplySchema):
    """A replacement, a birth (v_dead null) or a death (v_new null)."""

    v_dead: str | None = Field(default=None, description="Id of the agent that goes; null if none goes.")
    v_new: NewAgent | None = Field(default=None, description="The agent that comes; null if none comes.")

    @field_validator("v_dead")
    @classmethod
    def _nobody(cls, v_dead: str | None) -> str | None:
        said = (v_dead or "").strip()
        return None if said.lower() in ("", "null", "none") else said  # models that must fill every field write these


class EdgeEdit(ReplySchema):
    """One edge more or less."""

    op: Literal["edge_add", "edge_remove"]
    source: str = Field(description="Id of the agent that writes.")
    target: str = Field(description="Id of the agent that reads.")


class AgentFeedback(ReplySchema):
    """What one agent is told for the rounds to come."""

    agent: str = Field(description="Its id.")
    prompt_delta: str = Field(default="", description="An instruction to add to its prompt; empty if nothing.")
    memory_seed: str = Field(default="", description="A note to add to its memory; empty if nothing.")


class SlowUpdate(ReplySchema):
    """The changes of the team; empty lists change nothing."""

    MAX_TOKENS: ClassVar[int] = 1500

    birth_death_pairs: list[BirthDeathPair] = []
    graph_edit: list[EdgeEdit] = Field(default=[], description="The most important edit first.")
    agent_feedback: list[AgentFeedback] = []
    global_rationale: str = Field(default="", description="Why, in at most 60 words.")
    time_control: TimeControl = "continue"
