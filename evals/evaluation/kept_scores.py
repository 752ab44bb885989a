"""The scores of an evaluation in a small file: a head, and a line per system with a number per task.

It holds all that tables of scores and costs are computed from, and no answers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from selfwire.core.errors import ConfigError
from selfwire.core.trajectory import DecisionCount
from selfwire.core.values import FrozenModel
from selfwire.evals.evaluation.rows import SystemInfo, TaskRow, read_results
from selfwire.evals.evaluation.table import SystemSummary


class KeptHead(FrozenModel):
    """What was measured: tasks are their ids, in the order of the systems' numbers."""

    benchmark: str
    model: str
    seed: int
    calls_per_task: int | None
    code: str
    tasks: tuple[str, ...]


class KeptSystem(FrozenModel):
    """One system; a score is None for an error, `solved` and `capped` are places of tasks."""

    info: SystemInfo
    scores: tuple[float | None, ...]
    calls: tuple[int, ...]
    tokens: tuple[tuple[int, int], ...]
    solved: tuple[int, ...] = ()
    capped: tuple[int, ...] = ()
    dollars: tuple[float | None, ...] = ()
    decisions: DecisionCount | None = None

    def summarise(self, head: KeptHead) -> SystemSummary:
        """The sum of its tasks."""
        summary = SystemSummary(self.info)
        for row in self._list_rows(head):
            summary.add(row)
        return summary

    def _list_rows(self, head: KeptHead) -> Iterator[TaskRow]:
        for at, (task, score, calls, (read, written)) in enumerate(
            zip(head.tasks, self.scores, self.calls, self.tokens, strict=True)
        ):
            yield TaskRow(
                target=self.info.name,
                task=task,
                score=score,
                solved=None if score is None else at in self.solved,
                error="an error" if score is None else None,
                capped=at in self.capped,
                calls=calls,
                input_tokens=read,
                output_tokens=written,
                dollars=self.dollars[at] if self.dollars else 0.0,
                seconds=0.0,
                decisions=self.decisions if at == 0 else None,
            )


def keep_scores(results: Path, out: Path) -> None:
    """Write the scores of a file of results.

    Raises:
        ConfigError: it is no file of results, it is not complete, or `out` cannot be written.
    """
    header, rows = read_results(results)
    if not header.complete:
        raise ConfigError(f"{results} lacks tasks of some systems; resume the run {header.run}, then keep its scores")
    by_system = {one.name: [row for row in rows if row.target == one.name] for one in header.contestants}
    head = KeptHead(
        benchmark=header.benchmark,
        model=str(header.models["agent"]),
        seed=header.seed,
        calls_per_task=header.calls_per_task,
        code=header.code,
        tasks=tuple(row.task for row in next(iter(by_system.values()))),
    )
    lines: list[FrozenModel] = [head, *(_keep(one, by_system[one.name]) for one in header.contestants)]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(f"{line.model_dump_json(exclude_defaults=True)}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"scores cannot be written to {out}: {error.strerror}; name another file") from None


def _keep(info: SystemInfo, rows: Sequence[TaskRow]) -> KeptSystem:
    summary = SystemSummary(info)
    for row in rows:
        summary.add(row)
    free = all(row.dollars == 0 for row in rows)
    return KeptSystem(
        info=info,
        scores=tuple(None if row.score is None else round(row.score, 6) for row in rows),
        calls=tuple(row.calls for row in rows),
        tokens=tuple((row.input_tokens, row.output_tokens) for row in rows),
        solved=tuple(at for at, row in enumerate(rows) if row.solved),
        capped=tuple(at for at, row in enumerate(rows) if row.capped),
        dollars=() if free else tuple(row.dollars for row in rows),
        decisions=summary.decisions,
    )


def read_kept_scores(path: Path) -> tuple[KeptHead, tuple[SystemSummary, ...]]:
    """Head and systems of a file that `keep_scores` wrote.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        head = KeptHead.model_validate_json(first)
        return head, tuple(KeptSystem.model_validate_json(line).summarise(head) for line in rest)
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{path} holds no scores: {error}; `selfwire results --keep` writes such files") from None
