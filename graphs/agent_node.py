"""One node's turn in a team: read the inbox, act, decide who is next, hand over.

A team's state is its steps as plain JSON by node. Everything else follows from them: chosen nodes, waiting messages,
a router's input.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from selfwire.core.agent import Agent
from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ConfigError, ModelError, format_error
from selfwire.core.protocols import AgentRunner, InstructionWriter, Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Routing, Step
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.graphs.layout import Layout, StepsByNode
from selfwire.graphs.routers import route_to_all


class Level:
    """A level before its decisions: results of the levels above, and its nodes' choices."""

    def __init__(self, layout: Layout, steps: StepsByNode) -> None:
        self.layout, self.steps = layout, steps
        done = [steps[name] for name in layout.place if name in steps]
        chosen = (target for step in done if "routing" in step for target in step["routing"]["chosen"])
        self.selected = tuple(dict.fromkeys((layout.topology.entry, *chosen)))
        self.outputs = {step["node"]: step.get("output", "") for step in done if "error" not in step}
        self.decisions: dict[str, tuple[str, ...]] = {}

    def known(self, node: str, run: "TeamContext", output: str) -> RouterInput:
        """The router's input at a node, with the decisions of its earlier siblings."""
        selected = dict.fromkeys(self.selected)
        siblings = self.layout.topology.levels()[self.layout.depth[node]]
        for sibling in siblings[: siblings.index(node)]:
            if sibling in self.selected:
                selected.update(dict.fromkeys(self._decision(sibling, run, tuple(selected))))
        return self._known(node, run, output, tuple(selected))

    def _decision(self, sibling: str, run: "TeamContext", selected: tuple[str, ...]) -> tuple[str, ...]:
        if sibling not in self.decisions:
            routing = choose_successors(self.layout, sibling, run, self._known(sibling, run, "", selected))
            self.decisions[sibling] = routing.chosen if routing else ()
        return self.decisions[sibling]

    def _known(self, node: str, run: "TeamContext", output: str, selected: tuple[str, ...]) -> RouterInput:
        scope, sink = run.scope.at(node=node), self.layout.topology.sink
        return RouterInput(run.question, scope, output, sink, selected=selected, outputs=self.outputs)


@dataclass(frozen=True, eq=False)
class TeamContext:
    """Everything that a run of a team needs beside its topology; nodes get it as LangGraph's `context`.

    Args:
        scope: coordinates: run, iteration, phase, task, sample; `visit` is the round, from 0.
        router: chooses among a node's successors.
        instruct: writes the message to each chosen successor but the sink; None hands on the output unchanged.
        acted: nodes that have begun their turn; empty after a finished run was resumed.
    """

    question: Question
    scope: Scope
    agents: Mapping[str, Agent]
    act: AgentRunner
    router: Router
    instruct: InstructionWriter | None = None
    workflow: str = ""
    acted: list[str] = field(default_factory=list, init=False, repr=False)
    _level: list[Level] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(
        cls,
        workflow: Workflow,
        question: Question,
        scope: Scope,
        act: AgentRunner,
        *,
        router: Router = route_to_all,
        instruct: InstructionWriter | None = None,
        agents: Mapping[str, Agent] | None = None,
    ) -> "TeamContext":
        """The context of a workflow's team; its agents are the workflow's, and all successors run, by default."""
        found = workflow.agents_by_id if agents is None else agents
        return cls(question, scope, found, act, router, instruct, workflow.fingerprint)

    def agent(self, name: str) -> Agent:
        """An agent of the pool.

        Raises:
            ConfigError: the pool lacks it.
        """
        if name not in self.agents:
            raise ConfigError(f"the team needs agent {name!r}; this run has {', '.join(self.agents) or 'none'}")
        return self.agents[name]

    def level(self, layout: Layout, steps: StepsByNode) -> Level:
        """The level that follows `steps`; nodes that run in one superstep share one, and so its decisions."""
        if not self._level or self._level[0].steps is not steps:
            self._level[:] = [Level(layout, steps)]
        return self._level[0]


