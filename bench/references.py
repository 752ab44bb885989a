"""The share of benchmarks' reference solutions that Monty runs, with their tests, and what stops the others.

In bubblewrap all of them pass, as the tests of the graders show. APPS's selection has no reference solutions.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from bench.measuring import Row
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Execution, Limits, Sandbox
from selfwire.evals.benchmarks import humaneval, mbpp
from selfwire.tools.sandbox.monty import find_working_monty

LIMITS = Limits(seconds=20)
REASONS = 5
"""Rows of reasons for each benchmark."""
HINT = "(This ran in Monty"


def measure_references(every: int = 1) -> list[Row]:
    """Run every so many of the solutions; benchmarks without data here are left out, and all of them without Monty."""
    rows: list[Row] = []
    with suppress(ConfigError):
        sandbox = find_working_monty()
        for name, programs in _find_programs():
            rows += asyncio.run(_measure(name, programs[::every], sandbox))
    return rows


def _find_programs() -> Iterator[tuple[str, Sequence[str]]]:
    """Each benchmark's name, and its solutions with their tests after them."""
    yield (
        "HumanEval",
        [
            f"{problem['prompt']}{problem['canonical_solution']}\n{problem['test']}\ncheck({problem['entry_point']})\n"
            for problem in humaneval.load_problems()
        ],
    )
    yield (
        "MBPP",
        [
            "\n".join([problem["code"], problem["test_setup_code"], *problem["test_list"]])
            for problem in mbpp.load_problems()
        ],
    )


async def _measure(name: str, programs: Sequence[str], sandbox: Sandbox) -> list[Row]:
    found = await asyncio.gather(*(sandbox.run(program, limits=LIMITS) for program in programs))
    passed = sum(done.exit_status == 0 for done in found)
    reasons = Counter(_say_reason(done) for done in found if done.exit_status != 0).most_common(REASONS)
    what = f"{name}: reference solutions that pass in Monty, {passed} of {len(programs)}"
    return [
        Row(what=what, value=100 * passed / len(programs), unit="%"),
        *(Row(what=f"  not: {reason}", value=number, unit="programs") for reason, number in reasons),
    ]


def _say_reason(done: Execution) -> str:
    lines = [line for line in done.stderr.strip().splitlines() if not line.startswith(HINT)]
    return "it took too long" if done.timed_out else lines[-1][:90] if lines else "no reason"
