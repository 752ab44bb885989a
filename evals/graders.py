"""Graders score answers against references: named ones here, the user's own as `module:function`.

F1 and em follow SQuAD (Rajpurkar et al., 2016): lower case, without punctuation and articles, compared as bags of
words; with HotpotQA's rule that yes, no and noanswer match only themselves.
"""

import asyncio
import inspect
import re
import string
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from difflib import get_close_matches
from numbers import Real

from selfwire.core.errors import ConfigError, GradingError, SelfwireError, format_error
from selfwire.core.own_modules import import_own_module
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.measures import add_measure
from selfwire.runtime.provider_errors import Caught
from selfwire.runtime.threads import (
    CallTimeoutError,
    LoopBlockedError,
    get_own_loop,
    get_shared_loop,
    on_foreign_loop,
    run_in_thread,
)

Graded = float | Feedback
Grader = Callable[[Task, str], Graded | Awaitable[Graded]]
"""Takes a task and an answer; returns a score in [0, 1] or a Feedback, at once or awaited."""

GIVEN_UP_AFTER = 60.0
"""Seconds per answer for a grader of the user's own."""

_CLOSED = ("yes", "no", "noanswer")
_NUMBER = re.compile(
    r"""(?:(?<![\w)])-)?                                    # a minus sign, but not the one of 3-4
        (?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)  # 1,234.5 or 12 or .5
        (?:[eE][-+]?\d+)?""",
    re.ASCII | re.VERBOSE,
)
_MINUS = str.maketrans("\u2212\u2013", "--")
"""The minus sign, and the dash that some texts use for it; as separators they would turn -5 into 5."""
_IMPORT_FAULTS = (
    ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError, OSError, RuntimeError,
    ArithmeticError, AssertionError, SystemExit,
)  # fmt: skip
_LEAST_SECRET = 4
"""Least characters of a secret reference; shorter ones occur in any text by chance."""


def normalise(text: str) -> str:
    """SQuAD's normal form: lower case, no punctuation, no articles, single spaces."""
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact(answer: str, reference: str) -> float:
    """1 if the texts are equal, apart from space around them."""
    return float(answer.strip() == reference.strip())


def em(answer: str, reference: str) -> float:
    """SQuAD's exact match: 1 if the normal forms are equal."""
    return float(normalise(answer) == normalise(reference))


def f1(answer: str, reference: str) -> float:
    """SQuAD's F1 over words of the normal forms; yes, no and noanswer match only themselves."""
    given, gold = normalise(answer), normalise(reference)
    if given == gold:
        return 1.0
    if given in _CLOSED or gold in _CLOSED:
        return 0.0
    common = sum((Counter(given.split()) & Counter(gold.split())).values())
    return 2 * common / (len(given.split()) + len(gold.split())) if common else 0.0


def contains(answer: str, reference: str) -> float:
    """1 if the answer's normal form contains the reference's, as whole words."""
    gold = normalise(reference)
    return float(bool(gold) and f" {gold} " in f" {normalise(answer)} ")


def numeric(answer: str, reference: str) -> float:
    """1 if the last number of the answer equals the reference's last one, to six digits."""
    given, gold = _find_last_number(answer), _find_last_number(reference)
    if gold is None:
        raise GradingError(f"grader 'numeric' needs a reference with a number, not {reference!r}")
    return float(given is not None and abs(given - gold) <= 1e-6 * max(1.0, abs(gold)))


NAMED: dict[str, Callable[[str, str], float]] = {one.__name__: one for one in (exact, em, f1, contains, numeric)}


