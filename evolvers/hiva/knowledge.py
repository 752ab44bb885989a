"""The knowledge graph: concepts, agents and tools, joined by is_a, requires_skill and has_tool (App. D.3).

The graph is semi-automatic: a model names the concepts of each task, and an agent is joined to the concepts that its
role and prompt name. Concepts form a tree under the root "Task".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.own_tool import WorkflowTool
from selfwire.core.values import FrozenMap, FrozenModel, Id

if TYPE_CHECKING:
    import networkx as nx

ROOT = "Task"
NAME_LENGTH = 60

_Pair = tuple[str, str]


class TaskConcepts(FrozenModel):
    """A task's concepts, by normalised names.

    Args:
        main: its primary concept; "" if nothing is known.
        broader: concepts above the main one, nearest first.
        skills: further concepts that it needs.
        parallelizability: 0 for strictly serial to 1 for fully parallel.
    """

    main: str = ""
    broader: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    parallelizability: float = Field(default=0.5, ge=0, le=1)

    @cached_property
    def all(self) -> frozenset[str]:
        """concepts(I): the main concept and the skills."""
        return frozenset(concept for concept in (self.main, *self.skills) if concept)


class Knowledge(FrozenModel):
    """The graph as three sets of (from, to) pairs over names `concept:x`, `agent:x`, `tool:x` and the root.

    Args:
        is_a: concept to its broader concept or the root; one per concept, so concepts form a tree.
        requires_skill: agent or concept to a concept that it needs.
        has_tool: agent to a tool that it holds.
    """

    is_a: tuple[_Pair, ...] = ()
    requires_skill: tuple[_Pair, ...] = ()
    has_tool: tuple[_Pair, ...] = ()

    @cached_property
    def graph(self) -> "nx.DiGraph":
        """The typed, directed graph; each edge carries its `kind`."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_node(ROOT)
        for kind in ("is_a", "requires_skill", "has_tool"):
            graph.add_edges_from(getattr(self, kind), kind=kind)
        return graph

    @cached_property
    def parent(self) -> dict[str, str]:
        """Concept node to the concept node above it."""
        return dict(self.is_a)

    @cached_property
    def concepts(self) -> tuple[str, ...]:
        """Names of all concepts, sorted."""
        return tuple(sorted(node.partition(":")[2] for node in self.parent))

    def with_task(self, task: TaskConcepts) -> "Knowledge":
        """The graph with a task's concepts; known concepts keep their place in the tree."""
        parent = dict(self.parent)
        chain = [_concept(name) for name in dict.fromkeys((task.main, *task.broader)) if name]
        new = [node for i, node in enumerate(chain) if not any(c in parent for c in chain[: i + 1])]
        for node, above in zip(new, [*chain[1 : len(new) + 1], ROOT], strict=False):
            parent[node] = above
        for skill in task.skills:
            parent.setdefault(_concept(skill), ROOT)
        needs = [(_concept(task.main), _concept(skill)) for skill in task.skills if task.main and skill != task.main]
        return self.replace(
            is_a=tuple(sorted(parent.items())), requires_skill=tuple(sorted({*self.requires_skill, *needs}))
        )

    def with_agents(self, agents: Iterable[Agent], own: Iterable[WorkflowTool] = ()) -> "Knowledge":
        """The graph with exactly these agents, joined to the concepts that they name and the tools that they hold.

        Args:
            own: the team's own tools; what they are for is part of their holders' skills.
        """
        texts = {tool.name: tool.description for tool in own}
        skills = [pair for pair in self.requires_skill if not pair[0].startswith("agent:")]
        tools: list[_Pair] = []
        for agent in agents:
            skills += [(f"agent:{agent.id}", _concept(name)) for name in self.find_named(expertise(agent, texts))]
            tools += [(f"agent:{agent.id}", f"tool:{tool}") for tool in agent.tools]
        return self.replace(requires_skill=tuple(sorted(set(skills))), has_tool=tuple(sorted(set(tools))))

    def find_named(self, text: str) -> tuple[str, ...]:
        """Known concepts all of whose words occur in a text."""
        words = set(_words(text))
        return tuple(name for name, needed in self._words.items() if words >= needed)

    @cached_property
    def _words(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(_words(name)) for name in self.concepts}

    def get_concepts(self, agent: Id) -> frozenset[str]:
        """concepts(A): the concepts that the agent is joined to."""
        return frozenset(
            concept.partition(":")[2] for owner, concept in self.requires_skill if owner == f"agent:{agent}"
        )

    def depth(self, main: str) -> int:
        """d_I: steps from the root to a task's main concept; 1 where it is unknown (D8)."""
        node, steps = _concept(main), 1
        while self.parent.get(node, ROOT) != ROOT:
            node, steps = self.parent[node], steps + 1
        return steps

    def path(self, agent: Id, main: str) -> int | None:
        """Length of the shortest dependency path from an agent to a concept; None if there is none.

        Direction is ignored; a path leads neither through the root nor through other agents (D15).
        """
        import networkx as nx

        if _concept(main) not in self._between_concepts:
            return None
        steps = nx.single_source_shortest_path_length(self._between_concepts, _concept(main))
        known = [steps[node] for name in self.get_concepts(agent) if (node := _concept(name)) in steps]
        return 1 + min(known) if known else None

    @cached_property
    def _between_concepts(self) -> "nx.Graph":
        concepts = [node for node in self.graph if node.startswith("concept:")]
        return self.graph.subgraph(concepts).to_undirected()


def expertise(agent: Agent, tools: Mapping[Id, str] = FrozenMap()) -> str:
    """An agent's role, its prompt and what its tools are for, where that is known, as the text of its skills."""
    return "\n".join([agent.role, agent.prompt, *(tools[name] for name in agent.tools if name in tools)]).strip()


def concept_name(text: str) -> str:
    """A normalised concept name: singular words in lower case, at most 60 characters; "" if nothing is left."""
    return " ".join(_words(text))[:NAME_LENGTH].strip()


def concept_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Normalised names without blanks, duplicates and the root's own name."""
    names = (concept_name(text) for text in texts)
    return tuple(dict.fromkeys(name for name in names if name and name != ROOT.lower()))


def _words(text: str) -> list[str]:
    found = re.findall(r"[^\W_]+", text.lower())
    return [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in found]


def _concept(name: str) -> str:
    return f"concept:{name}"
