"""Kills of what runs on many machines: workers, their driver and PostgreSQL, under budgets that may stop the run."""

import signal
import time
from collections.abc import Callable

from selfwire.cli.commands import STOPPED
from tests import machines, processes
from tests.disturbances import Disturbed

AT_ONCE = 2
"""Most calls at once of a worker, as kinds with `machines` have it."""
DELAY = 0.05
"""Seconds of a call, so that kills meet some under way."""
ENOUGH = 9999
"""Calls of a budget that stops nothing."""


def start_on_machines(one: Disturbed, limit: int = ENOUGH) -> processes.Process:
    """Begin a run or resume it, with some workers and a budget of calls."""
    where, workers = one.kind.machines, str(one.rng.randint(2, 4))
    on_ray = ("--executor", "ray", "--ray-address", one.shared.ray) if where == "ray" else ()
    words = (*one.arguments, "--workers", workers, *on_ray, "--budget-calls", str(limit))
    return one.call(words, one.shared.environment(on_server=where != "file"))


def kill_on_machines(one: Disturbed) -> None:
    """Kill workers and PostgreSQL, maybe under a budget that is too small; then the driver, or wait for its end."""
    limit = one.rng.choice((ENOUGH, ENOUGH, one.rng.randint(one.requests // 3, one.requests)))
    before = len(one.server.asked) - one.asked
    one.server.delay = DELAY
    process = start_on_machines(one, limit)
    for _ in range(one.rng.randint(1, 3)):
        wait(one, process)
        if process.poll() is None:
            is_server = one.kind.machines != "file" and one.rng.random() < 0.5
            stop_server(one) if is_server else kill_worker(one, process)
    if one.rng.random() < 0.7:
        wait(one, process)
        process.kill()
    errors, one.server.delay = one.end(process), 0.0
    if process.returncode not in (0, -signal.SIGKILL, STOPPED):
        one.faults.append(f"kills ended it with {process.returncode}: {errors.strip()[-300:]}")
    spent = len(one.server.asked) - one.asked
    if spent > max(limit, before) + one.in_flight + one.unsure:
        one.faults.append(f"{spent} calls of {limit}, {one.in_flight} in flight and {one.unsure} held at kills")


def wait(one: Disturbed, process: processes.Process) -> None:
    """Wait for some replies and some milliseconds."""
    one.wait(process, one.rng.randint(1, 1 + one.requests // 10))
    time.sleep(one.rng.uniform(0, 0.02))


def kill_worker(one: Disturbed, driver: processes.Process) -> None:
    """SIGKILL of a worker, if there is one."""
    if found := machines.find_workers(one.home, driver.pid):
        one.in_flight += machines.kill_worker(one.home, one.rng.choice(sorted(found)), driver.pid)
        one.unsure += AT_ONCE
        one.kills["worker"] += 1


def stop_server(one: Disturbed) -> None:
    """Stop PostgreSQL as a crash does, and start it again."""
    one.shared.postgres.stop()
    time.sleep(one.rng.uniform(0, 2))
    one.shared.postgres.start()
    one.kills["PostgreSQL"] += 1


MACHINE_KILLS: dict[str, Callable[[Disturbed], None]] = {"machines": kill_on_machines}
"""Disturbances for the kinds of runs that have `machines`, and only for those."""