class GradedEnvironment:
    """A grader as an environment.

    Args:
        solved_at: least score that counts as solved, if the grader returns only a score.
        seconds: time limit per answer; None for our own graders, which always end.
    """

    def __init__(
        self, name: str, grader: Grader, *, solved_at: float = 1.0, seconds: float | None = GIVEN_UP_AFTER
    ) -> None:
        self.name, self._grader, self._solved_at, self._seconds = name, grader, solved_at, seconds
        self._coroutine = grader if inspect.iscoroutinefunction(grader) else None

    def with_timeout(self, seconds: float) -> "GradedEnvironment":
        """The same with another time limit, if it has one."""
        if self._seconds is None:
            return self
        return GradedEnvironment(self.name, self._grader, solved_at=self._solved_at, seconds=seconds)

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer.

        Raises:
            GradingError: the grader raised, took too long, returned no score in [0, 1], or revealed the reference in
                its feedback.
        """
        result = await self._call(task, answer)
        if not isinstance(result, Feedback):
            return self._make_feedback(task, result)
        self._refuse_leak(task, answer, "\n".join((result.text, *_list_texts(result.details))))
        return result

    async def _call(self, task: Task, answer: str) -> object:
        with Caught() as caught:  # a grader is foreign code
            return await self._call_in_time(task, answer)
        if isinstance(caught.error, SelfwireError):
            raise caught.error
        raise GradingError(f"grader {self.name!r} failed on task {task.id!r}: {caught.error!r}") from caught.error

    async def _call_in_time(self, task: Task, answer: str) -> object:
        if self._seconds is None and self._coroutine:
            return await self._coroutine(task, answer)
        try:
            try:
                return await self._call_foreign(task, answer, get_shared_loop())
            except LoopBlockedError:
                with get_own_loop() as loop:
                    return await self._call_foreign(task, answer, loop)
        except (CallTimeoutError, LoopBlockedError):
            raise GradingError(
                f"{self.name} did not grade task {task.id!r} within {self._seconds:g} s; "
                "mend it or raise --grading-timeout"
            ) from None

    async def _call_foreign(self, task: Task, answer: str, loop: asyncio.AbstractEventLoop) -> object:
        if self._coroutine:
            return await on_foreign_loop(loop, self._seconds, self._coroutine, task, answer)
        try:
            async with asyncio.timeout(self._seconds) as timer:
                result = await run_in_thread(self._grader, task, answer)
        except TimeoutError:
            if timer.expired():
                raise CallTimeoutError from None
            raise
        if inspect.isawaitable(result):
            return await on_foreign_loop(loop, self._seconds, _await, result)
        return result

    def _make_feedback(self, task: Task, result: object) -> Feedback:
        score = float(result) if isinstance(result, Real) else -1.0
        if not 0 <= score <= 1:  # NaN compares false
            raise GradingError(
                f"grader {self.name!r} returned {result!r} for task {task.id!r}; return a score in [0, 1] or a Feedback"
            )
        solved = score >= self._solved_at
        text = "The answer is right." if solved else f"The answer is not right: it scores {score:.2f} of 1."
        feedback = Feedback(score=score, solved=solved, text=text)
        return add_measure(feedback, self.name) if self.name in NAMED else feedback

    def _refuse_leak(self, task: Task, answer: str, text: str) -> None:
        public = f"{task.input}\n{answer}".lower()
        for secret in get_references(task):
            if len(secret) >= _LEAST_SECRET and secret.lower() in text.lower() and secret.lower() not in public:
                raise GradingError(
                    f"grader {self.name!r} put the reference of task {task.id!r} into its feedback, which agents read; "
                    "say what is wrong with the answer instead"
                )


async def _await(result: Awaitable[Graded]) -> Graded:
    return await result


def _list_texts(details: object) -> Iterator[str]:
    if isinstance(details, str):
        yield details
    elif isinstance(details, Mapping | tuple):
        for part in details.values() if isinstance(details, Mapping) else details:
            yield from _list_texts(part)


def load_grader(name: str, *, solved_at: float = 1.0) -> GradedEnvironment:
    """A named grader, or the one at `module:function`, as an environment; ConfigError if there is none to call."""
    if not 0 < solved_at <= 1:
        raise ConfigError(f"a task is solved at a score above 0 and up to 1, not at {solved_at}")
    if name in NAMED:
        return GradedEnvironment(name, _compare_with_references(name), solved_at=solved_at, seconds=None)
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        close = get_close_matches(name.lower(), (*NAMED, "judge"))
        hint = f"did you mean {close[0]}? " if close else ""
        raise ConfigError(
            f"there is no grader {name!r}; {hint}graders are {', '.join(NAMED)}, judge, or your own as module:function"
        )
    return GradedEnvironment(name, _import_grader(name, module, function), solved_at=solved_at)


def get_references(task: Task) -> tuple[str, ...]:
    """The reference as texts: itself, or each entry of a list; empty for anything else."""
    reference = to_plain_json(task.reference)
    entries = reference if isinstance(reference, list) else [reference]
    return tuple(_to_text(entry) for entry in entries if isinstance(entry, str | int | float))


def _to_text(entry: str | float) -> str:
    return ("yes" if entry else "no") if isinstance(entry, bool) else str(entry)


def _compare_with_references(name: str) -> Grader:
    async def grade(task: Task, answer: str) -> float:  # async, as these are too fast to be worth a thread
        return max(NAMED[name](answer, gold) for gold in validate_references(name, task))

    return grade


def validate_references(name: str, task: Task) -> tuple[str, ...]:
    """The references of a task for a named grader; GradingError if one is missing or is no number for `numeric`."""
    if not (golds := get_references(task)):
        raise GradingError(
            f"grader {name!r} needs a text, a number or a list of them as the reference of task {task.id!r}, "
            f"{'which has none' if task.reference is None else f'not {type(to_plain_json(task.reference)).__name__}'}"
        )
    if name == "numeric" and any(_find_last_number(gold) is None for gold in golds):
        raise GradingError(f"grader 'numeric' needs a reference with a number for task {task.id!r}, not {golds!r}")
    return golds


def _import_grader(name: str, module: str, function: str) -> Grader:
    try:
        grader: object = getattr(import_own_module(module), function)
    except _IMPORT_FAULTS as error:
        raise ConfigError(
            f"grader {name!r} cannot be imported: {format_error(error)}; named ones are {', '.join(NAMED)}"
        ) from error
    if not callable(grader):
        raise ConfigError(f"grader {name!r} is {type(grader).__name__}, not a function of (task, answer)")
    return grader


def _find_last_number(text: str) -> float | None:
    found = _NUMBER.findall(text.translate(_MINUS))
    return float(found[-1].replace(",", "")) if found else None
