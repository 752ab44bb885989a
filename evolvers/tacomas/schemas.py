"""What TacoMAS asks a model for: one schema per step, with the paper's fields (App. D)."""

from typing import Literal

from pydantic import Field, field_validator

from selfwire.core.reply_schema import ReplySchema

Operator = Literal["correctness", "contradiction"]
TimeControl = Literal["continue", "slow_again", "stop"]


class ChecklistItem(ReplySchema):
    """One thing to check in an answer."""

    criterion: str = Field(min_length=1, description="A statement that is either true or false of an answer.")
    operator: Operator = Field(description="contradiction if a good answer must not be what the criterion says.")


class Checklist(ReplySchema):
    """What a good answer must satisfy, drafted from the question alone."""

    items: list[ChecklistItem] = Field(min_length=4, max_length=6)


class Verdict(ReplySchema):
    """The judge's finding on every item (Listing 6)."""

    results: list[bool] = Field(description="One per item, in its order: whether the criterion is true of the answer.")
    reason: str = Field(default="", description="Why, in a sentence or two.")


class AgentScore(ReplySchema):
    """How much one agent contributed (Listing 7)."""

    agent: str = Field(description="Its id.")
    score: float = Field(ge=0, le=1, description="0, 0.3, 0.5, 0.7 or 1 by the rubric; values between are allowed.")
    reason: str = Field(description="Why, in one sentence.")


class Contributions(ReplySchema):
    """The meta-judge's scores, one per agent."""

    scores: list[AgentScore]


class Refinement(ReplySchema):
    """The coach's diagnosis of one agent's work in a round (Listing 5)."""

    errors: str = Field(description="What it did wrong; empty if nothing.")
    plan: str = Field(description="What it should do in the next round.")
    kind: Literal["prompt", "memory", "tool"] = Field(description="What the update is: a rule, a fact, a use of tools.")
    update: str = Field(description="One concrete update; empty if none is needed.")


class NewAgent(ReplySchema):
    """The agent that is to be born."""

    role: str = Field(description="A name of one to four words.")
    goal: str = Field(description="What it does, as an instruction to it.")
    tools: list[str] = Field(default=[], description="Names out of the tools on offer.")


class BirthDeathPair(ReplySchema):
    """A replacement, a birth (v_dead null) or a death (v_new null)."""

    v_dead: str | None = Field(default=None, description="Id of the agent that goes.")
    v_new: NewAgent | None = None

    @field_validator("v_dead")
    @classmethod
    def _nobody(cls, v_dead: str | None) -> str | None:
        return (v_dead and v_dead.strip()) or None  # models that must fill every field write "" for nobody


class EdgeEdit(ReplySchema):
    """One edge more or less."""

    op: Literal["edge_add", "edge_remove"]
    source: str = Field(description="Id of the agent that writes.")
    target: str = Field(description="Id of the agent that reads.")


class AgentFeedback(ReplySchema):
    """What one agent keeps of a slow update."""

    agent: str
    prompt_delta: str = Field(default="", description="Added to its prompt; empty if nothing.")
    memory_seed: str = Field(default="", description="Added to its notes; empty if nothing.")


class SlowUpdate(ReplySchema):
    """A structural delta (Listing 12). Its lists are not limited here: what exceeds a budget is dropped and told."""

    birth_death_pairs: list[BirthDeathPair] = []
    graph_edit: list[EdgeEdit] = []
    agent_feedback: list[AgentFeedback] = []
    global_rationale: str = ""
    time_control: TimeControl = "continue"
