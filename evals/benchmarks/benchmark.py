"""A benchmark: its splits, graders, tools and trivial rule."""

import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Protocol, runtime_checkable

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.own_tool import OwnTool
from selfwire.core.protocols import Environment, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Splits, Task
from selfwire.core.team import Team
from selfwire.core.values import FrozenMap
from selfwire.evals.graders import add_measure, find_final_answer


class TooFewTasksError(ConfigError):
    """A split is asked for more tasks than there are."""


@dataclass(frozen=True)
class TrivialRule:
    """A baseline without a team: a rule that makes the answer from a task's input."""

    name: str
    answer: Callable[[str], str]

    @property
    def note(self) -> str:
        """The note below a table that explains the baseline."""
        return f"trivial baseline: {self.name}, without a model"


@runtime_checkable
class NeedsModel(Protocol):
    """An environment that asks a model, which a run provides."""

    def with_model(self, model: Model) -> Environment:
        """Make a copy of the environment with a model."""
        ...


@dataclass(frozen=True)
class Benchmark:
    """A named set of tasks with the tools to work on them and the environment that scores answers.

    Attributes:
        load: (seed, train, gate, test) → the splits, of exactly those sizes.
        environment: scores answers; sees references, as `load` does and nothing else.
        tools: names of the tools that agents of an initial team hold.
        initial_teams: by method, the team that it starts from here in place of its own.
        own_tools: tools that belong to the initial team of a method; baselines have none.
        figures: names of the environment's details whose means are printed beside scores, such as em.
        notes: what the user should know of how tasks were read.
        aside: makes further lines to print that do not depend on a team, such as recall of the search.
    """

    name: str
    description: str
    load: Callable[[int, int, int, int], Splits]
    environment: Environment
    baseline: TrivialRule
    toolbox: Toolbox = field(default_factory=FrozenMap)
    tools: tuple[str, ...] = ()
    initial_teams: Mapping[str, Team] = field(default_factory=FrozenMap)
    own_tools: tuple[OwnTool, ...] = ()
    figures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    aside: Callable[[], Coroutine[Any, Any, Sequence[str]]] | None = None

    def splits(self, seed: int, *, train: int, gate: int, test: int) -> Splits:
        """Splits of the given sizes, the same for the same seed; ConfigError if tasks are too few."""
        if min(train, gate, test) < 0:
            raise ConfigError(f"sizes of splits are at least 0, not train={train}, gate={gate}, test={test}")
        return self.load(seed, train, gate, test)

    def with_model(self, model: Model) -> "Benchmark":
        """Give the environment of the benchmark a model, if it needs one."""
        environment = self.environment
        return replace(self, environment=environment.with_model(model)) if isinstance(environment, NeedsModel) else self


def make_disjoint_splits(tasks: Sequence[Task], seed: int, train: int, gate: int, test: int) -> Splits:
    """Deal tasks out so that no question and no entity is in two splits.

    Tasks that share an entity or a text form a group. Groups are dealt whole, the largest split first, in a random
    order that mixes kinds evenly. A group that would overfill a split is cut there; its other tasks stay unused.

    Raises:
        TooFewTasksError: there are not enough tasks.
    """
    groups, rng = split_into_components(tasks), random.Random(f"splits {seed}")
    rng.shuffle(groups)
    by_kinds: dict[tuple[str, ...], list[list[Task]]] = {}
    for group in groups:
        by_kinds.setdefault(tuple(sorted(task.kind for task in group)), []).append(group)
    placed = [((i + rng.random()) / len(same), group) for same in by_kinds.values() for i, group in enumerate(same)]
    groups = [group for _, group in sorted(placed, key=lambda placing: placing[0])]
    left = f"; those that share one are dealt out together, as {len(groups)}" if len(groups) < len(tasks) else ""
    dealt: dict[str, list[Task]] = {"train": [], "gate": [], "test": []}
    sizes = {"train": train, "gate": gate, "test": test}
    for name in sorted(sizes, key=lambda split: -sizes[split]):
        while len(dealt[name]) < sizes[name]:
            if not groups:
                raise TooFewTasksError(
                    f"{len(tasks)} tasks are not enough for train={train}, gate={gate}, test={test} without shared "
                    f"questions or entities: {name} has {len(dealt[name])}{left}; give more tasks, or ask for fewer"
                )
            dealt[name].extend(groups.pop()[: sizes[name] - len(dealt[name])])
    return Splits(**{name: tuple(part) for name, part in dealt.items()})


