"""One stage as a team: layers become a topology between the task state and the outcome (Eq. 8, 9, App. D.3).

    task_state -> every agent of layer 1 -> every agent of layer 2 -> ... -> outcome

The two ends call no model: the first passes the full state on, the last joins the answers of the last layer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import AgentRunner
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.trajectory import Message, Step, ToolUse, Trajectory
from selfwire.core.values import fingerprint, is_id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.evolvers.evomas.state import WHOLE_TASK, TaskState, format_state
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.team import run_team

STATE, OUTCOME = "task_state", "outcome"
SO_FAR = "the work so far"
"""Who the state is from, as agents read it."""
ENDS = (Agent(id=STATE, prompt="", kind="signal"), Agent(id=OUTCOME, prompt="", kind="signal"))

_SOURCES = re.compile(r"^\W*sources?\W*:", re.IGNORECASE | re.MULTILINE)
_SOURCE = re.compile(r"https?://[^\s<>\"')\]]+|^\[\d+\] (.+)$", re.MULTILINE)
MOST_SOURCES = 10


def make_layered_topology(layers: Sequence[Sequence[str]]) -> Topology:
    """G_t with its two ends; consecutive layers are fully connected.

    Args:
        layers: agent ids, at least one layer and none of them empty.

    Raises:
        ConfigError: an agent has the id of an end, so that it would never run.
    """
    if taken := sorted({agent for layer in layers for agent in layer} & {STATE, OUTCOME}):
        raise ConfigError(f"{' and '.join(taken)} is what an end of every stage is called; give the agent another id")
    levels = [[node_id(number, agent) for agent in layer] for number, layer in enumerate(layers, 1)]
    agents = [agent for layer in layers for agent in layer]
    nodes = [node for level in levels for node in level]
    rows = [[STATE], *levels, [OUTCOME]]
    ids = zip([STATE, *nodes, OUTCOME], [STATE, *agents, OUTCOME], strict=True)
    pairs = ((source, target) for above, below in pairwise(rows) for source in above for target in below)
    return Topology(
        nodes=tuple(Node(id=node, agent=agent) for node, agent in ids),
        edges=tuple(Edge(source=source, target=target) for source, target in pairs),
        entry=STATE,
        sink=OUTCOME,
    )


def make_whole_topology(workflow: Workflow, layers: int) -> Topology:
    """All layers that may be drawn: every agent of the pool in every layer."""
    working = [agent.id for agent in workflow.agents if agent.id != EARLY_EXIT]
    return make_layered_topology([working or [EARLY_EXIT]] * layers)


def place_agents(workflow: Workflow, layers: int) -> Workflow:
    """The pool with a node for every possible place of an agent and no edges, for the schema of the context."""
    drawn = make_whole_topology(workflow, layers)
    nodes = tuple(node for node in drawn.nodes if node.agent in workflow.agents_by_id)
    return workflow.replace(topology=Topology(nodes=nodes, entry=nodes[0].id, sink=nodes[0].id))


def node_id(layer: int, agent: str) -> str:
    """The node of an agent in a layer, from 1."""
    plain = f"L{layer}-{agent}"
    return plain if is_id(plain) else f"L{layer}-{fingerprint(agent)}"


@dataclass(frozen=True)
class StageRun:
    """Input of a stage.

    Attributes:
        state: s_t.
        whole: off is the ablation without a task state.
        runners: how agents act, by kind; `worker` also runs kinds that are not among them.
        scope: of the run; `visit` is the stage.
    """

    workflow: Workflow
    question: Question
    state: TaskState
    whole: bool
    runners: dict[str, AgentRunner]
    scope: Scope

    async def play(self, layers: Sequence[Sequence[str]]) -> Trajectory:
        """Run the layers as a team; the trajectory's answer is the stage's outcome, its steps are the agents'."""
        agents = {agent.id: agent for agent in (*self.workflow.agents, *ENDS)}
        run = TeamContext.of(self.workflow, self._make_question(), self.scope, self._act, agents=agents)
        done = await run_team(make_layered_topology(layers), run)
        return done.replace(steps=tuple(step for step in done.steps if step.agent not in (STATE, OUTCOME)))

    def _make_question(self) -> Question:
        current = self.state.current
        if not self.whole or current is None or current.goal in (WHOLE_TASK, " ".join(self.question.input.split())):
            return self.question
        text = f"{self.question.input}\n\nYour part of the task now, and nothing else: {current.goal}"
        return self.question.replace(input=text)

    async def _act(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        read = [message for message in inbox if message.text.strip()]
        if agent.id in (STATE, OUTCOME):
            text = self._describe_state() if agent.id == STATE else aggregate(read)
            return Step(node=scope.node, agent=agent.id, visit=scope.visit, inbox=tuple(inbox), output=text)
        answers = [_sign(message) for message in read if message.source != STATE]
        done = self.state.completed if self.whole else ()
        if agent.kind == "refiner" and not answers and not done:  # its layer runs, although the one before it failed
            return Step(node=scope.node, agent=agent.id, visit=scope.visit, inbox=tuple(inbox), output="")
        if agent.kind == "ensemble" and not answers:
            artifacts = ((f"subtask-{one.id}", one.artifact) for one in done if one.artifact)
            answers = [Message(source=source, target=scope.node, text=text) for source, text in artifacts]
        state = "" if agent.kind == "ensemble" else self._describe_state()
        context = [Message(source=SO_FAR, target=scope.node, text=state)] if state else []
        act = self.runners.get(agent.kind, self.runners["worker"])
        return add_sources(await act(agent, question, (*context, *answers), scope=scope))

    def _describe_state(self) -> str:
        return format_state(self.state) if self.whole else ""


def _sign(message: Message) -> Message:
    """The message under its agent's name in place of the node's."""
    return message.replace(source=_get_author(message.source))


def _get_author(node: str) -> str:
    return node.partition("-")[2]


def aggregate(inbox: Sequence[Message]) -> str:
    """The answers of a layer as one text, each once; of several, each under its authors' names."""
    authors: dict[str, list[str]] = {}
    for message in inbox:
        authors.setdefault(message.text, []).append(_get_author(message.source))
    if len(authors) == 1:
        return next(iter(authors))
    return "\n\n".join(f"[{', '.join(names)}]\n{text}" for text, names in authors.items())


def add_sources(step: Step) -> Step:
    """The step with the sources that its tools gave, where its answer names none (D21)."""
    sources = find_sources(step.tools)
    if step.error or not step.output.strip() or not sources or _SOURCES.search(step.output):
        return step
    return step.replace(output=f"{step.output}\n\nSources: {'; '.join(sources)}")


def find_sources(uses: Sequence[ToolUse]) -> tuple[str, ...]:
    """Addresses and numbered titles in tools' results; else the names of the tools that gave one."""
    good = [use for use in uses if not use.error]
    found = (match[1] or match[0] for use in good for match in _SOURCE.finditer(use.result))
    sources = tuple(dict.fromkeys(text.strip() for text in found))[:MOST_SOURCES]
    return sources or tuple(dict.fromkeys(use.name for use in good))
