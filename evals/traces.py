"""Tasks from traces: what an application was asked, with the answers that people approved or corrected.

A trace is a run at the top of a LangSmith project, or a line of a JSONL file with the same fields: `inputs`, `outputs`,
`error` and, where somebody has rated it, `feedback`, a list of objects with `key`, `score` and `correction`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import httpx
from langsmith import Client
from langsmith.utils import LangSmithError, LangSmithNotFoundError

from selfwire.core.errors import ConfigError, format_error
from selfwire.core.values import FrozenModel, format_count
from selfwire.evals.langsmith import open_client
from selfwire.evals.readers import INPUTS, REFERENCES
from selfwire.models import tracing
from selfwire.models.providers import ErrorCatcher
from selfwire.models.sync import run_sync

APPROVED = 1.0
"""Least score of feedback that approves an answer; LangSmith's thumbs give 1 and 0."""
MOST = 1000
"""Traces that are read of a project, newest first."""
AT_ONCE = 100
"""Runs whose feedback is asked for in one request."""
MOST_TOLD = 100 * AT_ONCE
"""Feedback that is read of these; a server may list some without an end."""
PERSON, MODEL = "person", "model"
ROLES = {"human": PERSON, "user": PERSON, "ai": MODEL, "assistant": MODEL, "AIMessageChunk": MODEL}
"""Who speaks, by the words for it in LangChain's and OpenAI's messages."""


class TraceRules(FrozenModel):
    """Which traces become tasks.

    Args:
        feedback: the key of feedback that counts; "" for feedback of any key.
        least: the least score that approves an answer; with several scores all of them must reach it.
        unrated: keep traces without an approved or corrected answer too, as tasks without a reference.
    """

    feedback: str = ""
    least: float = APPROVED
    unrated: bool = False


class TracedTasks(NamedTuple):
    """Tasks as lines of a JSONL file have them, newest first.

    Attributes:
        tasks: with `id` and `input`, and `reference` where the answer was approved or corrected.
        kept: tasks by where their reference comes from.
        left_out: traces that became no task, by reason.
    """

    tasks: Sequence[Mapping[str, str]]
    kept: Mapping[str, int]
    left_out: Mapping[str, int]

    def describe(self) -> str:
        """Describe how many tasks there are, and why other traces became none."""
        listed = [", ".join(f"{count} {what}" for what, count in found.items()) for found in (self.kept, self.left_out)]
        return (
            format_count(len(self.tasks), "task")
            + ": " * bool(self.kept)
            + listed[0]
            + "; left out: " * bool(self.left_out)
            + (listed[1])
        )


def make_tasks(traces: Iterable[Mapping[str, Any]], rules: TraceRules) -> TracedTasks:
    """Make a task of each trace that asks one question, and whose answer is approved or corrected.

    A question that was asked before becomes no second task; the first trace with a reference counts.

    Raises:
        ConfigError: no trace becomes a task; the message counts the reasons.
    """
    tasks, names, kept, left_out = dict[str, dict[str, str]](), set[str](), Counter[str](), Counter[str]()
    for number, trace in enumerate(traces, 1):
        question, problem = _read_question(trace)
        reference, verdict = _read_reference(trace, rules)
        if not problem and reference is None and not rules.unrated:
            problem = verdict
        if not problem and question in tasks:
            problem = "that ask the same question"
        if problem:
            left_out[problem] += 1
            continue
        name = str(trace.get("id") or f"trace-{number}")
        while name in names:
            name = f"{name}-{number}"
        tasks[question] = {"id": name, "input": question}
        names.add(name)
        if reference is not None:
            tasks[question]["reference"] = reference
        kept[verdict] += 1
    found = TracedTasks(list(tasks.values()), kept, left_out)
    if not tasks:
        raise ConfigError(
            f"no trace becomes a task: {found.describe()}; rate or correct answers in LangSmith, lower --least, name "
            "the feedback that counts with --feedback, or keep traces without a verdict with --unrated"
        )
    return found


def _read_question(trace: Mapping[str, Any]) -> tuple[str, str]:
    """The question of a trace, and why it has none."""
    if trace.get("parent_run_id"):
        return "", "inside another trace"
    if trace.get("error"):
        return "", "that ended in an error"
    inputs = trace.get("inputs")
    messages = _find_messages(inputs)
    if messages is None:
        question = _find_text(inputs, INPUTS)
        return question, "" if question.strip() else "without a text that asks"
    asked = [text for role, text in messages if role == PERSON]
    if len(asked) > 1:
        return "", "with more than one message of a person"
    question = asked[0] if asked else ""
    return question, "" if question.strip() else "without a text that asks"


