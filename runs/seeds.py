"""A study seed by seed, each result kept as it comes; and a method's world, run so."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Generic, TypeVar

from selfwire.core.values import FrozenModel, fingerprint
from selfwire.evals.studies.gains import SeedOutcome, WorldResult
from selfwire.evals.studies.worlds import World, run_seeds
from selfwire.runs.ablation.rows import StudyRow, append_row, read_rows
from selfwire.runs.run_record import compute_code_hash

Result = TypeVar("Result", bound=SeedOutcome)


class SeedRow(StudyRow, Generic[Result]):
    """The result of one seed."""

    result: Result


def run_kept_seeds(
    parameters: FrozenModel,
    seeds: int,
    run: Callable[[Sequence[int]], Generator[Result, None, None]],
    schema: type[SeedRow[Result]],
    out: Path | None,
    tell: Callable[[str], None],
    describe: Callable[[Result], str],
) -> list[Result]:
    """Run a study for the seeds that have no row yet.

    Args:
        parameters: everything that results depend on, beside the seed and the code.
        out: JSONL of the rows; rows in it are not run again. Nothing is kept if None.
        tell: gets a line before the first seed and after each.
        describe: a result in a few words.

    Raises:
        ConfigError: the file cannot be used, or holds another study.
    """
    key = fingerprint({**parameters.model_dump(mode="json"), "code": compute_code_hash()})
    kept = read_rows(out, key, schema) if out else []
    found = {row.result.seed: row.result for row in kept if row.result.seed < seeds}
    left = [seed for seed in range(seeds) if seed not in found]
    tell(f"{seeds} seeds, {len(found)} of them done")
    with closing(run(left)) as results:
        for result in results:
            found[result.seed] = result
            if out:
                append_row(out, schema(study=key, result=result))
            tell(f"seed {result.seed}: {describe(result)}; {seeds - len(found)} seeds left")
    return [found[seed] for seed in range(seeds)]


def run_world(
    world: World, seeds: int, workers: int, out: Path | None, tell: Callable[[str], None]
) -> list[WorldResult]:
    """Run a world for the seeds that have no row yet; as `run_kept_seeds`."""

    def run(left: Sequence[int]) -> Generator[WorldResult, None, None]:
        return run_seeds(world.run_seed, left, workers)

    return run_kept_seeds(
        world.parameters, seeds, run, SeedRow[WorldResult], out, tell, lambda result: f"{len(result.figures)} systems"
    )
