"""What a benchmark is to the rest of selfwire: tasks, an environment, tools and a baseline."""

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Environment, Model, Toolbox
from selfwire.core.task import Splits, Task


@dataclass(frozen=True)
class TrivialRule:
    """What needs no team: always the same answer, or a rule on the question.

    Attributes:
        name: how reports call it.
        answer: the answer to a task's input.
    """

    name: str
    answer: Callable[[str], str]


@runtime_checkable
class NeedsModel(Protocol):
    """An environment that asks a model, which only a run can lend."""

    def with_model(self, model: Model) -> Environment:
        """The same environment with a model."""
        ...


@dataclass(frozen=True)
class Benchmark:
    """A named set of tasks with what is needed to work on them and to score answers.

    Attributes:
        name: what the command line calls it.
        description: one sentence for people.
        load: (seed, train, gate, test) → the splits, of exactly those sizes.
        environment: scores answers; with `load`, the only one that sees references.
        toolbox: tools by the name that agents hold.
        tools: names of the tools that a seed team's agents hold.
        baseline: the trivial baseline that results are printed beside.
        figures: names of the environment's details whose means are printed beside scores, such as em.
        aside: what else is printed beside results and does not depend on a team, such as recall of the search.
    """

    name: str
    description: str
    load: Callable[[int, int, int, int], Splits]
    environment: Environment
    toolbox: Toolbox
    tools: tuple[str, ...]
    baseline: TrivialRule
    figures: tuple[str, ...] = ()
    aside: Callable[[], Coroutine[Any, Any, Sequence[str]]] | None = None

    def splits(self, seed: int, *, train: int, gate: int, test: int) -> Splits:
        """Splits of the asked sizes, the same for the same seed.

        Raises:
            ConfigError: a size is negative, or there are not enough tasks.
        """
        if min(train, gate, test) < 0:
            raise ConfigError(f"sizes of splits are at least 0, not train={train}, gate={gate}, test={test}")
        return self.load(seed, train, gate, test)

    def with_model(self, model: Model) -> "Benchmark":
        """The benchmark with a model lent to its environment, if that needs one; else itself."""
        found = self.environment
        return replace(self, environment=found.with_model(model)) if isinstance(found, NeedsModel) else self


def make_disjoint_splits(tasks: Sequence[Task], seed: int, train: int, gate: int, test: int) -> Splits:
    """Deal tasks out so that no question and no entity is on two sides.

    Tasks that share an entity or a text form a group; groups are dealt whole, the largest split first, in an
    order that is random but mixes kinds evenly. A group that would overfill a split is cut there and its remaining
    tasks are left unused.

    Raises:
        ConfigError: there are not enough tasks.
    """
    groups = _mixed(split_into_components(tasks), random.Random(f"splits {seed}"))
    dealt: dict[str, list[Task]] = {"train": [], "gate": [], "test": []}
    sizes = {"train": train, "gate": gate, "test": test}
    for name in sorted(sizes, key=lambda one: -sizes[one]):
        while len(dealt[name]) < sizes[name]:
            if not groups:
                raise ConfigError(
                    f"{len(tasks)} tasks are not enough for train={train}, gate={gate}, test={test} without shared "
                    f"entities: {name} has {len(dealt[name])}; ask for fewer"
                )
            dealt[name].extend(groups.pop()[: sizes[name] - len(dealt[name])])
    return Splits(**{name: tuple(found) for name, found in dealt.items()})


def split_into_components(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks in groups that share no entity and no text with one another, in order of their first task."""
    parent = list(range(len(tasks)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    owner: dict[tuple[str, str], int] = {}
    for index, task in enumerate(tasks):
        for key in (("text", task.input), *(("entity", entity) for entity in task.entities)):
            first, second = sorted((root(owner.setdefault(key, index)), root(index)))
            parent[second] = first
    groups: dict[int, list[Task]] = {}
    for index, task in enumerate(tasks):
        groups.setdefault(root(index), []).append(task)
    return list(groups.values())


def _mixed(groups: list[list[Task]], rng: random.Random) -> list[list[Task]]:
    """Groups in random order, those of equal kinds spread evenly."""
    rng.shuffle(groups)
    by_kinds: dict[tuple[str, ...], list[list[Task]]] = {}
    for group in groups:
        by_kinds.setdefault(tuple(sorted(task.kind for task in group)), []).append(group)
    placed = [((i + rng.random()) / len(same), group) for same in by_kinds.values() for i, group in enumerate(same)]
    return [group for _, group in sorted(placed, key=lambda one: one[0])]
