"""State of a run, for lists and for the line above its page."""

from collections.abc import Mapping

from pydantic import Field, ValidationError

from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, format_count
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.record import STUDY, STUDY_ROWS, RecordedStudy
from selfwire.extras.pages.journal_follower import JournalLook
from selfwire.extras.pages.reading import AT_WORK
from selfwire.graphs.router import UPDATE
from selfwire.runs.record import INTERRUPTED, REQUEST, ROWS, STUDIES, SUMMARY, has_ended
from selfwire.runs.spec import EvaluateSpec, EvolveSpec

NOTES = (SUMMARY, REQUEST, STUDY)
PREFIXES = (f"{ROWS}/", f"{UPDATE}/", STUDY_ROWS)
RESUMED = ("evolve", "train", "eval", "compare")
"""Commands whose runs can be resumed by name."""


class RunProgress(FrozenModel):
    """A run as it stands now.

    Args:
        summary: the run's own note: command, method, benchmark, status, ...
        status: as in the summary; `INTERRUPTED` if its process is gone.
        where: what it is at, as a few words; "" if it has ended or nobody can say.
        done, total: tasks of what it is at; both 0 if unknown.
        fault: why its journal cannot be read; "" if it can.
    """

    run: str
    started: float
    summary: FrozenJson = Field(default_factory=FrozenMap)
    status: str = ""
    where: str = ""
    done: int = 0
    total: int = 0
    spend: Usage = ZERO_USAGE
    fault: str = ""

    @property
    def is_going_on(self) -> bool:
        """Whether a process is at work on it."""
        return not self.fault and self.status != INTERRUPTED and not has_ended(self.summary)

    @property
    def resume_line(self) -> str:
        """How a run that stopped early is resumed; "" for others."""
        command = self.summary.get("command")
        if self.fault or self.is_going_on or self.status.startswith("finished"):
            return ""
        if command in STUDIES:
            return "the same command again goes on with it"
        return f"`selfwire {command} --resume {self.run}` goes on with it" if command in RESUMED else ""

    @property
    def system(self) -> str:
        """The method, or the systems that are measured, and the name under which teams are saved."""
        names = [str(self.summary[key]) for key in ("method", "name") if self.summary.get(key)]
        return ", ".join(names)


def describe_progress(run: str, started: float, look: JournalLook, *, held: bool) -> RunProgress:
    """Describe the state of a run by its journal; `held` says whether a process is at work on it."""
    summary = look.notes.get(SUMMARY)
    summary = summary if isinstance(summary, dict) else {}
    ended = has_ended(summary)
    where, done, total = ("", 0, 0) if ended else _find_place(str(summary.get("command")), look)
    return RunProgress(
        run=run,
        started=started,
        summary=summary,
        status=str(summary.get("status", "")) if held or ended else INTERRUPTED,
        where=where,
        done=min(done, total),
        total=total,
        spend=look.spend,
    )


def _find_place(command: str, look: JournalLook) -> tuple[str, int, int]:
    """Phase of a run, and how many of its tasks are done; empty where the request cannot be read."""
    request = look.notes.get(REQUEST)
    try:
        if study := look.notes.get(STUDY):
            recorded = RecordedStudy.model_validate(study)
            what = "runs of variants and seeds" if isinstance(recorded.head, Study) else "seeds"
            return what, look.counts[STUDY_ROWS], recorded.total
        if command == "evolve":
            return _find_phase(EvolveSpec.model_validate(request), look)
        if command in ("eval", "compare"):
            asked = EvaluateSpec.model_validate(request)
            total = asked.tasks * (len(asked.entries) + 1)  # the benchmark's own rule answers too
            return (
                f"{format_count(len(asked.entries), 'system')} on {asked.split} tasks",
                look.counts[f"{ROWS}/"],
                total,
            )
    except ValidationError:
        return "", 0, 0
    updates = look.counts[f"{UPDATE}/"]
    return (f"{format_count(updates, 'update')} of the router" if updates else ""), 0, 0


def _find_phase(request: EvolveSpec, look: JournalLook) -> tuple[str, int, int]:
    config, size = request.evolution, request.sizes
    batch = min(config.batch, size.train)
    if look.phase is None:
        return f"iteration 1 of {config.all_iterations}, train tasks", 0, batch
    iteration, phase, side = look.phase
    totals: Mapping[str, int] = {
        "rollout": batch,
        "draft": batch,
        "gate": min(config.gate_tasks, size.gate),
        "test": size.test,
        "baseline": size.test,
    }
    _, tasks = AT_WORK.get(phase, ("", phase))
    what = f"{'baseline on ' if phase == 'baseline' else ''}{tasks}{f' ({side})' if side else ''}"
    where = what if phase in ("test", "baseline") else f"iteration {iteration + 1} of {config.all_iterations}, {what}"
    total = totals.get(phase, 0)
    return where, look.graded if total else 0, total
