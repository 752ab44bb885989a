"""What flows through HiVA's machine, and what can be chosen per run."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError
from selfwire.core.workflow import Workflow

PROMPT = "prompt_"
"""Begins the names of the fields that hold an agent's prompt; the agent's id follows."""


class HivaContext(BaseModel):
    """What can be chosen per run; each field's description says what it does.

    Raises:
        ConfigError: a choice is unknown or out of bounds.
    """

    model_config = ConfigDict(extra="forbid")

    evolve: bool = Field(default=False, description="Whether the team learns from this question.")
    iterations: int = Field(default=1, ge=1, le=100, description="Most rounds of evolution on this question (T).")
    seed: int = Field(default=0, ge=0, description="Seed of everything drawn.")
    model: str | None = Field(
        default=None, min_length=1, description="Chat model, such as openai:gpt-4o-mini; empty for the graph's own."
    )
    calls: int | None = Field(default=None, ge=1, description="Most model calls, within the graph's own budget.")
    tokens: int | None = Field(default=None, ge=1, description="Most tokens, within the graph's own budget.")
    workflow: str | None = Field(
        default=None, min_length=1, description="Saved workflow to run: a name, name@version or fingerprint."
    )

    def __init__(self, **chosen: Any) -> None:
        """Take the choices by name."""
        try:
            super().__init__(**chosen)
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise ConfigError(f"context: {told}; choices are {', '.join(type(self).model_fields)}") from None

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts that were edited for this run, by agent; a blank one is none."""
        fields = type(self).model_fields
        given = {name: getattr(self, name) for name in fields if name.startswith(PROMPT)}
        return {
            name.removeprefix(PROMPT): text
            for name, text in given.items()
            if text.strip() and text != fields[name].default
        }


class HivaInput(TypedDict):
    """What a run is given."""

    question: str


class HivaState(TypedDict, total=False):
    """What flows through the machine, as JSON.

    Keys:
        question: the user's question; the machine's input.
        answer: the machine's output.
        usage: what the question has cost so far; attempts that raised are not in it.
        workflow: the current workflow.
        ran: the workflow that made this round's trajectories; set as learning begins.
        trajectories: of this round.
        reflection: what loss to evolve_topology have cost in this round.
        losses, passes: per trajectory; a pass is None where nothing is propagated.
        applied, declined: rewirings of this round, and proposals that were not applied.
        iteration: rounds of evolution done on this question.
        solved: whether every answer of this round was; None where nothing says.
        oracle: whether labels were used on this very question.
        scope: place of the run.
    """

    question: str
    answer: str
    usage: dict[str, Any]
    workflow: dict[str, Any]
    ran: dict[str, Any]
    trajectories: list[dict[str, Any]]
    reflection: dict[str, Any]
    losses: list[dict[str, Any]]
    passes: list[dict[str, Any] | None]
    applied: list[dict[str, Any]]
    declined: list[dict[str, Any]]
    iteration: int
    solved: bool | None
    oracle: bool
    scope: dict[str, Any]


def context_schema(workflow: Workflow) -> type[HivaContext]:
    """The choices of a graph that starts from a workflow: an editable prompt per agent among them."""
    prompts: dict[str, Any] = {}
    for agent in workflow.agents:
        nodes = [node.id for node in workflow.topology.nodes if node.agent == agent.id]
        where: dict[str, Any] = {"langgraph_nodes": nodes, "langgraph_type": "prompt"}
        told = f"Prompt of {agent.id}, for this run only."
        prompts[PROMPT + agent.id] = (str, Field(default=agent.prompt, description=told, json_schema_extra=where))
    return create_model("HivaContext", __base__=HivaContext, **prompts)


def edited(workflow: Workflow, context: HivaContext) -> Workflow:
    """The workflow with the prompts that were edited for this run.

    Raises:
        ConfigError: the run evolves, which would keep the edits, or an edited agent is not there any more.
    """
    prompts = context.prompts
    if not prompts:
        return workflow
    if context.evolve:
        raise ConfigError(
            f"prompts of {', '.join(prompts)} are edited for this run only, and evolve would keep what it makes "
            "of them: take the edits back or turn evolve off"
        )
    if gone := prompts.keys() - workflow.pool.keys():
        raise ConfigError(f"the thread's team has no {', '.join(sorted(gone))}; agents are {', '.join(workflow.pool)}")
    edits = [RewritePrompt(agent, text) for agent, text in prompts.items()]
    return workflow.apply(Rewiring(*edits, why="edited for this run"))
