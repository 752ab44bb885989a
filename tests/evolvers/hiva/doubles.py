"""Doubles for HiVA's tests: a scripted model, teams and trajectories by hand."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.ports import Known, Schema
from selfwire.core.prompts import Prompts
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.topology import Caps, Edge, Node, Topology
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.reflector import Reflector

PROMPTS = Prompts(
    texts={
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in files("selfwire.evolvers").joinpath("prompts", "hiva").iterdir()
        if file.name.endswith(".md")
    }
)
ONE_CALL = Usage(calls=1)

Answer = BaseModel | Exception
Script = Mapping[str, Answer | Callable[[str, Scope], Answer]]


class ScriptedModel:
    """Answers by the name of the schema; keeps what it was asked."""

    def __init__(self, **script: Answer | Callable[[str, Scope], Answer]) -> None:
        self.script: Script = script
        self.asked: list[tuple[str, str, Scope]] = []

    async def ask(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        assert role == "meta"
        assert temperature == 1.0
        self.asked.append((schema.__name__, messages[-1].content, scope))
        answer = self.script[schema.__name__]
        if callable(answer):
            answer = answer(messages[-1].content, scope)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, schema)
        return answer, ONE_CALL

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        raise AssertionError("HiVA's evolution asks for objects only")

    def names(self) -> list[str]:
        """Names of the schemas that were asked for, in order."""
        return [name for name, _, _ in self.asked]

    def shown(self, schema: str) -> list[str]:
        """The user messages of the asks for a schema."""
        return [text for name, text, _ in self.asked if name == schema]


def reflector(model: ScriptedModel) -> Reflector:
    return Reflector(model=model, prompts=PROMPTS)


def team(*edges: tuple[str, str], sink: str = "end", caps: Caps = Caps(), **prompts: str) -> Workflow:
    """A team whose nodes have agents of their own name; the entry is the first edge's source."""
    names = dict.fromkeys([name for edge in edges for name in edge] + [sink])
    return Workflow(
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


def run(workflow: Workflow, *, solved: bool = False, task: str = "t1", **fields: Any) -> Trajectory:
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
    given: dict[str, Any] = {
        "question": Question(id=task, input="Which year?"),
        "workflow": workflow.fingerprint,
        "steps": steps,
        "answer": "1990",
        "feedback": Feedback(score=float(solved), solved=solved, text="as told"),
    }
    return Trajectory(**{**given, **fields})


def known(node: str, *, selected: Sequence[str] = (), sink: str = "end", task: str = "t1", seed: int = 0) -> Known:
    return Known(
        question=Question(id=task, input="Which year?"),
        scope=Scope(seed=seed, phase="rollout", task=task, node=node),
        output="",
        sink=sink,
        selected=tuple(selected),
    )
