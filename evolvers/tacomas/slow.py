"""The topology loop F^T: births, deaths and edge edits within budgets, every K rounds (Sec. 3.4, Eq. 4).

The meta-model's proposals are untrusted: a change is applied where it is legal, and refused with a reason where it is
not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    Edit,
    Remember,
    RemoveAgent,
    RemoveEdge,
    RemoveNode,
    ReplaceAgent,
    Rewiring,
    RewritePrompt,
    format_edit,
)
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.topology import TopologyPolicy
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.tacomas.config import SlowConfig
from selfwire.evolvers.tacomas.schemas import AgentFeedback, BirthDeathPair, EdgeEdit, NewAgent, SlowUpdate, TimeControl
from selfwire.evolvers.tacomas.work import name_nodes
from selfwire.evolvers.topology_ops import ROLE_LENGTH, make_fresh_id
from selfwire.evolvers.trajectory_text import find_name, shorten

BY = "meta"
GOAL_LENGTH = 2_000
SEED_LENGTH = 600
WHY_LENGTH = 500

_RUNNABLE = TopologyPolicy(cycles=True, loose=True)


class RefusedChange(FrozenModel):
    """A proposed change that was not made, and why."""

    change: str
    reason: str


class Delta(FrozenModel):
    """Result of a slow update.

    Args:
        workflow: after it; its lineage starts at the one before.
        refused: proposals that were not made: those beyond a budget first, those that waited for others after the rest.
        edges: explicit edge edits that were made, those that join a newborn to the team included.
        control: whether to go on as usual, to update again after the next round, or to stop.
    """

    workflow: Team
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedChange, ...] = ()
    births: tuple[Id, ...] = ()
    deaths: tuple[Id, ...] = ()
    edges: int = 0
    control: TimeControl = "continue"
    rationale: str = ""
    usage: Usage = Usage()


def enforce_budgets(
    team: Team,
    update: SlowUpdate,
    *,
    config: SlowConfig,
    prompts: Prompts,
    tools: Sequence[Id] = (),
    feedback: bool = True,
) -> Delta:
    """Eq. 4: T + dT with |dV| <= B_V and |dE| <= B_E; changes beyond a budget are dropped in order and recorded.

    Births and deaths come first, then edge edits, then feedback. A change that the team cannot bear yet, such as a
    death that only a later edge makes harmless, is tried again after the others (D11).

    Args:
        prompts: with the text `newborn`.
        feedback: whether agent_feedback is taken; off where capabilities are frozen.
    """
    why = shorten(" ".join(update.global_rationale.split()), WHY_LENGTH)
    draft = _TeamDraft(team, config, prompts, tuple(tools), why or "no reason given")
    if update.time_control == "stop":
        for text in _proposed(update):
            draft.refuse(text, "the run stops, so nobody would act on it (D8)")
    else:
        draft.settle([*draft.births_and_deaths(update.birth_death_pairs), *draft.edge_edits(update.graph_edit)])
        draft.join_newborns()
        draft.feedback(update.agent_feedback if feedback else ())
    return draft.delta(update.time_control, why)


@dataclass
class _TeamDraft:
    workflow: Team
    config: SlowConfig
    prompts: Prompts
    tools: tuple[Id, ...]
    why: str
    applied: list[Rewiring] = field(default_factory=list)
    refused: list[RefusedChange] = field(default_factory=list)
    called: dict[str, Id] = field(default_factory=dict)
    """Newborns by their role."""
    edges: int = 0
    too_early: bool = False
    """Whether the last refusal may give way to other changes of the same update."""

    def __post_init__(self) -> None:
        self.before = self.workflow

    def refuse(self, change: str, reason: str, *, too_early: bool = False) -> None:
        self.refused.append(RefusedChange(change=shorten(change, 200), reason=shorten(reason, 500)))
        self.too_early = too_early

    def settle(self, changes: Sequence[Callable[[], None]]) -> None:
        """Make changes in order, and those that came too early again, for as long as others are made."""
        while changes:
            early = list[tuple[Callable[[], None], list[RefusedChange]]]()
            for change in changes:
                before, self.too_early = len(self.refused), False
                change()
                if self.too_early:
                    early.append((change, self.refused[before:]))
                    del self.refused[before:]
            if len(early) == len(changes):
                self.refused += [refused for _, said in early for refused in said]
                return
            changes = [change for change, _ in early]

    def attempt(self, *edits: Edit, operation: str) -> bool:
        """Apply a rewiring if it fits and leaves the sink within reach."""
        rewiring = Rewiring(*edits, why=self.why, operation=operation, by=BY)
        now, illegal = self.workflow.apply_legal([rewiring])
        problems = () if illegal else now.topology.problems(_RUNNABLE)
        if illegal or problems:
            reason = illegal[0].reason if illegal else f"it would leave the team unable to run: {problems[0]}"
            self.refuse(f"{operation} {'; '.join(map(format_edit, edits))}", reason, too_early=bool(problems))
            return False
        self.workflow = now
        self.applied.append(rewiring)
        return True

    def within(self, index: int, limit: int, text: str, what: str) -> bool:
        if self.config.budgeted and index >= limit:
            self.refuse(text, f"beyond the budget of {limit} {what} per update")
            return False
        return True

    def births_and_deaths(self, pairs: Sequence[BirthDeathPair]) -> list[Callable[[], None]]:
        return [
            partial(self.birth_death, pair)
            for index, pair in enumerate(pairs)
            if self.within(index, self.config.pairs, _pair_text(pair), "birth-death pairs")
        ]

    def birth_death(self, pair: BirthDeathPair) -> None:
        text = _pair_text(pair)
        dead = self.agent_called(pair.v_dead) if pair.v_dead is not None else None
        if pair.v_dead is not None and dead is None:
            return self.refuse(
                text, f"there is no agent {pair.v_dead!r}; agents are {', '.join(self.workflow.agents_by_id)}"
            )
        if dead == self.workflow.agent_at(self.workflow.topology.sink).id:
            return self.refuse(text, f"agent {dead!r} is the sink, which never dies")
        if pair.v_new is None:
            return self.death(dead) if dead else self.refuse(text, "neither a death nor a birth is named")
        if not pair.v_new.role.strip():
            return self.refuse(text, "the newborn has no role; name one")
        return self.birth(pair.v_new, dead)

    def death(self, dead: Id) -> None:
        nodes = [node.id for node in self.workflow.topology.nodes if node.agent == dead]
        self.attempt(*(RemoveNode(node) for node in nodes), RemoveAgent(dead), operation="DEATH")

    def birth(self, new: NewAgent, dead: Id | None) -> None:
        if dead is None and len(self.workflow.topology.nodes) >= self.config.nodes:
            reason = f"the team is at its cap of {self.config.nodes} agents"
            return self.refuse(f"BIRTH {new.role}", reason, too_early=True)
        newborn = self.newborn(new)
        if dead is not None:
            born = self.attempt(ReplaceAgent(dead, newborn), operation="REPLACE")
        else:
            born = self.attempt(AddAgent(newborn), AddNode(newborn.id, newborn.id), operation="BIRTH")
        if born:
            self.called[_key(new.role)] = newborn.id
        return None

    def newborn(self, new: NewAgent) -> Agent:
        role = " ".join(new.role.split())[:ROLE_LENGTH]
        goal = excerpt(new.goal.strip() or role, GOAL_LENGTH)
        for name in dict.fromkeys(new.tools):
            if name not in self.tools:
                self.refuse(f"tool {name!r} for {role}", f"tools on offer are {', '.join(self.tools) or 'none'}")
        tools = tuple(name for name in self.tools if name in new.tools)
        use = ", use the tools that you hold" if tools else ""
        return Agent(
            id=make_fresh_id(self.workflow, role),
            role=excerpt(f"{role}: {' '.join(goal.split())}", ROLE_LENGTH),
            prompt=self.prompts.text("newborn", role=role, goal=goal, tools=use).strip(),
            tools=tools,
        )

    def edge_edits(self, edits: Sequence[EdgeEdit]) -> list[Callable[[], None]]:
        return [
            partial(self.edge_edit, edit)
            for index, edit in enumerate(edits)
            if self.within(index, self.config.edges, _edge_text(edit), "edge edits")
        ]

    def edge_edit(self, edit: EdgeEdit) -> None:
        source, target = self.node_called(edit.source), self.node_called(edit.target)
        if source is None or target is None:
            missing = edit.source if source is None else edit.target
            there = ", ".join(name_nodes(self.workflow).values())
            reason = f"there is no agent {missing!r} with a place in the team; agents are {there}"
            self.refuse(_edge_text(edit), reason, too_early=True)  # a birth that was put off may bring it
        elif edit.op == "edge_add":
            self.edges += self.attempt(AddEdge(source, target), operation="EDGE_ADD")
        else:
            self.edges += self.attempt(RemoveEdge(source, target), operation="EDGE_REMOVE")

    def join_newborns(self) -> None:
        """Connect newborns without edges to entry and sink, within the rest of the edge budget (D7)."""
        for node in [n for n in self.workflow.topology.agents if n not in self.before.topology.agents]:
            topology = self.workflow.topology
            missing = [
                *([] if topology.predecessors[node] else [AddEdge(topology.entry, node)]),
                *([] if topology.successors[node] else [AddEdge(node, topology.sink)]),
            ]
            if not missing:
                continue
            short = self.config.budgeted and self.edges + len(missing) > self.config.edges
            if not short and self.attempt(*missing, operation="JOIN"):
                self.edges += len(missing)
                continue
            if short:
                self.refuse(f"BIRTH {node}", "no edge leads to or from it, and the budget of edge edits is spent")
            agent = topology.agents[node]
            self.attempt(RemoveNode(node), RemoveAgent(agent), operation="UNDO_BIRTH")

    def feedback(self, given: Sequence[AgentFeedback]) -> None:
        for word in given:
            agent = self.agent_called(word.agent)
            if agent is None:
                self.refuse(f"feedback for {word.agent}", "there is no such agent")
                continue
            if delta := word.prompt_delta.strip():
                prompt = f"{self.workflow.agents_by_id[agent].prompt}\n\n{delta}"
                if len(prompt) > self.config.prompt_length:
                    self.refuse(f"prompt_delta for {agent}", f"the prompt would exceed {self.config.prompt_length}")
                else:
                    self.attempt(RewritePrompt(agent, prompt), operation="FEEDBACK")
            if seed := word.memory_seed.strip():
                self.attempt(Remember(agent, excerpt(seed, SEED_LENGTH)), operation="FEEDBACK")

    def agent_called(self, name: str) -> Id | None:
        """An agent by id, by the role of a newborn, or by its node."""
        nodes = {**self.workflow.topology.agents, **{agent: agent for agent in self.workflow.agents_by_id}}
        newborn = self.called.get(_key(name))
        if newborn in self.workflow.agents_by_id and name.strip() not in nodes:
            return newborn
        return nodes.get(find_name(name, nodes) or "")

    def node_called(self, name: str) -> Id | None:
        """A node by its agent, else by its own id."""
        agent = self.agent_called(name)
        found = [node.id for node in self.workflow.topology.nodes if node.agent == agent]
        return name.strip() if name.strip() in found else found[0] if found else None

    def delta(self, control: TimeControl, why: str) -> Delta:
        before, after = self.before.agents_by_id, self.workflow.agents_by_id
        now = self.workflow.with_lineage(self.before, self.applied) if self.applied else self.before
        return Delta(
            workflow=now,
            applied=tuple(self.applied),
            refused=tuple(self.refused),
            births=tuple(agent for agent in after if agent not in before),
            deaths=tuple(agent for agent in before if agent not in after),
            edges=self.edges,
            control=control,
            rationale=why,
        )


def _key(role: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in role.lower()).split())


def _pair_text(pair: BirthDeathPair) -> str:
    return f"{pair.v_dead or 'nobody'} -> {pair.v_new.role if pair.v_new else 'nobody'}"


def _edge_text(edit: EdgeEdit) -> str:
    return f"{edit.op} {edit.source} -> {edit.target}"


def _proposed(update: SlowUpdate) -> list[str]:
    return [
        *map(_pair_text, update.birth_death_pairs),
        *map(_edge_text, update.graph_edit),
        *(f"feedback for {word.agent}" for word in update.agent_feedback),
    ]
