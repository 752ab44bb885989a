"""The disk space of an evolution of 10 iterations of 40 tasks, and the modules that an import loads."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring import Row
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import start_evolution
from selfwire.runs.record import CHECKPOINTS, JOURNAL
from selfwire.runs.spec import EvolveSpec, Sizes

ITERATIONS, BATCH = 10, 40


def measure_storage() -> list[Row]:
    """Evolve the default method on archive without a gate, and measure the files."""
    request = EvolveSpec(
        benchmark="archive",
        evolution=EvolutionConfig(name="bench", iterations=ITERATIONS, batch=BATCH, gate="off"),
        sizes=Sizes(train=4 * BATCH, gate=0, test=0),
    )
    with TemporaryDirectory() as folder:
        home = Path(folder)
        with start_evolution(request, home, run="bench") as opened:
            run_sync(opened.execute())
            spend = opened.journal.spend()
        sizes = {name: (home / "runs" / "bench" / name).stat().st_size for name in (JOURNAL, CHECKPOINTS)}
        library = (home / "library.sqlite").stat().st_size
    code = "import sys, selfwire.graphs.hiva; print(sum(name.split('.')[0] == 'torch' for name in sys.modules))"
    modules = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    what = f"{ITERATIONS} iterations x {BATCH} tasks"
    return [
        Row(what=f"{what}: model calls", value=spend.calls, unit="calls"),
        Row(what=f"{what}: journal", value=sizes[JOURNAL] / 1e6, unit="MB"),
        Row(what=f"{what}: checkpoints", value=sizes[CHECKPOINTS] / 1e6, unit="MB"),
        Row(what=f"{what}: library", value=library / 1e6, unit="MB"),
        Row(what="torch modules after import selfwire.graphs.hiva", value=modules, unit="modules", bound=0),
    ]
