"""An evaluation of a study."""

import tempfile
import time
from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.core.values import fingerprint
from selfwire.evals.table import read_results
from selfwire.extras.lab.ablation.plan import NAME, Study
from selfwire.extras.lab.ablation.rows import EvaluationRow
from selfwire.models.budget import Ledger
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import start_evaluation


def evaluation(study: Study, key: str, name: str, seed: int, parent: Ledger | None = None) -> EvaluationRow:
    """Run one evaluation in a home folder that is removed afterwards.

    Args:
        key: `study.key`, as it was when the study began.
        parent: shares with other processes what providers allow.

    Raises:
        ConfigError: every task ended as an error.
    """
    since = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="selfwire-study-") as home:
        with start_evaluation(study.evaluation(name, seed), Path(home), run=NAME, parent=parent) as run:
            line = run_sync(run.execute())[-1]
            out = run.out
        _, rows = read_results(out)
    if line.score is None:
        raise ConfigError(f"no task of variant {name!r} and seed {seed} was finished; look into the model's faults")
    tasks = len(line.scores)
    answers = [[row.task, row.answer, row.calls] for row in rows if row.target == NAME]
    return EvaluationRow(
        study=key,
        variant=name,
        seed=seed,
        after=line.score,
        compared=len(line.graded),
        errors=line.errors,
        calls=line.spend.calls / tasks,
        tokens=line.spend.tokens / tasks,
        efficiency=line.efficiency,
        rounds=None if line.rounds is None else line.rounds / tasks,
        decisions=line.decisions,
        paths={"test": fingerprint(answers)},
        seconds=round(time.monotonic() - since, 2),
    )
