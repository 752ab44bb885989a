"""Programs that try to break out of a sandbox, the same for every backend; and the harm that they do without one."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from selfwire.core.protocols import MEBIBYTE, Execution, Limits, Sandbox
from selfwire.tools.sandbox import monty, sandbox_waiting
from selfwire.tools.sandbox.sandbox_waiting import ProcessTimer
from tests.abuse.bombs import BOMBS, CANARY, UNTOUCHED
from tests.abuse.program import Program
from tests.abuse.reaches import REACHES
from tests.abuse.reads import READS
from tests.abuse.world import VARIABLE, World, planted
from tests.sandboxed import every_sandbox

PROGRAMS = (*READS, *REACHES, *BOMBS)
TIGHT = Limits(seconds=0.6, processor=1, memory=128 * MEBIBYTE, output=20_000, files=2 * MEBIBYTE, entries=500)
USUAL = TIGHT.replace(seconds=10, processor=5)
PATIENCE = 240
"""Seconds that a program may take on a busy machine; those that would not end would take longer."""

pytestmark = pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="the programs are made for Linux")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with planted() as one:
        yield one


@pytest.fixture(autouse=True)
def _secret_in_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, world.secret)


@pytest.fixture(autouse=True)
def _a_busy_machine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sandbox_waiting, monty):
        monkeypatch.setattr(module, "PATIENCE", PATIENCE / TIGHT.seconds)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Looks of the sandbox at its own clock of the latest program: after how many seconds, and what it shows."""
    found: list[tuple[float, float]] = []

    class Timer(ProcessTimer):
        def __init__(self, process: int) -> None:
            super().__init__(process)
            found.clear()

        def look(self, passed: float) -> float:
            found.append((passed, super().look(passed)))
            return found[-1][1]

    monkeypatch.setattr(sandbox_waiting, "ProcessTimer", Timer)
    return found


def say_end(done: Execution) -> str:
    """How a program ended."""
    if done.timed_out:
        return "late"
    return "full" if done.truncated else f"{done.stderr[-2000:]}\n{done.exit_status}"


@pytest.mark.every(3)  # not 2, as sandboxes alternate
@every_sandbox
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
async def test_a_program_does_no_harm_and_ends(
    program: Program, find: Callable[[], Sandbox], world: World, looks: list[tuple[float, float]]
) -> None:
    sandbox, began = find(), time.monotonic()
    done = await sandbox.call(program.source, {"at": world.at}, limits=TIGHT if program in BOMBS else USUAL)
    assert time.monotonic() - began < PATIENCE
    if program.name.startswith("time: "):
        assert all(passed < 1 for passed, _ in looks)
        assert all(seconds < TIGHT.seconds for _, seconds in looks[:-1]), "it goes on when its time is over"
    assert world.find_harm(done.stdout, done.stderr, done.result) == set()
    end = say_end(done)
    if program.ends:
        assert done.result is None or sandbox.name == "monty", done.result
        assert "forged" not in (done.result or "")
    assert not re.search(r"SyntaxError: (?!.*nested)|tool_function\(\)", end), "it did not run at all"
    if sandbox.name == "bubblewrap":
        assert re.search(program.ends, end), end
    after = await sandbox.run(CANARY, limits=USUAL)
    assert after == Execution(stdout=UNTOUCHED, exit_status=0)


YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
MAY_TRACE = not YAMA.exists() or int(YAMA.read_text()) < 2
HARMFUL = [one for one in PROGRAMS if one.harm and (MAY_TRACE or not one.traces)]


@pytest.mark.every(3)
@pytest.mark.parametrize("program", HARMFUL, ids=lambda one: one.name)
def test_without_a_sandbox_it_does_its_harm(program: Program, world: World) -> None:
    assert program.harm in world.do_harm(program)


def test_there_are_enough_programs() -> None:
    assert len({one.name for one in PROGRAMS}) == len(PROGRAMS) >= 60
    assert len(HARMFUL) >= 60
