"""Choices per run of a graph that people use; every agent's prompt can be edited."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError, format_faults
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow

PROMPT = "prompt_"
"""Prefix of the fields that hold an agent's prompt; the agent's id follows."""


class RunContext(BaseModel):
    """Choices per run of every method; each field has a description.

    Raises:
        ConfigError: a choice is unknown or out of bounds.
    """

    model_config = ConfigDict(extra="forbid")

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
        try:
            super().__init__(**chosen)
        except ValidationError as error:
            raise ConfigError(
                f"context: {format_faults(error)}; choices are {', '.join(type(self).model_fields)}"
            ) from None

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts that were edited for this run, by agent; a blank prompt is not an edit."""
        fields = type(self).model_fields
        given = {name: getattr(self, name) for name in fields if name.startswith(PROMPT)}
        return {
            name.removeprefix(PROMPT): text
            for name, text in given.items()
            if text.strip() and text != fields[name].default
        }


ContextT = TypeVar("ContextT", bound=RunContext)


def get_run_context(schema: type[ContextT]) -> ContextT:
    """The choices of the current run; the defaults where it has none of this class."""
    context = get_runtime(schema).context
    return context if isinstance(context, schema) else schema()


def context_schema(
    schema: type[ContextT], workflow: Workflow, agent_nodes: Mapping[str, str] = FrozenMap()
) -> type[ContextT]:
    """The class of choices for a graph that starts from a workflow, with an editable prompt per agent.

    Args:
        agent_nodes: where agents without a node work, by agent: a node of the method's own graph.
    """
    editable = []
    for agent in workflow.agents:
        nodes = [node.id for node in workflow.topology.nodes if node.agent == agent.id]
        nodes += [agent_nodes[agent.id]] if agent.id in agent_nodes else []
        editable.append((agent.id, agent.prompt, tuple(nodes)))
    made: type[ContextT] = _with_prompts(schema, tuple(editable))
    return made


@lru_cache(maxsize=256)
def _with_prompts(schema: type[RunContext], editable: tuple[tuple[str, str, tuple[str, ...]], ...]) -> Any:
    """Cached, as pydantic is slow at it and a method makes its graph anew for every question."""
    prompts: dict[str, Any] = {}
    for agent, prompt, nodes in editable:
        where: dict[str, Any] = {"langgraph_nodes": list(nodes), "langgraph_type": "prompt"}
        field = Field(default=prompt, description=f"Prompt of {agent}, for this run only.", json_schema_extra=where)
        prompts[PROMPT + agent] = (str, field)
    return create_model(schema.__name__, __base__=schema, **prompts)


def apply_prompt_edits(workflow: Workflow, context: RunContext) -> Workflow:
    """The workflow with the prompts that were edited for this run.

    Raises:
        ConfigError: an edited agent is not in the team any more.
    """
    prompts = context.prompts
    if not prompts:
        return workflow
    if gone := prompts.keys() - workflow.agents_by_id.keys():
        raise ConfigError(f"the team has no {', '.join(sorted(gone))}; agents are {', '.join(workflow.agents_by_id)}")
    edits = [RewritePrompt(agent, text) for agent, text in prompts.items()]
    return workflow.apply(Rewiring(*edits, why="edited for this run"))
