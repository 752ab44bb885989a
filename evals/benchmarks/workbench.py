"""WorkBench: requests of an office worker, graded by the state of the tables afterwards (Styles et al., 2024).

There are 480 requests of one domain each. The calls that an answer lists are run on a fresh copy of the tables, the
right calls on another, and the two are compared: text in lower case, except status, list_name and board. Some requests
need no change, so doing nothing scores too: see the baseline. The agents' work on their own copies of the tables
(`tools/workbench/desk.py`) is not graded, so answers can be voted on, sampled twice or replayed.
"""

import ast
import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache

from selfwire.core.errors import ConfigError, GradingError, ToolError
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.benchmark import Benchmark, RuleEnvironment, TrivialRule, make_disjoint_loader, reject
from selfwire.evals.benchmarks.sources import find_source
from selfwire.evals.graders import OPENING
from selfwire.tools.workbench.calls import OperationCall, parse_call
from selfwire.tools.workbench.desk import make_desk_tools
from selfwire.tools.workbench.operations import OPERATIONS
from selfwire.tools.workbench.tables import CHANGED, NOW, Row, Tables

DOMAINS = ("analytics", "calendar", "customer_relationship_manager", "email", "project_management")
EXACT = ("status", "list_name", "board")
"""Fields whose case counts."""

FORM = f"""\
You are Sam's assistant. It is Thursday, {NOW}. Meetings lie between 09:00 and 18:00. Analytics \
end on the day before today. Look up what you need with the tools and carry the request out; if it sets a condition \
that is not met, change nothing.
End with the line "Calls:" and below it every call that changes something, one per line, in order, as the tools tell \
them, or with "Calls: none" if nothing is to be changed. Only the calls below that line are carried out. Such as:
Calls:
calendar_delete_event(event_id="00000000")"""

MOST_CALLS = 100
_CALLS = re.compile(OPENING + r"calls[\s*_]*:", re.IGNORECASE | re.MULTILINE)
_DECORATION = re.compile(r"(?:[-*>]\s+|\d{1,3}[.)]\s+)?`*")


@cache
def load_office() -> Tables:
    """Load the tables at the start of every request; copy before changing. ConfigError without data."""
    return Tables(
        events=_rows("processed/calendar_events.csv"),
        emails=_rows("processed/emails.csv"),
        tasks=_rows("processed/project_tasks.csv"),
        customers=_rows("processed/customer_relationship_manager_data.csv"),
        visits=tuple(_rows("processed/analytics_data.csv")),
        directory=tuple(find_source("workbench/raw/email_addresses.csv").read_text(encoding="utf-8").split()),
    )


def _rows(name: str) -> list[Row]:
    with find_source(f"workbench/{name}").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def load_tasks() -> tuple[Task, ...]:
    """Load the requests of a domain with their right calls; requests that differ only in words share an entity."""
    return tuple(task for domain in DOMAINS for task in _requests(domain))


def _requests(domain: str) -> Iterator[Task]:
    for number, row in enumerate(_rows(f"processed/queries_and_answers/{domain}_queries_and_answers.csv")):
        calls = [str(parse_call(text)) for text in ast.literal_eval(row["answer"])]
        yield Task(
            id=f"workbench-{domain}-{number}",
            input=f"{row['query']}\n\n{FORM}",
            kind=domain,
            reference=calls,
            entities=(f"{row['base_template']} {sorted(_filling(row['chosen_template'], row['query']).items())}",),
        )


def _filling(template: str, query: str) -> dict[str, str]:
    """Find the values of a template's variables; the whole query under "" if it does not fit."""
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        if match[1] in names:
            return f"(?P=_{names.index(match[1])})"
        names.append(match[1])
        return f"(?P<_{len(names) - 1}>.+?)"

    pattern = re.sub(r"\\\{(\w+)\\\}", place, re.escape(template))
    found = re.fullmatch(pattern, query, re.DOTALL)
    return {name: found[f"_{index}"] for index, name in enumerate(names)} if found else {"": query}


def parse_calls(answer: str) -> list[str] | None:
    """Find the lines below the last "Calls:", or after it; None if there is no such line."""
    *before, last = _CALLS.split(answer)
    if not before:
        return None
    lines = [_DECORATION.sub("", line.strip(), count=1).rstrip("`;. \t") for line in last.strip("*_ \t").splitlines()]
    return [line for line in lines if line and line.lower().strip("[]()") not in ("", "none", "python")]


def grade(task: Task, answer: str) -> Feedback:
    """Score 1 if the tables are as after the right calls, else 0; GradingError if these cannot be run."""
    wanted = _run_reference(task)
    lines = parse_calls(answer)
    if lines is None:
        return reject('Format fault: there is no line "Calls:".')
    if len(lines) > MOST_CALLS:
        return reject(f"Format fault: {len(lines)} calls are listed; no request needs more than {MOST_CALLS}.")
    try:
        calls = [parse_call(line) for line in lines]
    except ToolError as error:
        return reject(f"Format fault: {error}.")
    tables, refusals = _run_calls(calls)
    if has_same_state(tables, wanted):
        return Feedback(score=1.0, solved=True, text="The tables are as the request wants them.")
    reasons = "".join(f" {refusal}." for refusal in refusals[:3])
    changed = sum(OPERATIONS[call.name].changes for call in calls)
    return reject(f"After the {changed} listed changes the tables are not as the request wants them.{reasons}")


ENVIRONMENT = RuleEnvironment("workbench", grade, "tables")


def _run_reference(task: Task) -> Tables:
    calls = to_plain_json(task.reference)
    if not (isinstance(calls, list) and all(isinstance(text, str) for text in calls)):
        raise GradingError(f"WorkBench task {task.id!r} has no list of calls as reference: {calls!r}")
    try:
        tables, refusals = _run_calls([parse_call(text) for text in calls])
    except (ToolError, ConfigError) as error:
        raise GradingError(f"the right calls of WorkBench task {task.id!r} cannot be run: {error}") from error
    if refusals:
        raise GradingError(f"the right calls of WorkBench task {task.id!r} are refused: {refusals[0]}")
    return tables


def _run_calls(calls: Sequence[OperationCall]) -> tuple[Tables, list[str]]:
    tables, refusals = load_office().copy(), list[str]()
    for call in calls:
        try:
            call.run(tables)
        except ToolError as error:
            refusals.append(f"{call.name} was refused: {error}")
    return tables, refusals


def has_same_state(tables: Tables, others: Tables) -> bool:
    """Whether the tables that operations change have equal rows in the same order."""
    return all(_same_rows(getattr(tables, name), getattr(others, name)) for name in CHANGED)


def _same_rows(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    pairs = zip(rows, others, strict=False)
    return len(rows) == len(others) and all(row is other or _lowered(row) == _lowered(other) for row, other in pairs)


def _lowered(row: Row) -> dict[str, str]:
    return {field: text if field in EXACT else text.lower() for field, text in row.items()}


def workbench() -> Benchmark:
    """The benchmark."""
    return Benchmark(
        name="workbench",
        description="Requests of an office worker over real tables, graded by what they leave in them.",
        load=make_disjoint_loader(load_tasks),
        environment=ENVIRONMENT,
        toolbox=make_desk_tools(load_office),
        tools=tuple(OPERATIONS),
        baseline=TrivialRule("do nothing", lambda question: "Calls: none"),
    )
