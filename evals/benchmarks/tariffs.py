"""Tariffs: questions that a tool of the team settles, and the tool has a planted fault.

Seeds take the tariffs in turn and change the right code of one in one place, so that some of its results are wrong.
The environment says what is right where an answer is wrong. What is measured is whether the tool gets better.
"""

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from selfwire.core.own_tool import OwnTool
from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_answer_rule,
    make_disjoint_loader,
    reject,
)
from selfwire.tools.tool_mutations import list_mutations

FORM = "End with a line that starts with 'Answer:' and gives only the number."
FAULTY = (0.1, 0.95)
"""Least and greatest share of inputs for which a planted fault gives a wrong result."""


class Tariff(NamedTuple):
    """A tariff: what it is about, the code of its tool, and the largest value of each parameter."""

    question: str
    description: str
    source: str
    ranges: Mapping[str, int]


TARIFFS: Mapping[str, Tariff] = {
    "parking_fee": Tariff(
        "What does parking cost",
        "Takes minutes and returns the fee for parking: the first 30 are free, then each hour that has begun costs 3, "
        "and never more than 24.",
        "def tool_function(minutes: int) -> int:\n    if minutes <= 30:\n        return 0\n"
        "    hours = (minutes - 30 + 59) // 60\n    return min(hours * 3, 24)\n",
        {"minutes": 900},
    ),
    "postage": Tariff(
        "What does the parcel cost",
        "Takes grams and a zone and returns the price of a parcel: 5 up to 1000 grams, 9 above, and 4 more for each "
        "zone from the second on.",
        "def tool_function(grams: int, zone: int) -> int:\n    price = 5\n    if grams > 1000:\n        price = 9\n"
        "    return price + 4 * max(zone - 1, 0)\n",
        {"grams": 2000, "zone": 6},
    ),
    "fare": Tariff(
        "What does the ticket cost",
        "Takes an age and kilometres and returns the price of a ticket: 2 and 1 for each 5 km, children below 14 pay "
        "half, rounded down.",
        "def tool_function(age: int, kilometres: int) -> int:\n    price = 2 + kilometres // 5\n    if age < 14:\n"
        "        price = price // 2\n    return price\n",
        {"age": 30, "kilometres": 100},
    ),
    "water_bill": Tariff(
        "How high is the water bill",
        "Takes cubic metres and returns the bill: a basis of 12, 2 for each of the first 50, 3 for each further one.",
        "def tool_function(metres: int) -> int:\n    cheap = min(metres, 50)\n    dear = max(metres - 50, 0)\n"
        "    return 12 + 2 * cheap + 3 * dear\n",
        {"metres": 400},
    ),
    "late_fine": Tariff(
        "How high is the fine",
        "Takes days and books and returns the fine: 2 for each book and week that has begun after 3 free days.",
        "def tool_function(days: int, books: int) -> int:\n    late = max(days - 3, 0)\n    weeks = (late + 6) // 7\n"
        "    return 2 * weeks * books\n",
        {"days": 60, "books": 8},
    ),
    "shift_pay": Tariff(
        "What is the pay",
        "Takes hours and the pay per hour and returns the pay: hours above 8 count twice, and at most 12 are paid.",
        "def tool_function(hours: int, rate: int) -> int:\n    paid = min(hours, 12)\n    extra = max(paid - 8, 0)\n"
        "    return (paid + extra) * rate\n",
        {"hours": 16, "rate": 30},
    ),
}

_Function = Callable[..., Any]


class PlantedTool(NamedTuple):
    """A tool with a fault, the right code, and the share of inputs that come out wrong."""

    tool: OwnTool
    right: str
    wrong: float


@lru_cache(maxsize=64)
def plant_fault(seed: int) -> PlantedTool:
    """Plant a fault in the tool of a seed."""
    rng = random.Random(f"tariffs {seed}")
    name = sorted(TARIFFS)[seed % len(TARIFFS)]
    tariff = TARIFFS[name]
    inputs = [_draw_input(tariff, rng) for _ in range(200)]
    right = [_load(tariff.source)(**values) for values in inputs]
    faulty = [(mutation, _share_wrong(mutation, inputs, right)) for mutation in list_mutations(tariff.source)]
    source, wrong = rng.choice([mutation for mutation in faulty if FAULTY[0] <= mutation[1] <= FAULTY[1]])
    return PlantedTool(OwnTool(name=name, description=tariff.description, source=source), tariff.source, wrong)


def _share_wrong(source: str, inputs: list[dict[str, int]], right: list[Any]) -> float:
    function = _load(source)
    results = list[Any]()
    for values in inputs:
        try:
            results.append(function(**values))
        except ArithmeticError:
            results.append(None)
    wrong: int = sum(a != b for a, b in zip(results, right, strict=True))
    return wrong / len(inputs)


def _load(source: str) -> _Function:
    """The function of a tariff's code, which is our own."""
    space: dict[str, Any] = {}
    exec(compile(source, "tariff", "exec"), space)
    function: _Function = space["tool_function"]
    return function


def _draw_input(tariff: Tariff, rng: random.Random) -> dict[str, int]:
    return {name: rng.randint(0, most) for name, most in tariff.ranges.items()}


@lru_cache(maxsize=8)
def generate_tasks(size: int, seed: int) -> tuple[Task, ...]:
    """Generate different questions on the tariff of a seed; fewer if there are no more."""
    name = plant_fault(seed).tool.name
    tariff, rng = TARIFFS[name], random.Random(f"tariffs {seed} {size}")
    most = 1
    for bound in tariff.ranges.values():
        most *= bound + 1
    drawn = dict[str, Task]()
    while len(drawn) < min(size, most // 2):
        given = _draw_input(tariff, rng)
        text = ", ".join(f"{key} = {value}" for key, value in given.items())
        drawn.setdefault(
            text,
            Task(
                id=f"tariffs-{seed}-{len(drawn)}",
                input=f"{tariff.question} with {text}? Use the tool {name}.\n{FORM}",
                kind="tariff",
                reference=f"{name} with {text} is {_load(tariff.source)(**given)}",
            ),
        )
    return tuple(drawn.values())


def compare(task: Task, right: str, given: str) -> Feedback:
    """Compare the answer with the right result, and state the result if they differ."""
    return RIGHT if given.strip() == right.rpartition(" is ")[2] else reject(f"The answer is wrong: {right}.")


grade = make_answer_rule("tariffs", compare)
ENVIRONMENT = RuleEnvironment("tariffs", grade, "normal_form")


def tariffs(size: int = 300, *, seed: int = 0) -> Benchmark:
    """The benchmark of a seed; its tool belongs to the team of a method, and baselines have none."""
    planted = plant_fault(seed)
    return Benchmark(
        name="tariffs",
        description=f"Questions for one call of {planted.tool.name}, which is wrong for {planted.wrong:.0%} of inputs.",
        load=make_disjoint_loader(lambda: generate_tasks(size, seed)),
        environment=ENVIRONMENT,
        own_tools=(planted.tool,),
        baseline=TrivialRule("always 0", lambda question: "Answer: 0"),
    )
