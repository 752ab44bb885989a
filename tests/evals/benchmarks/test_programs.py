"""Graders of programs in the real sandbox, over reference solutions and over programs that are wrong or hostile."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from selfwire.core.errors import ConfigError, GradingError, SandboxError
from selfwire.core.protocols import Execution, Limits
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks import apps, humaneval, mbpp, programs
from selfwire.evals.benchmarks.apps import is_same_output
from selfwire.evals.benchmarks.programs import find_program, has_definition, make_unit_tests
from selfwire.tools.sandbox.sandbox import find_sandbox
from tests.benchmark_data import needs_data
from tests.evals.benchmarks.sweeps import SharedStart, graded, solved, unsolved
from tests.samples import sample
from tests.sandboxed import CallsNothing, needs_sandbox

SHARDS = 2
ADD = Task(
    id="add",
    input="?",
    reference={"before": "def add(a, b):\n    'Sum.'\n", "name": "add", "tests": "assert add(1, 2) == 3"},
)
DOUBLE = Task(id="double", input="?", reference=[["1\n", "2"], ["21\n", "42"], ["-3\n", "-6"]])


def fenced(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```\nIt works."


async def added(answer: str) -> Feedback:
    return await make_unit_tests("humaneval", find_sandbox(full=True)).grade(ADD, answer, scope=Scope())


async def doubled(answer: str) -> Feedback:
    return await apps.make_environment(find_sandbox(full=True)).grade(DOUBLE, answer, scope=Scope())


@pytest.mark.slow
@pytest.mark.sweep
@needs_sandbox
async def test_humaneval_solutions_have_full_marks_and_empty_ones_none() -> None:
    everything, solutions = humaneval.load_tasks(), {}
    for task, problem in zip(everything, humaneval.load_problems(), strict=True):
        solutions[task.id] = problem["prompt"] + problem["canonical_solution"]
    assert len(everything) == 164
    tasks = sample(everything)
    benchmark = humaneval.humaneval(SharedStart(find_sandbox(full=True)))
    found = await graded(benchmark.environment, tasks, lambda task: fenced(solutions[task.id]))
    assert unsolved(found) == {}
    assert len(found) == len(tasks)
    empty = await graded(benchmark.environment, tasks[::4], lambda task: benchmark.baseline.answer(task.input))
    assert solved(empty) == 0
    assert not any("NameError" in text for text in unsolved(empty).values())  # it is the right function that is empty


@pytest.mark.slow
@needs_sandbox
async def test_humaneval_completions_without_their_head_count_too() -> None:
    pairs = list(zip(humaneval.load_tasks(), humaneval.load_problems(), strict=True))[::8]
    bodies = {task.id: problem["canonical_solution"] for task, problem in pairs}
    environment = make_unit_tests("humaneval", find_sandbox(full=True))
    assert unsolved(await graded(environment, [task for task, _ in pairs], lambda task: bodies[task.id])) == {}


@pytest.mark.slow
@pytest.mark.sweep
@needs_data
@needs_sandbox
@pytest.mark.parametrize("shard", range(SHARDS))
async def test_mbpp_solutions_have_full_marks(shard: int) -> None:
    problems = sample(mbpp.load_problems()[3 * shard :: 3 * SHARDS])
    codes = {f"mbpp-{one['task_id']}": one["code"] for one in problems}
    tasks, environment = (
        [mbpp.to_task(one) for one in problems],
        make_unit_tests("mbpp", SharedStart(find_sandbox(full=True))),
    )
    found = await graded(environment, tasks, lambda task: fenced(codes[task.id]))
    assert unsolved(found) == {}
    assert len(found) == len(problems)
    assert len(mbpp.load_problems()) == 974


@pytest.mark.slow
@pytest.mark.sweep
@needs_data
@needs_sandbox
async def test_empty_functions_solve_nothing_of_mbpp() -> None:
    tasks, benchmark = sample(mbpp.load_tasks("test")[::6]), mbpp.mbpp(SharedStart(find_sandbox(full=True)))
    found = await graded(benchmark.environment, tasks, lambda task: benchmark.baseline.answer(task.input))
    assert solved(found) == 0
    # A few tests build objects of classes that the program should define.
    assert sum("NameError" in text for text in unsolved(found).values()) <= 12 * len(tasks) // 500


@needs_data
def test_mbpp_has_its_authors_splits() -> None:
    splits = mbpp.make_splits(3, 371, 90, 500)
    numbers = {name: {int(task.id[5:]) for task in getattr(splits, name)} for name in ("train", "gate", "test")}
    assert numbers["test"] == set(range(11, 511))
    assert numbers["gate"] == set(range(511, 601))
    assert numbers["train"] < set(range(601, 975))
    texts = [{task.entities for task in getattr(splits, name)} for name in ("train", "gate", "test")]
    assert len(set.union(*texts)) == sum(map(len, texts))
    with pytest.raises(ConfigError, match="has 90 tasks, not 91"):
        mbpp.make_splits(0, 1, 91, 1)


def replay(task: Task, *, wrong: int | None = None) -> str:
    tests = to_plain_json(task.reference)
    known = {given: wanted + ("x" if n == wrong else "") for n, (given, wanted) in enumerate(tests)}
    return fenced(f"import sys\nprint({known!r}[sys.stdin.read()])")


@pytest.mark.slow
@pytest.mark.sweep
@needs_data
@needs_sandbox
async def test_apps_outputs_have_full_marks_and_one_wrong_output_none() -> None:
    # APPS' selection has no reference solutions: this shows that what a test wants passes it, on every test of every
    # fourth task, and nothing else does, on a quarter of these; not that a right program exists.
    everything, benchmark = apps.load_tasks(), apps.apps(SharedStart(find_sandbox(full=True)))
    assert Counter(task.kind for task in everything) == {"introductory": 49, "competition": 47, "interview": 32}
    tasks = everything[::4]
    right = await graded(benchmark.environment, tasks, replay)
    assert unsolved(right) == {}
    assert len(right) == len(tasks)
    assert sum(one.details["passed"] for one in right.values()) == sum(len(task.reference) for task in tasks)
    few = tasks[::4]
    wrong = await graded(benchmark.environment, few, lambda task: replay(task, wrong=len(task.reference) - 1))
    assert solved(wrong) == 0
    assert all(one.details["passed"] == one.details["tests"] - 1 for one in wrong.values())
    echo = await graded(benchmark.environment, few, lambda task: benchmark.baseline.answer(task.input))
    assert solved(echo) == 0


@needs_data
def test_apps_tasks_say_how_a_program_gets_its_input() -> None:
    tasks = apps.load_tasks()
    assert len({task.id for task in tasks}) == len({task.input for task in tasks}) == 128
    assert all("standard input" in task.input for task in tasks)
    [function] = [task for task in tasks if task.id == "apps-3554"]
    assert "def get_score(dice):" in function.input
    assert "Input:\n[1, 2, 3]\nOutput:\n100" in function.input


@needs_sandbox
@pytest.mark.parametrize(
    "answer",
    [
        "    return a + b",
        "def add(a, b):\n    return a + b",
        fenced("def add(a, b):\n    return a + b"),
        "```\ndef add(a, b): return 0\n```\nBetter:\n```py\ndef add(a, b): return a + b\n```",
        "```python\nadd = lambda a, b: a + b",
        fenced("def add(a, b): return a + b\nif __name__ == '__main__':\n    import unittest; unittest.main()"),
        fenced("import dataclasses\n@dataclasses.dataclass\nclass A: x: 'int'\ndef add(a, b): return A(a + b).x"),
        "```sh\nrm -rf /\n```\n```Python3\nclass A: pass\n\ndef add(a, b):\n    return a + b\n```",
    ],
)
async def test_a_program_is_found_whatever_stands_around_it(answer: str) -> None:
    assert (await added(answer)).solved


@needs_sandbox
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("", "The program runs, but a test fails."),
        ("I do not know.", "SyntaxError"),
        ("    return a - b", "The program runs, but a test fails."),
        ("    return a.b", "AttributeError"),
        ("    raise __import__('json').JSONDecodeError('x', 'y', 0)", "raised an error of its own"),
        (fenced("def add(a, b): return 3\nimport sys; sys.exit()"), "it must not exit"),
        (fenced("def add(a, b): return 3\nimport os; os._exit(0)"), "it must not exit"),
        (fenced("def add(a, b):\n    import os; os._exit(0)"), "it must not exit"),
        (fenced("def add(a, b):\n    import os; os._exit(7)"), "ended with an error status"),
        (fenced("import sys; sys.exit(3)"), "ended with an error status"),
        (fenced("import os, signal; os.kill(os.getppid(), signal.SIGKILL)"), "an error"),  # of which end is a race
        (fenced("while True: pass"), "took longer than 12 seconds"),
        (fenced("def add(a, b): return 3\nwhile True: print('x' * 9999)"), "it had written"),
    ],
)
async def test_feedback_says_what_went_wrong(answer: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LIMITS", Limits(seconds=30, processor=2))  # the text says what it is elsewhere
    feedback = await added(answer)
    assert (feedback.score, feedback.solved) == (0, False)
    assert told in feedback.text


SEARCHES = """
import gc, os, re, stat, sys
def shown(what):
    os.write(1, what if isinstance(what, bytes) else repr(what).encode())
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in (*os.listdir("/tmp"), "mem", "environ", "cmdline", "fd/0", "fd/3", "fd/4", "fd/5", "fd/6", "fd/7"):
        try:
            path = f"/proc/{process}/{name}"
            if not stat.S_ISFIFO(os.stat(path).st_mode):  # reading the end of a pipe that it has would wait for ever
                with open(path, "rb") as file:
                    shown(file.read(9999))
        except OSError as error:
            shown(error)
