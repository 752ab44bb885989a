"""Sizes of splits: those that the user gives, and for the others as many tasks as there are, up to the usual size."""

from collections.abc import Callable, Mapping

from selfwire.core.errors import ConfigError
from selfwire.evals.benchmarks.benchmark import TooFewTasksError
from selfwire.evals.benchmarks.catalogue import GENERATED
from selfwire.evals.statistics import compute_wilson_interval
from selfwire.runs.ablation.plan import Study
from selfwire.runs.evaluation.contamination import ContaminatedTasks
from selfwire.runs.evaluation.lifecycle import load_request_tasks
from selfwire.runs.evaluation.request import EvaluationRequest
from selfwire.runs.evolution import splits
from selfwire.runs.requests import EvolveRequest, Sizes

LEAST = 4
"""Tasks of a split that a run starts with, unless the user gives its size."""
Given = Mapping[str, int | None]
"""Sizes by option; None for one that the user does not give."""
Deal = Callable[[Mapping[str, int]], object]
"""Deals tasks out in sizes by option."""


def fit_evolution(request: EvolveRequest, given: Given) -> tuple[EvolveRequest, str]:
    """The request in sizes that its tasks allow, and a note if they are smaller than those of the request.

    Args:
        request: with the usual sizes.
        given: of --train, --gate-size and --test, in this order; without --gate-size there are no gate tasks.

    Raises:
        ConfigError: there are fewer tasks than the user asks for, or than `LEAST` in a split.
    """

    def resize(sizes: Mapping[str, int]) -> EvolveRequest:
        return request.replace(sizes=_make_sizes(sizes))

    sizes, note = fit_sizes(
        request.benchmark, given, _list_sizes(request.sizes, given), lambda found: splits(resize(found))
    )
    return resize(sizes), note


def fit_study(study: Study, given: Given) -> tuple[Study, str]:
    """The same for a study, whose seeds all have the sizes of the first."""

    def resize(sizes: Mapping[str, int]) -> Study:
        return study.replace(sizes=_make_sizes(sizes))

    def deal(sizes: Mapping[str, int]) -> object:
        resized, name = resize(sizes), study.chosen[0]
        if study.evolves:
            return splits(resized.request(name, 0))
        return load_request_tasks(resized.evaluation(name, 0), ContaminatedTasks())

    whole = _list_sizes(study.sizes, given)
    usual = whole if study.evolves else {"--test": whole["--test"]}
    sizes, note = fit_sizes(
        study.benchmark, {name: given[name] for name in usual}, usual, lambda found: deal({**whole, **found})
    )
    return resize({**whole, **sizes}), note


def fit_evaluation(request: EvaluationRequest, given: Given) -> tuple[EvaluationRequest, str]:
    """The same for an evaluation.

    Args:
        given: of --train, --gate-size and --tasks; only of --tasks where nothing is evolved first.
    """
    evolving = request.evolving

    def resize(sizes: Mapping[str, int]) -> EvaluationRequest:
        tasks = request.replace(tasks=sizes["--tasks"])
        if evolving is None:
            return tasks
        return tasks.replace(evolving=evolving.replace(train=sizes["--train"], gate=sizes["--gate-size"]))

    usual = {"--tasks": request.tasks}
    if evolving is not None:
        usual = {"--train": evolving.train, "--gate-size": evolving.gate, **usual}
    sizes, note = fit_sizes(
        request.benchmark,
        {name: given.get(name) for name in usual},
        usual,
        lambda found: load_request_tasks(resize(found), ContaminatedTasks()),
        least=LEAST if evolving else 1,
        names_interval=False,  # tasks that a system has learned from may be left out yet; the table has the interval
    )
    return resize(sizes), note


def fit_sizes(
    benchmark: str,
    given: Given,
    usual: Mapping[str, int],
    deal: Deal,
    least: int = LEAST,
    *,
    names_interval: bool = True,
) -> tuple[dict[str, int], str]:
    """Sizes by option, and a note if some are smaller than usual.

    Args:
        benchmark: its name.
        given: the last is of the tasks that are measured.
        deal: deals tasks out in these sizes; raises TooFewTasksError if there are not enough.
        names_interval: whether the note says how wide the interval of a score will be.

    Raises:
        ConfigError: there are fewer tasks than the user asks for, or than `least` in a split.
    """

    def cut(most: int) -> dict[str, int]:
        return {name: min(most, usual[name]) if size is None else size for name, size in given.items()}

    whole = cut(max(usual.values()))
    if benchmark in GENERATED or _fits(deal, whole):
        return whole, ""
    if (most := _find_most(max(usual.values()), lambda size: _fits(deal, cut(size)))) >= least:
        return cut(most), _describe(cut(most), usual, given, names_interval)
    raise _explain(given, cut(least), deal)


def _find_most(high: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `high` that fits, as all below it do; 0 if none does."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _describe(sizes: Mapping[str, int], usual: Mapping[str, int], given: Given, names_interval: bool) -> str:
    smaller = [name for name, size in given.items() if size is None and sizes[name] < usual[name]]
    listed = ", ".join(f"{name} {sizes[name]} (not {usual[name]})" for name in smaller)
    note = f"there are fewer tasks than usual: {listed}"
    if not (measured := [*sizes.values()][-1]) or not names_interval:
        return note
    half = compute_wilson_interval(measured // 2, measured)
    return (
        f"{note}; intervals will be wide: {measured // 2} of {measured} tasks solved is "
        f"{half.value:.2f} [{half.low:.2f}, {half.high:.2f}]"
    )


def _fits(deal: Deal, sizes: Mapping[str, int]) -> bool:
    try:
        deal(sizes)
    except TooFewTasksError:
        return False
    return True


def _explain(given: Given, least: Mapping[str, int], deal: Deal) -> ConfigError:
    asked = {name: size for name, size in given.items() if size}
    for name, size in sorted(asked.items(), key=lambda one: -one[1]):
        if most := _find_most(size, lambda fewer, name=name: _fits(deal, {**least, name: fewer})):  # type: ignore[misc]
            others = ", ".join(f"{other} {count}" for other, count in least.items() if other != name)
            return ConfigError(
                f"{name} {size}: there are not so many tasks; it can be {most} at most{others and f' beside {others}'}"
            )
    listed = ", ".join(f"{name} {size}" for name, size in least.items())
    try:
        deal(least)
    except TooFewTasksError as error:
        return ConfigError(f"a run needs at least {listed}; {error}")
    raise AssertionError("tasks that were not enough are enough now")  # pragma: no cover - they are not


def _make_sizes(sizes: Mapping[str, int]) -> Sizes:
    return Sizes(train=sizes["--train"], gate=sizes.get("--gate-size", 0), test=sizes["--test"])


def _list_sizes(sizes: Sizes, given: Given) -> dict[str, int]:
    listed = {"--train": sizes.train, "--gate-size": sizes.gate, "--test": sizes.test}
    return {name: listed[name] for name in given}
