"""Doubles for HiVA's tests: a scripted model, teams and trajectories by hand."""

from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.protocols import RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology, TopologyLimits
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.evolvers.hiva.gradients import Gradient
from selfwire.evolvers.prompted_model import PromptedModel
from tests.scripted import ScriptedModel, prompts

PROMPTS = prompts("hiva")


def meta_model(model: ScriptedModel) -> PromptedModel:
    return PromptedModel(model=model, prompts=PROMPTS)


def team(*edges: tuple[str, str], sink: str = "end", caps: TopologyLimits = TopologyLimits(), **prompts: str) -> Team:
    """A team whose nodes have agents of their own name; the entry is the first edge's source."""
    names = dict.fromkeys([name for edge in edges for name in edge] + [sink])
    return Team(
        method="hiva",
        agents=tuple(Agent(id=name, prompt=prompts.get(name, f"You are {name}.")) for name in names),
        topology=Topology(
            nodes=tuple(Node(id=name, agent=name) for name in names),
            edges=tuple(Edge(source=a, target=b) for a, b in edges),
            entry=edges[0][0],
            sink=sink,
            caps=caps,
        ),
    )


LINE = team(("s", "a"), ("a", "end"))
FORK = team(("s", "a"), ("s", "b"), ("a", "end"), ("b", "end"))


def edges(workflow: Team) -> set[str]:
    return {str(edge) for edge in workflow.topology.edges}


def gradient(node: str = "a", task: str = "t1", **fields: str) -> Gradient:
    return Gradient.model_validate({"task": task, "node": node, "agent": node, "sentiment": "critical", **fields})


def run(workflow: Team, *, solved: bool = False, task: str = "t1") -> Trajectory:
    """A run in which every node acted and every edge was used."""
    topology = workflow.topology
    steps = tuple(
        Step(
            node=node,
            agent=topology.agents[node],
            output=f"output of {node}",
            routing=Routing(chosen=topology.successors[node]) if topology.successors[node] else None,
            sent=tuple(Message(source=node, target=t, text=f"to {t}") for t in topology.successors[node]),
        )
        for level in topology.levels()
        for node in level
    )
    return Trajectory(
        question=Question(id=task, input="Which year?"),
        workflow=workflow.fingerprint,
        steps=steps,
        answer="1990",
        feedback=Feedback(score=float(solved), solved=solved, text="as told"),
    )


def known(
    node: str, *, selected: Sequence[str] = (), sink: str = "end", task: str = "t1", seed: int = 0
) -> RouterInput:
    return RouterInput(
        question=Question(id=task, input="Which year?"),
        scope=Scope(seed=seed, phase="rollout", task=task, node=node),
        output="",
        sink=sink,
        selected=tuple(selected),
    )
