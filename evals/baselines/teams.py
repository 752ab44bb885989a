"""Fixed teams as topologies: self-refine, debate, and teams of independent, led or equal members.

Each round has its own nodes, so a team is an ordinary topology. Two kinds of nodes call no model: `opening` starts all
members, `vote` counts answers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from selfwire.core.agent import Agent
from selfwire.core.errors import ModelError
from selfwire.core.protocols import AgentRunner
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Edge, Node, Topology, make_chain
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.config import RefineConfig, TeamConfig
from selfwire.evals.baselines.single import choose_by_vote, load_prompt
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.team import run_team

OPENING, VOTE = "opening", "vote"
"""Kinds of agents that call no model."""

Nodes = Sequence[tuple[str, str]]
"""(node, agent) pairs."""


@dataclass(frozen=True)
class FixedTeam:
    """A team that does not change; `make_workflow` makes it from the tools of its workers."""

    name: str
    act: AgentRunner
    make_workflow: Callable[[Sequence[str]], Workflow]

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The team with the tools."""
        return self.make_workflow(tools)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Run the team once."""
        run = TeamContext.of(workflow, question, scope.at(task=question.id), make_voting_runner(self.act))
        return await run_team(workflow.topology, run, config=DETACHED)


def with_tools(team: Workflow, tools: Sequence[str]) -> Workflow:
    """The team with tools for its workers; critics, leaders and aggregators have none."""
    agents = [agent.replace(tools=tuple(tools)) if agent.kind == "worker" else agent for agent in team.agents]
    return team.replace(agents=tuple(agents))


def make_voting_runner(act: AgentRunner) -> AgentRunner:
    """A runner that also runs the two kinds without a model; nobody reads an opening."""

    async def run(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        if agent.kind == OPENING:
            return Step(node=scope.node, agent=agent.id)
        if agent.kind == VOTE:
            if not inbox:
                raise ModelError("nobody has given an answer to vote on")
            return Step(node=scope.node, agent=agent.id, output=choose_by_vote([message.text for message in inbox]))
        return await act(agent, question, [message for message in inbox if message.text], scope=scope)

    return run


def self_refine(config: RefineConfig) -> Workflow:
    """A draft, then criticism and improvement in a fixed number of turns (Madaan et al., 2023)."""
    turns = range(1, config.iterations + 1)
    answers = ["draft", *(f"refine-{turn}" for turn in turns)]
    nodes = [("draft", "draft"), *((f"{agent}-{n}", agent) for n in turns for agent in ("critic", "refine"))]
    edges = [
        edge
        for turn in turns
        for edge in (
            (answers[turn - 1], f"critic-{turn}"),
            (answers[turn - 1], answers[turn]),
            (f"critic-{turn}", answers[turn]),
        )
    ]
    agents = (_worker("draft"), _worker("refine"), _worker("critic", kind="critic"))
    return _workflow("self-refine", agents, nodes, edges, "draft", answers[-1])


def debate(config: TeamConfig) -> Workflow:
    """Agents answer, read all answers, answer again, and vote (Du et al., 2024)."""
    return _equals("debate", "debater", config)


def decentralised(config: TeamConfig) -> Workflow:
    """Equals who hear each other between rounds, and vote."""
    return _equals("decentralised", "peer", config)


def independent(config: TeamConfig) -> Workflow:
    """Members who never hear each other; another agent makes one answer from theirs."""
    members = _numbered("worker", config.agents)
    nodes = [("opening", "opening"), *((name, "worker") for name in members), ("summary", "summary")]
    edges = [*_all(["opening"], members), *_all(members, ["summary"])]
    agents = (_opening(), _worker("worker"), _worker("summary", kind="aggregator"))
    return _workflow("independent", agents, nodes, edges, "opening", "summary")


def centralised(config: TeamConfig) -> Workflow:
    """A leader who divides the work, hears every report, and directs the next round."""
    return _led("centralised", config, peers=False)


def hybrid(config: TeamConfig) -> Workflow:
    """A leader as in `centralised`, and members who also hear each other within a round."""
    return _led("hybrid", config, peers=True)


def make_pair(tools: Sequence[str]) -> Workflow:
    """The pair worker -> summary."""
    agents = (_worker("worker").replace(tools=tuple(tools)), _worker("summary", kind="aggregator"))
    return Workflow(method="random", agents=agents, topology=make_chain("worker", "summary"))


def _equals(name: str, agent: str, config: TeamConfig) -> Workflow:
    rounds = [_numbered(f"{agent}-{at}", config.agents) for at in range(1, config.rounds + 1)]
    nodes = [("opening", "opening"), *((node, agent) for members in rounds for node in members), ("vote", "vote")]
    edges = [*_all(["opening"], rounds[0]), *_between(rounds), *_all(rounds[-1], ["vote"])]
    agents = (_opening(), _worker(agent), Agent(id="vote", role="counts answers", prompt="", kind=VOTE))
    return _workflow(name, agents, nodes, edges, "opening", "vote")


def _led(name: str, config: TeamConfig, *, peers: bool) -> Workflow:
    nodes: list[tuple[str, str]] = [("leader-1", "leader")]
    edges: list[tuple[str, str]] = []
    for at in range(1, config.rounds + 1):
        parts = ["report", "reply"] if peers else ["report"]
        stages = [_numbered(f"{part}-{at}", config.agents) for part in parts]
        after = f"leader-{at + 1}" if at < config.rounds else "summary"
        nodes += [*((node, "worker") for stage in stages for node in stage), (after, after.split("-")[0])]
        edges += [*_all([f"leader-{at}"], stages[0]), *_between(stages), *_all(stages[-1], [after])]
    agents = (_worker("leader", kind="leader"), _worker("worker"), _worker("summary", kind="aggregator"))
    return _workflow(name, agents, nodes, edges, "leader-1", "summary")


def _workflow(
    name: str, agents: Sequence[Agent], nodes: Nodes, edges: Iterable[tuple[str, str]], entry: str, sink: str
) -> Workflow:
    topology = Topology(
        nodes=tuple(Node(id=node, agent=agent) for node, agent in nodes),
        edges=tuple(Edge(source=source, target=target) for source, target in edges),
        entry=entry,
        sink=sink,
    )
    return Workflow(method=name, agents=tuple(agents), topology=topology)


def _worker(name: str, *, kind: str = "worker") -> Agent:
    return Agent(id=name, role=ROLES[name], prompt=load_prompt(name), kind=kind)


def _opening() -> Agent:
    return Agent(id="opening", role="lets everybody begin", prompt="", kind=OPENING)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(1, count + 1)]


def _all(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    return [(source, target) for source in sources for target in targets]


def _between(stages: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    return [edge for before, after in pairwise(stages) for edge in _all(before, after)]


ROLES: Mapping[str, str] = {
    "draft": "gives the first answer",
    "refine": "improves the answer",
    "critic": "says what is wrong with the answer",
    "debater": "answers, and argues with the others",
    "peer": "works on the task beside others",
    "worker": "works on the task",
    "leader": "divides and directs the work",
    "summary": "gives the final answer",
}