def choose_successors(layout: Layout, node: str, run: TeamContext, known: RouterInput) -> Routing | None:
    """The router's choice at a node; None if there are no successors.

    Raises:
        ValueError: the router chose a node that is not a successor, or one twice.
    """
    successors = layout.topology.successors[node]
    if not successors:
        return None
    routing = run.router(node, successors, known)
    if len(set(routing.chosen)) != len(routing.chosen) or not set(routing.chosen) <= set(successors):
        raise ValueError(f"the router chose {routing.chosen} at {node!r}, whose successors are {successors}")
    return routing


class NodeResult(NamedTuple):
    """A finished turn: the step, its messages as JSON, and the cost of writing them."""

    step: Step
    sent: tuple[dict[str, str], ...] = ()
    handing: Usage = ZERO_USAGE

    @property
    def usage(self) -> Usage:
        """Cost of the turn."""
        return self.step.usage + self.handing

    @property
    def whole(self) -> Step:
        """The step with its messages."""
        return self.step.replace(sent=self.sent, usage=self.usage) if self.sent else self.step

    @property
    def json(self) -> dict[str, Any]:
        """The step for the state of a team's graph, without the inbox, which follows from the sent messages."""
        step = self.step.model_dump(mode="json", exclude={"inbox"}, exclude_defaults=True)
        if self.handing is not ZERO_USAGE:
            step["usage"] = self.usage.model_dump(mode="json")
        return {"node": self.step.node, **step, "sent": [*self.sent]}


async def run_agent_node(
    layout: Layout, node: str, run: TeamContext, steps: StepsByNode, carried: Sequence[Mapping[str, str]]
) -> NodeResult:
    """Run a node's turn. An agent whose model failed leaves an error and sends nothing.

    Raises:
        BudgetError, ConfigError, ...: every error but a ModelError.
    """
    agent, scope = run.agent(layout.topology.agents[node]), run.scope.at(node=node)
    run.acted.append(node)
    inbox, usage = layout.inbox(node, steps, carried), ZERO_USAGE
    place = {"node": node, "agent": agent.id, "visit": scope.visit, "inbox": inbox}
    try:
        acted = await run.act(agent, run.question, inbox, scope=scope)
        usage = acted.usage
        routing = None
        if layout.topology.successors[node]:
            routing = choose_successors(layout, node, run, run.level(layout, steps).known(node, run, acted.output))
        wanted = {**place, "routing": routing, "sent": ()}
        stands = all(getattr(acted, name) == value for name, value in wanted.items())
        step = acted if stands else acted.replace(**wanted)
        texts, handing = await _write_messages(layout, run, step, scope)
    except ModelError as error:
        return NodeResult(Step(**place, usage=usage + get_error_cost(error), error=format_error(error)))
    sent = tuple({"source": node, "target": target, "text": text} for target, text in texts.items())
    return NodeResult(step, sent, handing)


async def _write_messages(layout: Layout, run: TeamContext, step: Step, scope: Scope) -> tuple[dict[str, str], Usage]:
    chosen = step.routing.chosen if step.routing else ()
    texts = dict.fromkeys(chosen, step.output)
    instructed = [target for target in chosen if target != layout.topology.sink]
    instruct = run.instruct
    if instruct is None or not instructed:
        return texts, ZERO_USAGE
    heirs = [run.agent(layout.topology.agents[target]) for target in instructed]
    scopes = [scope.at(node=f"{step.node}>{target}") for target in instructed]
    written = await asyncio.gather(
        *(instruct(run.question, step, heir, place) for heir, place in zip(heirs, scopes, strict=True)),
        return_exceptions=True,  # all settle before the first failure is raised: none is left in flight
    )
    finished = [one for one in written if not isinstance(one, BaseException)]
    spent = sum_usages(usage for _, usage in finished)
    if failed := [one for one in written if isinstance(one, BaseException)]:
        if isinstance(failed[0], ModelError):  # its cost is that of the whole hand-over
            failed[0].cost = sum_usages(
                [spent, *(get_error_cost(one) for one in failed if isinstance(one, ModelError))]
            )
        raise failed[0]
    texts.update(zip(instructed, (text for text, _ in finished), strict=True))
    return texts, spent
