"""One node's turn in a team: read the inbox, act, decide who is next, hand over.

What flows through a team is its steps as plain JSON by node. Everything else is worked out from
them: who was chosen, which messages wait where, what a router knows.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, ModelError
from selfwire.core.ports import Act, Instruct, Known, Router
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message, Routing, Step
from selfwire.core.usage import Usage, total

Steps = Mapping[str, Mapping[str, Any]]
"""Steps as JSON, by node, without their inboxes (these follow from what was sent)."""


@dataclass(frozen=True, eq=False)
class TeamRun:
    """What one run of a team needs beside its topology; reaches the nodes as LangGraph's `context`.

    Args:
        question: what the team works on.
        scope: place of the run: run, iteration, phase, task, sample; `visit` is the round, from 0.
        agents: agents by id, looked up when a node acts.
        act: runs one agent once.
        router: chooses among a node's successors.
        instruct: writes each chosen successor's message, the sink's apart; None hands on the output as it is.
        workflow: fingerprint of the workflow that runs.
    """

    question: Question
    scope: Scope
    agents: Mapping[str, Agent]
    act: Act
    router: Router
    instruct: Instruct | None = None
    workflow: str = ""

    def agent(self, name: str) -> Agent:
        """An agent of the pool.

        Raises:
            ConfigError: the pool lacks it.
        """
        if name not in self.agents:
            raise ConfigError(f"the team needs agent {name!r}; this run has {', '.join(self.agents) or 'none'}")
        return self.agents[name]


@dataclass(frozen=True, eq=False)
class Layout:
    """A topology as a team runs it: its levels, and which edges lead forward."""

    topology: Topology

    @cached_property
    def place(self) -> dict[str, int]:
        """Node id to its place in topological order."""
        return {node: index for index, node in enumerate(n for level in self.topology.levels() for n in level)}

    @cached_property
    def depth(self) -> dict[str, int]:
        """Node id to its level."""
        return {node: depth for depth, level in enumerate(self.topology.levels()) for node in level}

    @cached_property
    def forward(self) -> dict[str, frozenset[str]]:
        """Node id to the successors that it triggers; the others hear of it in the next round."""
        depth, entry = self.depth, self.topology.entry
        return {
            node: frozenset(s for s in successors if depth[s] > depth[node] and s != entry)
            for node, successors in self.topology.successors.items()
        }

    def inbox(self, node: str, steps: Steps, carried: Iterable[Mapping[str, str]]) -> tuple[Message, ...]:
        """Messages for a node in topological order of their sources; last round's come along closing edges."""
        mail = [Message(**message) for message in carried if message["target"] == node]
        for source in self.topology.predecessors[node]:
            if node in self.forward[source]:
                mail += [Message(**m) for m in steps.get(source, {}).get("sent", ()) if m["target"] == node]
        return tuple(sorted(mail, key=lambda message: self.place.get(message.source, len(self.place))))

    def known(self, node: str, run: TeamRun, steps: Steps, output: str) -> Known:
        """What the router knows at a node, the decisions of its earlier siblings included."""
        done = [name for name in self.place if name in steps]
        outputs = {name: steps[name].get("output", "") for name in done if not steps[name].get("error")}
        decisions = [steps[name].get("routing") for name in done]
        selected = dict.fromkeys((self.topology.entry, *(c for d in decisions if d for c in d["chosen"])))
        for sibling in self._earlier_siblings(node, selected):
            known = self._knowing(sibling, run, "", selected, outputs)
            routing = self.decided(sibling, run, known)
            selected.update(dict.fromkeys(routing.chosen if routing else ()))
        return self._knowing(node, run, output, selected, outputs)

    def decided(self, node: str, run: TeamRun, known: Known) -> Routing | None:
        """The router's choice at a node; None where there is nothing to choose from.

        Raises:
            ValueError: the router chose what is no successor, or one twice.
        """
        successors = self.topology.successors[node]
        if not successors:
            return None
        routing = run.router(node, successors, known)
        if len(set(routing.chosen)) != len(routing.chosen) or not set(routing.chosen) <= set(successors):
            raise ValueError(f"the router chose {routing.chosen} at {node!r}, whose successors are {successors}")
        return routing

    def _earlier_siblings(self, node: str, selected: Mapping[str, Any]) -> list[str]:
        level = self.topology.levels()[self.depth[node]]
        return [sibling for sibling in level[: level.index(node)] if sibling in selected]

    def _knowing(
        self, node: str, run: TeamRun, output: str, selected: Iterable[str], outputs: Mapping[str, str]
    ) -> Known:
        return Known(
            question=run.question,
            scope=run.scope.at(node=node),
            output=output,
            sink=self.topology.sink,
            selected=tuple(selected),
            outputs=outputs,
        )


async def turn(
    layout: Layout, node: str, run: TeamRun, steps: Steps, carried: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Let a node take its turn.

    Returns:
        Its step as JSON without the inbox. An agent whose model failed leaves an error and sends nothing.

    Raises:
        BudgetError, ConfigError, ...: whatever is not a ModelError.
    """
    agent, scope = run.agent(layout.topology.agents[node]), run.scope.at(node=node)
    inbox = layout.inbox(node, steps, carried)
    step = Step(node=node, agent=agent.id, visit=scope.visit)
    try:
        acted = await run.act(agent, run.question, inbox, scope=scope)
        step = acted.replace(node=node, agent=agent.id, visit=scope.visit, inbox=inbox)
        routing = layout.decided(node, run, layout.known(node, run, steps, step.output))
        sent, usage = await _handed_over(layout, run, step.replace(routing=routing), scope)
        step = step.replace(routing=routing, sent=sent, usage=usage)
    except ModelError as error:
        step = step.replace(output="", error=f"{type(error).__name__}: {error}")
    return step.model_dump(mode="json", exclude={"inbox"}, exclude_defaults=True)


async def _handed_over(layout: Layout, run: TeamRun, step: Step, scope: Scope) -> tuple[tuple[Message, ...], Usage]:
    """Write a message to each chosen successor, in parallel; return them and the step's whole usage."""
    chosen = step.routing.chosen if step.routing else ()
    sink, instruct = layout.topology.sink, run.instruct
    told = [target for target in chosen if target != sink] if instruct else []
    texts = dict.fromkeys(chosen, step.output)
    if not instruct or not told:
        return _messages(step.node, texts), step.usage
    written = await asyncio.gather(
        *(
            instruct(run.question, step, run.agent(layout.topology.agents[target]), scope.at(node=f"{step.node}>{target}"))
            for target in told
        ),
        return_exceptions=True,  # all settle before the first failure is told: none is left in flight
    )
    finished = [_or_raise(result) for result in written]
    texts.update(zip(told, (text for text, _ in finished), strict=True))
    return _messages(step.node, texts), step.usage + total(usage for _, usage in finished)


def _or_raise(result: tuple[str, Usage] | BaseException) -> tuple[str, Usage]:
    if isinstance(result, BaseException):
        raise result
    return result


def _messages(source: str, texts: Mapping[str, str]) -> tuple[Message, ...]:
    return tuple(Message(source=source, target=target, text=text) for target, text in texts.items())
