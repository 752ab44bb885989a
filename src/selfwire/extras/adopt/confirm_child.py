"""`python -m selfwire.extras.adopt.confirm_child FOLDER`: the child process of a confirming run (`confirm`).

It imports the program, asks its graph several times on canned replies, and writes a line of JSON for each thing that
happens into FOLDER/report.jsonl.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command
from pydantic import TypeAdapter
from typing_extensions import get_type_hints

from selfwire.core.errors import ConfigError, format_error
from selfwire.extras.adopt.canned import PLAIN, RESULT, CannedReplies, SentRequest
from selfwire.extras.adopt.confirm import QUESTION, REPORT, SPEC
from selfwire.extras.adopt.confirmation import WRITTEN, TextFinder, list_unknown
from selfwire.extras.adopt.guard import RefusedError, restrict, show_place
from selfwire.extras.adopt.page import Inventory
from selfwire.graphs.own_graph import OwnGraphConfig, fill_template, load_graph, map_graph

MOST_RUNS = 16
QUIET_RUNS = 4
"""Runs that show nothing new after which no further is made."""
SECONDS_A_RUN = 20
STEPS = 40
"""Most supersteps of a run."""
TALK = 8
"""Messages of a long talk."""
MOST_MENDED = 6
"""Missing fields of the input that are added after a KeyError."""
DECISIONS = (True, "yes", "no", False)
"""What a person answers in turn to `interrupt`."""


class Report:
    """Writes what happens, a line each."""

    def __init__(self, path: Path, inventory: Inventory, question: str) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._finder = TextFinder(inventory.texts)
        self._said = {question, PLAIN, RESULT}
        self._known = set[Any]()
        self.news = 0

    def write(self, kind: str, **given: Any) -> None:
        """Write a line, and count whether it is new."""
        line = json.dumps({"kind": kind, **given})
        with self._lock:
            self.news += line not in self._known and kind != "run"
            self._known.add(line)
            self._file.write(line + "\n")

    def add_request(self, request: SentRequest) -> None:
        """Note the inventory's texts of a request, and what else a program has written in it."""
        written = [(role, text) for role, text in request.messages if role in WRITTEN]
        others = [text for role, text in request.messages if role not in WRITTEN]
        found, rest = self._finder.find([*(text for _, text in written), *request.schemas, *others])
        self.write("request", node=request.node, found=sorted(found))
        for text in list_unknown(rest[: len(written)], self._said):
            self._said.add(text)
            self.write("unknown", place=request.node, what=text)

    def refuse(self, what: str, place: str) -> None:
        """Note what the program tried and was not let do."""
        self.write("refused", place=place, what=what)