def _read_reference(trace: Mapping[str, Any], rules: TraceRules) -> tuple[str | None, str]:
    """The corrected answer, else the answer if its scores approve it; and in words what came of it."""
    given = trace.get("feedback") or ()
    listed = given if isinstance(given, list | tuple) else ()
    verdicts = [found for found in listed if isinstance(found, Mapping) and rules.feedback in ("", found.get("key"))]
    for verdict in verdicts:
        if corrected := _read_answer(verdict.get("correction")).strip():
            return corrected, "corrected"
    scores = [score for found in verdicts if isinstance(score := found.get("score"), (bool, int, float))]
    if not scores:
        odd = given is not listed or any(found.get("score") is not None for found in verdicts)
        return None, "with feedback of another form" if odd else "without a verdict"
    if not all(score >= rules.least for score in scores):  # a score may be NaN
        return None, f"rated below {rules.least:g}"
    answer = _read_answer(trace.get("outputs")).strip()
    return (answer, "approved") if answer else (None, "without a text that answers")


def _read_answer(output: Any) -> str:
    messages = _find_messages(output)
    if messages is None:
        return _find_text(output, REFERENCES)
    said = [text for role, text in messages if role == MODEL and text]
    return said[-1] if said else ""


def _find_messages(values: Any) -> Sequence[tuple[str, str]] | None:
    """Role and text of each message of a graph's or a chat model's input or output; None if it has no messages."""
    given = values.get("messages") if isinstance(values, Mapping) else None
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], list):
        given = given[0]  # a chat model's input is a list of lists
    return [_read_message(message) for message in given] if isinstance(given, list) else None


def _read_message(message: Any) -> tuple[str, str]:
    """Role and text of a message in LangChain's form, OpenAI's or as a pair; ("", "") if it is none."""
    if isinstance(message, Mapping) and message.get("lc") == 1:
        message = message.get("kwargs")
    if isinstance(message, Sequence) and not isinstance(message, str) and len(message) == 2:
        message = dict(zip(("role", "content"), message, strict=True))
    if not isinstance(message, Mapping):
        return "", ""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return ROLES.get(str(message.get("role") or message.get("type")), ""), "".join(
        text for text in texts if isinstance(text, str)
    )


def _find_text(values: Any, usual: Sequence[str]) -> str:
    """The only text of some values, or the first that has a usual name."""
    if isinstance(values, str):
        return values
    texts = (
        {name: value for name, value in values.items() if isinstance(value, str)} if isinstance(values, Mapping) else {}
    )
    if len(texts) == 1:
        return next(iter(texts.values()))
    return next((texts[name] for name in usual if name in texts), "")


def read_project(project: str, most: int = MOST) -> list[Mapping[str, Any]]:
    """Read the runs at the top of a LangSmith project with their feedback, newest first.

    Raises:
        ConfigError: there is no LangSmith to ask, no such project, or the server refuses.
    """
    with open_client() as client:
        try:
            found = client.read_project(project_name=project)
        except LangSmithNotFoundError:
            raise ConfigError(f"LangSmith at {client.api_url} has no project {project!r}") from None
        with ErrorCatcher() as caught:  # the client of this one request has errors of its own, which it does not name
            runs = run_sync(_read_runs(client, str(found.id), found.start_time, most))
        if caught.error is not None:
            raise LangSmithError(format_error(caught.error.__cause__ or caught.error))  # the first has no words
        feedback = dict[str, list[dict[str, Any]]]()
        for first in range(0, len(runs), AT_ONCE):
            for told in islice(
                client.list_feedback(run_ids=[run["id"] for run in runs[first : first + AT_ONCE]]), MOST_TOLD
            ):
                verdict = {"key": told.key, "score": told.score, "correction": told.correction}
                feedback.setdefault(str(told.run_id), []).append(verdict)
    return [{**run, "feedback": feedback.get(run["id"], ())} for run in runs]


async def _read_bounded(response: httpx.Response) -> None:
    """Read the body of a reply, unpacked, up to `LARGEST_REPLY`; raises httpx.ReadError beyond."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > tracing.LARGEST_REPLY:
            raise httpx.ReadError(f"a reply of more than {tracing.LARGEST_REPLY // 2**20} MiB")
    response._content = bytes(body)


async def _read_runs(client: Client, project: str, since: datetime, most: int) -> list[dict[str, Any]]:
    http = client.runs._client._client
    http.follow_redirects = False  # which would carry the key to another host
    http.event_hooks = {"response": [_read_bounded]}
    found = client.runs.query(
        project_ids=[project],
        is_root=True,
        min_start_time=since,
        page_size=AT_ONCE,
        selects=["ID", "INPUTS", "OUTPUTS", "ERROR"],
    )
    runs, iterator = list[dict[str, Any]](), aiter(found)
    while len(runs) < most:
        async with asyncio.timeout(tracing.LONGEST_REQUEST):
            if (run := await anext(iterator, None)) is None:
                break
        runs.append({"id": str(run.id), "inputs": run.inputs, "outputs": run.outputs, "error": run.error})
    return runs