shown([one for one in gc.get_objects() if isinstance(one, dict) and "tests" in one])
frame = sys._getframe()
while frame:
    shown([frame.f_locals, frame.f_code.co_consts])
    frame = frame.f_back
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
    for line in maps:
        start, end = (int(one, 16) for one in line.split()[0].split("-"))
        if " rw" in line:
            memory.seek(start)
            for word in re.findall(b"zan[z]ibar[a-z]+|char[l]ey", memory.read(end - start)):
                shown(word)
def add(a, b): return 0
"""
"""Prints what a program can find of its tests; the words that it looks for do not stand in it whole."""


@needs_sandbox
async def test_a_program_cannot_find_its_tests() -> None:
    reference = {"before": "", "name": "add", "tests": "assert add(1, 2) == 3, 'zanzibarquux'"}
    driver = (Path(programs.__file__).with_name("with_tests.py")).read_text(encoding="utf-8")
    asked = {**reference, "program": SEARCHES, "word": "charley"}
    done = await find_sandbox(full=True).run(driver, json.dumps(asked), limits=programs.LIMITS)
    told, _, verdict = done.stdout.rpartition("charley")
    assert json.loads(verdict) == "AssertionError"
    assert len(told) > 1000
    assert "zanzibarquux" not in told + done.stderr
    assert "charley" not in told + done.stderr


ALIKE = "class Alike(int):\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"


@needs_sandbox
@pytest.mark.parametrize(
    "program",
    [
        f"{ALIKE}def add(a, b): return Alike()",
        f"{ALIKE.replace('(int)', '')}def add(a, b): return Alike()",
        f"{ALIKE.replace('(int)', '(type)')}class Odd(metaclass=Alike): pass\ndef add(a, b): return Odd",
        "AssertionError = Exception\ndef add(a, b): return 0",
        "import builtins\nbuiltins.AssertionError = type('Odd', (Exception,), {})\ndef add(a, b): return 0",
        "import builtins\nbuiltins.exec = builtins.compile = print\ndef add(a, b): return 0",
        "import sys, os\nsys.excepthook = lambda *_: os._exit(0)\ndef add(a, b): return 0",
        "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b): raise SystemExit",
        'import json\njson.dumps = lambda one: \'["tuple", ["gave", true]]\'\ndef add(a, b): return 0',
        "import __main__\n__main__.packed = lambda *_: ['Odd', []]\ndef add(a, b): return 0",
        "import sys\ndef skip(frame, *_): frame.f_lineno += 1\nsys.settrace(skip)\ndef add(a, b): return 0",
        "print('All tests pass.', 'null', 'true')\ndef add(a, b): return 0",
    ],
)
async def test_a_wrong_program_does_not_pass_by_what_it_does_to_its_tests(program: str) -> None:
    assert (await added(fenced(program))).score == 0


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "tests", "passes"),
    [
        ("def total(*a): return sum(a)", "assert total(1, 2) == 3", True),
        ("def sum(a, b): return a - -b", "assert sum(1, 2) == 3", True),
        ("def set(_): return 0\ndef unique(a): return []", "assert set(unique([1, 1])) == set([1])", False),
        ("class math: isclose = max\ndef half(a): return 9", "import math\nassert math.isclose(half(1), .5)", False),
        ("import math\ndef half(a): return a / 2", "assert math.isclose(half(1), .5)", True),
        ("import math as m\ndef half(a): return a / 2", "assert half(m.pi) == m.pi / 2", True),
        ("from collections import *\ndef f(a): return Counter(a)", "assert f('aab') == {'a': 2, 'b': 1}", True),
        ("import collections as c\ndef f(): return c.namedtuple('P', 'x y')(1, 2)", "assert f() == (1, 2)", True),
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]; assert sorted(f(2)) == [0, 1]", True),
        ("def f(n):\n    yield from range(n)", "it = f(1)\nassert next(it) == 0\nassert next(it, 7) == 7", True),
        ("def f(a): return {1: 2}.keys()", "assert f(0) == {1}", True),
        ("def f(a): return [a, {'k': (a, {a})}]", "assert f(2**200) == [2**200, {'k': (2**200, {2**200})}]", True),
        ("from fractions import Fraction\ndef f(): return Fraction(1, 2)", "assert f() == 0.5", True),
        ("def f(a): return a", "assert f(b'x') == b'x'; assert f(1 + 2j) == 1 + 2j", True),
        ("def f(a): return a", "assert f('\\ud800') == '\\ud800'; assert f(1.0) == 1.0; assert f(True) is True", True),
        ("def f(a): return a", "x = f(float('nan'))\nassert x != x", True),
        ("def f(a): return a", "assert type(f((1,))) is tuple; assert type(f([1])) is list; assert f(-0.0) == 0", True),
        ("def f(a, b): return [type(a), b]", "assert f(1, str) == [int, str]", True),
        ("def f(a): raise ValueError(a)", "try:\n    f(1)\nexcept ValueError:\n    pass", True),
        (
            "class Node:\n    def __init__(self, n): self.n, self.left = n, None\n"
            "def depth(node): return 1 + depth(node.left) if node else 0",
            "root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(3)\n"
            "assert depth(root) == 3\nassert root.left.n == 2",
            True,
        ),
        ("class Node:\n    def __eq__(self, other): return True\ndef f(): return Node()", "assert f() == 3", False),
        ("class Odd:\n    def __ne__(self, other): return False\ndef f(): return Odd()", "assert not f() != 3", False),
        ("def f(a): raise StopIteration", "assert all(map(f, [1, 2]))", False),
        ("def f(a): raise StopAsyncIteration", "assert list(map(f, [1, 2])) == [2, 3]", False),
        ("def f(a): raise StopIteration", "for got in map(f, [1, 2]):\n    assert got == 3", False),
        ("def f(a): raise StopIteration", "assert next(map(f, [1]), 3) == 3", False),
        (
            "class Odd:\n    def __getitem__(self, _): raise StopIteration\ndef f(): return Odd()",
            "assert all(map(lambda one: one[0] == 3, [f()]))",
            False,
        ),
        (
            "class Odd:\n    def __bool__(self): raise StopIteration\ndef f(): return Odd()",
            "assert all(map(lambda one: not one, [f()]))",
            False,
        ),
        ("class Yes:\n    def __contains__(self, _): return True\ndef f(): return Yes()", "assert 3 in f()", False),
        (f"{ALIKE}def f():\n    yield Alike()", "assert 3 in f()", False),
        ("def f(n):\n    yield from range(n)", "assert 3 in f(4); assert 3 not in f(3)", True),
        ("def f(n):\n    for i in range(n): yield i\n    return", "assert [*map(str, f(2))] == ['0', '1']", True),
    ],
)
async def test_tests_see_what_a_program_gives_back(program: str, tests: str, passes: bool) -> None:
    task = Task(id="t", input="?", reference={"before": "", "name": "", "tests": tests})
    feedback = await make_unit_tests("mbpp", find_sandbox(full=True)).grade(task, fenced(program), scope=Scope())
    assert feedback.solved is passes, feedback.text


@needs_sandbox
async def test_what_stands_before_a_program_is_the_tests_own() -> None:
    before = "def poly(x): return x - 2\n\ndef zero():\n    'Where poly is 0.'\n"
    task = Task(id="t", input="?", reference={"before": before, "name": "zero", "tests": "assert poly(zero()) == 0"})
    environment = make_unit_tests("humaneval", find_sandbox(full=True))
    assert (await environment.grade(task, "    return 2 + poly(2)", scope=Scope())).solved
    cheat = "def poly(x): return 0\ndef zero(): return 7"
    assert not (await environment.grade(task, fenced(cheat), scope=Scope())).solved


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("print(int(input()) + 1)", "Test 2 of 3 fails. It printed something else"),
        (
            "n = int(input())\nprint(n * 2 if n > 0 else 1 / 0)",
            "Test 3 of 3 fails. The program raised ZeroDivisionError.",
        ),
        ("print(", "Test 1 of 3 fails. The program raised SyntaxError."),
        ("", "Test 1 of 3 fails. It printed something else"),
        (
            "import sys; print(int(input()) * 2); sys.exit(3)",
            "Test 1 of 3 fails. The program ended with an error status.",
        ),
        ("import os; print(2); os.kill(os.getppid(), 9)", "Test 1 of 3 fails. The program ended with an error status."),
        ("import os; os.write(1, b'2'); os.kill(os.getpid(), 9)", "Test 1 of 3 fails."),
        ('print(\'[[0, "2", ""]]\')', "Test 1 of 3 fails. It printed something else"),
        ("import os\nwhile True: os.write(1, b'x' * 9999)", "Test 1 of 3 fails."),
    ],
)
async def test_the_first_failing_input_is_told(program: str, told: str) -> None:
    feedback = await doubled(fenced(program))
    assert (feedback.score, feedback.solved) == (0, False)
    assert feedback.text.startswith(told)


@needs_sandbox
async def test_a_program_is_fresh_for_every_input() -> None:
    for code in (
        "import builtins, sys\nassert not hasattr(builtins, 'x')\nbuiltins.x = 1\nprint(int(sys.stdin.readline()) * 2)",
        "print(sum(map(int, open(0))) * 2)",
        "def main():\n    print(2 * int(input()))\nif __name__ == '__main__':\n    main()",
    ):
        assert (await doubled(fenced(code))).solved


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("  1   2 \n3\n\n", "1 2\n3\n", True),
        ("1\n2\n3", "1 2\n3", False),
        ("0.3333333", "0.33333333", True),
        ("1e-3", "0.001", True),
        ("0.34", "0.33", False),
        ("2.0", "2", False),
        ("True", "True", True),
        ("true", "True", False),
        ("x", "1.5", False),
        ("nan", "1.5", False),
        ("", "", True),
    ],
)
def test_outputs_are_compared_by_lines_and_words(printed: str, expected: str, same: bool) -> None:
    assert is_same_output(printed, expected) is same


def test_the_last_code_block_is_the_program() -> None:
    assert find_program("```python\na\n```\n```python\nb\n```\n") == "b\n"
    assert find_program("no block") == "no block"
    assert find_program("```json\n{}\n```") == "```json\n{}\n```"
    assert has_definition("async def f(): pass", "f")
    assert not has_definition("def ff(): pass\n    def f(): pass", "f")


class Broken(CallsNothing):
    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        raise SandboxError("no")


@pytest.mark.parametrize(
    ("environment", "task"), [(make_unit_tests("x", Broken()), ADD), (apps.make_environment(Broken()), DOUBLE)]
)
async def test_a_sandbox_that_fails_is_an_error_and_no_zero(environment: Any, task: Task) -> None:
    with pytest.raises(SandboxError):
        await environment.grade(task, "x", scope=Scope())
    references: tuple[object, ...] = (None, "x", [], {"before": ""})
    for reference in references:
        with pytest.raises(GradingError, match="no tests as its reference"):
            await environment.grade(task.replace(reference=reference), "x", scope=Scope())


@needs_sandbox
async def test_a_planted_test_never_shows_in_feedback() -> None:
    canary = "zanzibarquux"
    unit = ADD.replace(
        reference={"before": "", "name": "add", "tests": f"assert add('{canary}', 'b') == 'c', '{canary}'"}
    )
    output = DOUBLE.replace(reference=[[f"{canary}\n", canary]])
    for code in (
        "def add(a, b): raise ValueError(a)",
        "def add(a, b): return a",
        "def add(a, b): return {}[a]",
        "def add(a, b): raise type(a, (Exception,), {})",
        "raise type(input(), (Exception,), {})",
        "raise KeyError(input())",
    ):
        for environment, task in (
            (make_unit_tests("x", find_sandbox(full=True)), unit),
            (apps.make_environment(find_sandbox(full=True)), output),
        ):
            feedback = await environment.grade(task, fenced(code), scope=Scope())
            assert canary not in feedback.model_dump_json()