class Visits(BaseCallbackHandler):
    """Reports the nodes and tools that run."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def on_chain_start(self, serialized: Any, inputs: Any, *, metadata: Any = None, **_: Any) -> None:
        """Note the node."""
        if node := (metadata or {}).get("langgraph_node"):
            self._report.write("node", node=str(node))

    def on_tool_start(self, serialized: Any, input_str: str, **_: Any) -> None:
        """Note the tool."""
        self._report.write("tool", name=str((serialized or {}).get("name")))


def confirm(folder: Path) -> None:
    """Import the program of a folder, and ask its graph."""
    spec = json.loads((folder / SPEC).read_text(encoding="utf-8"))
    inventory = Inventory.model_validate(spec["inventory"])
    report, here = Report(folder / REPORT, inventory, spec["question"]), Path.cwd()
    replies = CannedReplies(inventory.compared, report.add_request, calls_tools=spec["calls_tools"])
    replies.install()
    restrict(folder, report.refuse)
    try:
        graph = load_graph(inventory.program)
    except ConfigError as error:
        report.write("fault", message=_describe_fault(inventory.program, error, here))
        return
    report.write("imported")
    asker = Asker(graph, inventory, spec, replies)
    quiet = 0
    for number in range(MOST_RUNS):
        before = report.news
        replies.begin_run()
        try:
            asyncio.run(asyncio.wait_for(asker.ask(number, Visits(report)), SECONDS_A_RUN))
        except Exception as error:  # noqa: BLE001 - a user's program may raise anything
            report.write("failed", place=_find_error_place(error, here), what=format_error(error))
        report.write("run")
        quiet = 0 if report.news > before else quiet + 1
        if quiet == QUIET_RUNS:
            return


class Asker:
    """Asks a graph, each time with another input that its schema allows."""

    def __init__(
        self, graph: Runnable[Any, Any], inventory: Inventory, spec: Mapping[str, Any], replies: CannedReplies
    ) -> None:
        self.graph, self.replies, self.question = graph, replies, spec["question"]
        self.template = json.loads(spec["template"]) if spec["template"] else None
        self.learned = dict[str, str]()
        if isinstance(graph, Pregel) and (inventory.interrupts or graph.checkpointer):
            graph.checkpointer = InMemorySaver()  # nothing is written into the program's own
        try:
            self.mapped = map_graph(inventory.program, graph, OwnGraphConfig()).template
        except ConfigError:
            self.mapped = None

    async def ask(self, number: int, visits: Visits) -> None:
        """Ask once, and answer where the graph waits for a person."""
        for attempt in range(MOST_MENDED):
            config = {
                "callbacks": [visits],
                "recursion_limit": STEPS,
                "configurable": {"thread_id": f"{number}-{attempt}"},
            }
            given: Any = self.make_input(number)
            try:
                for decision in (*DECISIONS[number % 4 :], *DECISIONS):
                    output = await self._invoke(given, config, number)
                    waits = output.get("__interrupt__") if isinstance(output, Mapping) else None
                    if not waits:
                        return
                    given = Command(resume=_decide(waits[0].value, decision))
                return
            except KeyError as error:
                name = error.args[0] if error.args else None
                if not isinstance(name, str) or name in self.learned:
                    raise
                self.learned[name] = self.question

    async def _invoke(self, given: Any, config: Any, number: int) -> Any:
        context = {"context": made} if (made := self._make_context(number)) is not None else {}
        try:
            return await self.graph.ainvoke(given, config, **context)
        except (NotImplementedError, TypeError) as error:
            if isinstance(error, TypeError) and "async" not in str(error).lower():
                raise
            return await asyncio.to_thread(self.graph.invoke, given, config, **context)

    def make_input(self, number: int) -> Any:
        """Make the input of a run: the field that asks, all fields of the schema, these after a long talk, or no talk."""
        if self.template is not None:
            return self._fill(self.template)
        fields = dict(self._list_fields())
        if number % 4 == 0 and self.mapped is not None:
            made = self._fill(self.mapped)
        elif number % 4 == 3 and len(fields) > 1:
            made = {name: value for name, value in fields.items() if name != "messages"}
        else:
            made = fields or (self._fill(self.mapped) if self.mapped is not None else self.question)
        if not isinstance(made, dict):
            return made if not self.learned else {**self.learned}
        if isinstance(made.get("messages"), str | list):
            talk = [AIMessage(PLAIN) if turn % 2 else HumanMessage(self.question) for turn in range(TALK)]
            said = [*talk, HumanMessage(self.question)] if number % 4 == 2 else [HumanMessage(self.question)]
            made = {**made, "messages": said}
        return {**self.learned, **made}

    def _fill(self, template: Any) -> Any:
        return fill_template(template, self.question)

    def _list_fields(self) -> Iterator[tuple[str, Any]]:
        """List the fields of the input, each with a value of its type; those of no usual type are left out."""
        schema = self.graph.builder.input_schema if isinstance(self.graph, CompiledStateGraph) else None
        hints: Mapping[str, Any] = {}
        with suppress(Exception):  # names that only a type checker knows
            hints = get_type_hints(schema) if schema else {}
        for name, kind in hints.items():
            if "Message" in str(kind):
                yield name, [HumanMessage(self.question)]
                continue
            with suppress(Exception):  # a type that is no schema
                adapter = TypeAdapter(kind)
                shown = adapter.json_schema()
                made = self.replies.fill(shown, shown, (name,))
                yield name, adapter.validate_python(self.question if made == PLAIN else made)

    def _make_context(self, number: int) -> Any:
        """Make a context: with its defaults, then with other values of its types."""
        schema = getattr(self.graph, "context_schema", None)
        if schema is None or not isinstance(schema, type):
            return None
        with suppress(Exception):  # a field without a default
            if number % 2 == 0:
                return schema()
        made = dict[str, Any]()
        for name, kind in get_type_hints(schema).items():
            with suppress(Exception):
                shown = TypeAdapter(kind).json_schema()
                if shown.get("type") != "string" or "enum" in shown:
                    made[name] = self.replies.fill(shown, shown, ("context", name))
        with suppress(Exception):
            return schema(**made)
        return None


def _decide(asked: Any, decision: Any) -> Any:
    """Answer an interrupt; one of LangChain's own in the form that it reads."""
    actions = asked.get("action_requests") if isinstance(asked, Mapping) else None
    if actions:
        kind = {"type": "approve"} if decision in (True, "yes") else {"type": "reject", "message": PLAIN}
        return {"decisions": [kind for _ in actions]}
    return decision


def _describe_fault(name: str, error: BaseException, here: Path) -> str:
    """Describe in a sentence why a program cannot be imported, with the line and a way out."""
    cause = error
    while cause.__cause__ is not None or isinstance(cause.__context__, RefusedError):
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    place = _find_error_place(cause, here)
    if isinstance(cause, ModuleNotFoundError):
        way_out = f"install {cause.name} beside selfwire"
    elif isinstance(cause, RefusedError):
        way_out = "move it into a function that the graph calls when it is asked"
    elif isinstance(cause, KeyError) and "os.py" in str(_last_file(cause)):
        way_out = f"set it: {cause.args[0]}=any selfwire adopt {name} --confirm"
    else:
        way_out = "mend it, or name another graph of the program"
    return f"{name} cannot be imported: {f'{place}: ' if place else ''}{format_error(cause)}; {way_out}"


def _last_file(error: BaseException) -> str:
    files = [line.filename for line in _list_lines(error)]
    return files[-1] if files else ""


def _list_lines(error: BaseException) -> Any:
    import traceback

    return traceback.extract_tb(error.__traceback__)


def _find_error_place(error: BaseException, here: Path) -> str:
    """Find the innermost line of the program that an error came through."""
    if isinstance(error, SyntaxError) and error.filename:
        return show_place(error.filename, error.lineno or 1, here)
    found = (show_place(line.filename, line.lineno or 1, here) for line in reversed(_list_lines(error)))
    return next(filter(None, found), "")


if __name__ == "__main__":
    confirm(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # threads of the program may go on