def make_disjoint_loader(load_tasks: Callable[[], Sequence[Task]]) -> Callable[[int, int, int, int], Splits]:
    """Make the `load` of a benchmark whose tasks are a single pool."""
    return lambda seed, train, gate, test: make_disjoint_splits(load_tasks(), seed, train, gate, test)


def sample_tasks(benchmark: str, split: str, tasks: Sequence[Task], size: int, seed: int) -> tuple[Task, ...]:
    """Take the first tasks in the seed's order, so that samples are nested; TooFewTasksError if there are fewer."""
    if size > len(tasks):
        raise TooFewTasksError(f"the split {split!r} of {benchmark} has {len(tasks)} tasks, not {size}; ask for fewer")
    shuffled = list(tasks)
    random.Random(f"{benchmark} {split} {seed}").shuffle(shuffled)
    return tuple(shuffled[:size])


def split_into_components(tasks: Sequence[Task]) -> list[list[Task]]:
    """Group tasks so that no two groups share an entity, a text or the user's group, in order of their first task."""
    import networkx

    first: dict[tuple[str, str], int] = {}
    shared = networkx.Graph()
    for index, task in enumerate(tasks):
        keys = [("text", task.input), *(("entity", entity) for entity in task.entities)]
        keys += [("group", task.group)] * bool(task.group)
        shared.add_edges_from((first.setdefault(key, index), index) for key in keys)
    return [[tasks[index] for index in sorted(group)] for group in networkx.connected_components(shared)]


Rule = Callable[[Task, str], Feedback | Awaitable[Feedback]]
"""A rule that grades an answer to a task; raises GradingError if the task lacks the reference."""

RIGHT = Feedback(score=1.0, solved=True, text="The answer is right.")
NO_ANSWER_LINE = "Format fault: there is no line that starts with 'Answer:' and gives an answer."


@dataclass
class RuleEnvironment:
    """A rule as an environment; `measure` is a name of `evals.graders`, or a text on the reward."""

    name: str
    rule: Rule
    measure: str

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Grade by the rule; GradingError if the task lacks the reference, or the grading failed."""
        feedback = self.rule(task, answer)
        return add_measure(await feedback if isawaitable(feedback) else feedback, self.measure)


def make_answer_rule(benchmark: str, compare: Callable[[Task, str, str], Feedback]) -> Callable[[Task, str], Feedback]:
    """Make a rule for the last line that starts with "Answer:"; `compare` gets the task, its reference and the line."""

    def grade(task: Task, answer: str) -> Feedback:
        right, given = get_text_reference(task, benchmark), find_final_answer(answer)
        return reject(NO_ANSWER_LINE) if given is None else compare(task, right, given)

    return grade


def refuse_size(size: int, most: int, what: str) -> None:
    """Raise ConfigError unless a number of generated tasks is from 1 to `most`, which stops a typing error."""
    if not 1 <= size <= most:
        raise ConfigError(f"there are from 1 to {most:,} {what}, not {size:,}; ask for another number")


def reject(text: str) -> Feedback:
    """Make the feedback of score 0 with an explanation."""
    return Feedback(score=0.0, solved=False, text=text)


def get_text_reference(task: Task, benchmark: str) -> str:
    """Return a reference that must be a text, else raise GradingError."""
    if not isinstance(task.reference, str):
        raise GradingError(f"{benchmark} task {task.id!r} has no text as reference: {task.reference!r}")
    return task.reference
