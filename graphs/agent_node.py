"""One node's turn in a team: read the inbox, act, decide who is next, hand over.

What flows through a team is its steps as plain JSON by node. Everything else is worked out from
them: who was chosen, which messages wait where, what a router knows.
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
    """A level before its decisions: what is known from the levels above, and what its nodes choose.

    Args:
        layout: of the team.
        steps: what the levels above did; never changed.
    """

    def __init__(self, layout: Layout, steps: StepsByNode) -> None:
        self.layout, self.steps = layout, steps
        done = [steps[name] for name in layout.place if name in steps]
        chosen = (target for step in done if "routing" in step for target in step["routing"]["chosen"])
        self.selected = tuple(dict.fromkeys((layout.topology.entry, *chosen)))
        self.outputs = {step["node"]: step.get("output", "") for step in done if "error" not in step}
        self.decisions: dict[str, tuple[str, ...]] = {}

    def known(self, node: str, run: "TeamContext", output: str) -> RouterInput:
        """What the router knows at a node, the decisions of its earlier siblings included."""
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
    """What one run of a team needs beside its topology; reaches the nodes as LangGraph's `context`.

    Args:
        question: what the team works on.
        scope: place of the run: run, iteration, phase, task, sample; `visit` is the round, from 0.
        agents: agents by id, looked up when a node acts.
        act: runs one agent once.
        router: chooses among a node's successors.
        instruct: writes each chosen successor's message, the sink's apart; None hands on the output as it is.
        workflow: fingerprint of the workflow that runs.
        acted: nodes that took their turn, as they begin; empty after a finished run was resumed.
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
    """The router's choice at a node; None where there is nothing to choose from.

    Raises:
        ValueError: the router chose what is no successor, or one twice.
    """
    successors = layout.topology.successors[node]
    if not successors:
        return None
    routing = run.router(node, successors, known)
    if len(set(routing.chosen)) != len(routing.chosen) or not set(routing.chosen) <= set(successors):
        raise ValueError(f"the router chose {routing.chosen} at {node!r}, whose successors are {successors}")
    return routing


class NodeResult(NamedTuple):
    """A turn that was taken: the step, what it sent, as JSON, and what writing that cost on top."""

    step: Step
    sent: tuple[dict[str, str], ...] = ()
    handing: Usage = ZERO_USAGE

    @property
    def usage(self) -> Usage:
        """What all of it cost."""
        return self.step.usage + self.handing

    @property
    def whole(self) -> Step:
        """The step with what it sent."""
        return self.step.replace(sent=self.sent, usage=self.usage) if self.sent else self.step

    @property
    def json(self) -> dict[str, Any]:
        """The same for the state of a team's graph: without the inbox, which follows from what was sent."""
        known = self.step.model_dump(mode="json", exclude={"inbox"}, exclude_defaults=True)
        if self.handing is not ZERO_USAGE:
            known["usage"] = self.usage.model_dump(mode="json")
        return {"node": self.step.node, **known, "sent": [*self.sent]}


async def run_agent_node(
    layout: Layout, node: str, run: TeamContext, steps: StepsByNode, carried: Sequence[Mapping[str, str]]
) -> NodeResult:
    """Let a node take its turn. An agent whose model failed leaves an error and sends nothing.

    Raises:
        BudgetError, ConfigError, ...: whatever is not a ModelError.
    """
    agent, scope = run.agent(layout.topology.agents[node]), run.scope.at(node=node)
    run.acted.append(node)
    inbox, usage = layout.inbox(node, steps, carried), ZERO_USAGE
    place = {"node": node, "agent": agent.id, "visit": scope.visit, "inbox": inbox}
    try:
        acted = await run.act(agent, run.question, inbox, scope=scope)
        usage = acted.usage
        wanted = {**place, "routing": _routed(layout, node, run, steps, acted.output), "sent": ()}
        stands = all(getattr(acted, name) == value for name, value in wanted.items())
        step = acted if stands else acted.replace(**wanted)
        texts, handing = await _write_messages(layout, run, step, scope)
    except ModelError as error:
        return NodeResult(Step(**place, usage=usage + get_error_cost(error), error=format_error(error)))
    sent = tuple({"source": node, "target": target, "text": text} for target, text in texts.items())
    return NodeResult(step, sent, handing)


def _routed(layout: Layout, node: str, run: TeamContext, steps: StepsByNode, output: str) -> Routing | None:
    if not layout.topology.successors[node]:
        return None
    return choose_successors(layout, node, run, run.level(layout, steps).known(node, run, output))


async def _write_messages(layout: Layout, run: TeamContext, step: Step, scope: Scope) -> tuple[dict[str, str], Usage]:
    """Write the text for each chosen successor, in parallel; return them and what writing cost."""
    chosen = step.routing.chosen if step.routing else ()
    texts = dict.fromkeys(chosen, step.output)
    told = [target for target in chosen if target != layout.topology.sink]
    instruct = run.instruct
    if instruct is None or not told:
        return texts, ZERO_USAGE
    heirs = [run.agent(layout.topology.agents[target]) for target in told]
    scopes = [scope.at(node=f"{step.node}>{target}") for target in told]
    written = await asyncio.gather(
        *(instruct(run.question, step, heir, place) for heir, place in zip(heirs, scopes, strict=True)),
        return_exceptions=True,  # all settle before the first failure is told: none is left in flight
    )
    finished = [one for one in written if not isinstance(one, BaseException)]
    spent = sum_usages(usage for _, usage in finished)
    if failed := [one for one in written if isinstance(one, BaseException)]:
        if isinstance(failed[0], ModelError):  # it stands for the whole hand-over
            failed[0].cost = sum_usages(
                [spent, *(get_error_cost(one) for one in failed if isinstance(one, ModelError))]
            )
        raise failed[0]
    texts.update(zip(told, (text for text, _ in finished), strict=True))
    return texts, spent
