"""Every task of a benchmark with an answer that is made for it."""

import asyncio
import json
from collections.abc import Callable, Sequence

from selfwire.core.protocols import MEBIBYTE, Environment, Execution, Limits, Sandbox
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from tests.sandboxed import CallsNothing


async def graded(environment: Environment, tasks: Sequence[Task], answer: Callable[[Task], str]) -> dict[str, Feedback]:
    found = await asyncio.gather(*(environment.grade(task, answer(task), scope=Scope(task=task.id)) for task in tasks))
    return dict(zip((task.id for task in tasks), found, strict=True))


def solved(found: dict[str, Feedback]) -> int:
    assert all(one.solved == (one.score == 1) for one in found.values())
    return sum(one.solved for one in found.values())


def unsolved(found: dict[str, Feedback]) -> dict[str, str]:
    """What is said of those that are not solved."""
    return {name: one.text for name, one in found.items() if not one.solved}


FORKS = """
import gc, json, os, sys
asked = json.load(sys.stdin)
for name in ("ast", "ctypes", "datetime", "decimal", "fractions", "typing"):
    if any(f"import {name}" in code for code, _ in asked):  # else forks would be dearer for nothing
        __import__(name)
codes = {code: compile(code, "/main.py", "exec") for code, _ in asked}
gc.freeze()
found = []
for number, (code, given) in enumerate(asked):
    os.mkdir(f"/tmp/{number}")
    os.chdir(f"/tmp/{number}")
    with open("in", "w", encoding="utf-8") as file:
        file.write(given)
    child = os.fork()
    if not child:
        for stream, name in enumerate(("in", "out", "err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), stream)
        exec(codes[code], {"__name__": "__main__"})
        sys.exit()
    found.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])])
    for name in ("out", "err"):
        with open(name, encoding="utf-8") as file:
            found[-1].append(file.read())
        os.unlink(name)
print(json.dumps(found))
"""


class SharedStart(CallsNothing):
    """Runs all programs that are asked for at once in one start of the sandbox, each in a fork, as starts are slow.

    Programs are not kept from each other, so it is for those that are known to do no harm.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._asked: list[tuple[str, str]] = []
        self._running: asyncio.Task[list[Execution]] | None = None

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        place = len(self._asked)
        self._asked.append((code, stdin))
        self._running = self._running or asyncio.ensure_future(self._run_all(limits))
        return (await self._running)[place]

    async def _run_all(self, limits: Limits) -> list[Execution]:
        counted = 0
        while counted < len(self._asked):  # others that were started beside the first one are about to ask
            counted = len(self._asked)
            await asyncio.sleep(0.01)
        asked, self._asked, self._running = self._asked, [], None
        room = limits.replace(seconds=600, output=64 * MEBIBYTE, files=512 * MEBIBYTE, processes=256)
        done = await self._sandbox.run(FORKS, json.dumps(asked), limits=room)
        assert done.exit_status == 0, done
        found = json.loads(done.stdout)
        return [Execution(exit_status=status, stdout=out, stderr=errors) for status, out, errors in found]
