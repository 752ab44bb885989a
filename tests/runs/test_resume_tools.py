"""An evolution of tools that stops and goes on ends as one that was not stopped, records of tools included."""

from pathlib import Path

import pytest

from selfwire.core.errors import BudgetError
from selfwire.core.team import Team
from selfwire.core.usage import Budget
from selfwire.extras.lab.ablation.plan import Study
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import OpenEvolution, resume_evolution, start_evolution
from selfwire.runs.record import ResumeChanges
from selfwire.runs.spec import Sizes
from tests.sandboxed import needs_sandbox

STUDY = Study(benchmark="tariffs", sizes=Sizes(train=12, gate=12, test=4), iterations=2, batch=4, gate_tasks=4, seeds=1)
REQUEST = STUDY.request("full", 3)  # whose tool is written anew


def finish(run: OpenEvolution) -> Team:
    final = run_sync(run.execute())
    return Team.model_validate(run_sync(run.journal.get_body(final["incumbent"])))


@needs_sandbox
@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("calls", [25, 60])
def test_an_evolution_of_tools_goes_on_where_it_stopped(tmp_path: Path, calls: int) -> None:
    with start_evolution(REQUEST, tmp_path / "whole", run="r") as run:
        whole, spent = finish(run), run.spent.calls
    stopped = REQUEST.replace(budget=Budget(calls=calls))
    with start_evolution(stopped, tmp_path / "parts", run="r") as run, pytest.raises(BudgetError):
        run_sync(run.execute())
    with resume_evolution("r", tmp_path / "parts", changes=ResumeChanges({"calls": 10_000})) as run:
        again = finish(run)
        assert run.spent.calls == spent
    assert again.fingerprint == whole.fingerprint
    [one], [other] = again.tools, whole.tools
    assert (one.record.calls, one.record.failures) == (other.record.calls, other.record.failures)
    assert one.version > 1
