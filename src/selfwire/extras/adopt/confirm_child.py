"""`python -m selfwire.extras.adopt.confirm_child FOLDER`: the child process of a confirming run (`confirm`).

It imports the program, asks its graph several times on canned replies, and writes a line of JSON for each thing that
happens into FOLDER/report.jsonl.
"""

import ast
import asyncio
import json
import os
import random
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import EnumType
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, get_origin

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import TypeAdapter
from typing_extensions import get_type_hints

from selfwire.core.errors import ConfigError, find_error_place, format_error
from selfwire.extras.adopt.canned import PLAIN, RESULT, CannedReplies, CannedRequest
from selfwire.extras.adopt.confirm import REPORT, SPEC
from selfwire.extras.adopt.guard import restrict
from selfwire.extras.adopt.inventory import ProgramValue
from selfwire.extras.adopt.page import Inventory
from selfwire.extras.adopt.sent_texts import WRITTEN, RequestTexts, list_unknown
from selfwire.graphs.own_graph import OwnGraphConfig, add_store, empty_cache, fill_template, load_graph, map_graph
from selfwire.models.text_layer import carry_context

MOST_RUNS = 32
QUIET_RUNS = 8
"""Runs that show nothing new after which no further is made."""
SECONDS_A_RUN = 20
STEPS = 40
"""Most supersteps of a run."""
FORMS = 4
"""Forms of the input of a run."""
TALK = 8
"""Messages of a long talk."""
MOST_WORDS = 12
"""Most compared words that a text field is filled with."""
MOST_MENDED = 6
"""Missing fields of the input that are added after a KeyError."""
LONGEST_ERROR = 200
"""Most letters of an error of a run."""
ALIKE = 40
"""First letters by which texts that no inventory has are told apart."""
DECISIONS = (True, "yes", "no", False)
"""What a person answers in turn to `interrupt`."""


class ConfirmReport:
    """Writes what happens, a line each."""

    def __init__(self, path: Path, inventory: Inventory, question: str) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._finder = RequestTexts(inventory.texts)
        self._said = {question, PLAIN, RESULT, *inventory.compared}
        self._known, self._unknown = set[str](), set[tuple[str, str]]()
        self.news = 0

    def write(self, kind: str, **given: Any) -> None:
        """Write a line, and count whether it is new."""
        line = json.dumps({"kind": kind, **given})
        with self._lock:
            self.news += line not in self._known and kind != "run"
            self._known.add(line)
            self._file.write(line + "\n")

    def add_request(self, request: CannedRequest) -> None:
        """Note the inventory's texts of a request, and what else a program has written in it."""
        written = [(role, text) for role, text in request.messages if role in WRITTEN]
        others = [text for role, text in request.messages if role not in WRITTEN]
        found, rest = self._finder.find([*(text for _, text in written), *request.schemas, *others])
        self.write("request", node=request.node, found=sorted(found))
        for text in list_unknown(rest[: len(written)], self._said):
            if (request.node, text[:ALIKE]) not in self._unknown:
                self._unknown.add((request.node, text[:ALIKE]))
                self.write("unknown", place=request.node, what=text)

    def refuse(self, what: str, place: str) -> None:
        """Note what the program tried and was not let do."""
        self.write("refused", place=place, what=what)


class Visits(BaseCallbackHandler):
    """Reports the nodes and tools that run."""

    def __init__(self, report: ConfirmReport) -> None:
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
    report, here = ConfirmReport(folder / REPORT, inventory, spec["question"]), Path.cwd()
    replies = CannedReplies(inventory.compared, report.add_request, calls_tools=spec["calls_tools"])
    replies.install()
    restrict(folder, report.refuse)
    try:
        graph = load_graph(inventory.program)
    except ConfigError as error:
        report.write("fault", message=str(error))
        return
    report.write("imported")
    asker, quiet = Asker(graph, inventory, spec, replies), 0
    for number in range(MOST_RUNS):
        before = report.news
        replies.begin_run()
        try:
            with carry_context():
                asyncio.run(asyncio.wait_for(asker.ask(number, Visits(report)), SECONDS_A_RUN))
            report.write("run", well=True)
        except Exception as error:  # noqa: BLE001 - a user's program may raise anything
            what, place = asker.describe(error), find_error_place(error, here)
            report.write("failed", place=place, what=what, made_up=asker.makes_up(number))
            report.write("run", well=False)
        quiet = 0 if report.news > before else quiet + 1
        if quiet == QUIET_RUNS:
            return


class Asker:
    """Asks a graph, each time with another input, context and config that its types allow."""

    def __init__(
        self, graph: Runnable[Any, Any], inventory: Inventory, spec: Mapping[str, Any], replies: CannedReplies
    ) -> None:
        self.graph, self.replies, self.question = graph, replies, spec["question"]
        self.settings = inventory.values
        self.template = spec["template"]
        self.learned = dict[str, str]()
        if isinstance(graph, Pregel) and (inventory.interrupts or graph.checkpointer):
            graph.checkpointer = InMemorySaver()  # nothing is written into the program's own
        if isinstance(graph, Pregel) and graph.store is None:
            graph.store = InMemoryStore()  # as LangGraph's server gives it
        if self.template is None:
            with suppress(ConfigError):  # several fields could be meant
                self.template = map_graph(inventory.program, graph, OwnGraphConfig(answer="any")).template
        self.is_given = spec["template"] is not None

    def describe(self, error: Exception) -> str:
        """Describe an error in a run; the question as a missing key is one that a field holds."""
        if isinstance(error, KeyError) and error.args == (self.question,):
            return "a field of the input must be a key that the program knows; give one with --set input='{...}'"
        return shorten(format_error(error), LONGEST_ERROR, placeholder="...")

    def makes_up(self, number: int) -> bool:
        """Whether a run's input has values that no one has asked for, so that its errors tell nothing."""
        return not self.is_given and self._choose_form(number) != 0

    def _choose_form(self, number: int) -> int:
        """Choose the form of a run's input: each once, and then by chance, so that all kinds of replies meet it."""
        return number if number < FORMS else random.Random(number).randrange(FORMS)

    async def ask(self, number: int, visits: Visits) -> None:
        """Ask once, and answer where the graph waits for a person; a field that the program misses is added."""
        for attempt in range(MOST_MENDED):
            given: Any = self.make_input(number)
            try:
                for decision in (*DECISIONS[number % 4 :], *DECISIONS):
                    config = self._make_config(number, attempt, visits)
                    output = await self._invoke(given, config, number)
                    waits = output.get("__interrupt__") if isinstance(output, Mapping) else None
                    if waits:
                        given = Command(resume=_decide(waits[0].value, decision))
                    elif await self._stands_still(config):
                        given = None  # goes on, where the graph was compiled with interrupt_before or interrupt_after
                    else:
                        return
                return
            except KeyError as error:
                name = error.args[0] if error.args else None
                if not isinstance(name, str) or not name.isidentifier() or name in self.learned:
                    raise
                self.learned[name] = self.question

    async def _stands_still(self, config: Any) -> bool:
        has_saver = isinstance(self.graph, Pregel) and isinstance(self.graph.checkpointer, InMemorySaver)
        return has_saver and bool((await self.graph.aget_state(config)).next)  # type: ignore[attr-defined]

    async def _invoke(self, given: Any, config: Any, number: int) -> Any:
        context = {"context": made} if (made := self._make_context(number)) is not None else {}
        graph = add_store(self.graph)
        try:
            return await empty_cache(graph).ainvoke(given, config, **context)
        except (NotImplementedError, TypeError) as error:
            if isinstance(error, TypeError) and "async" not in str(error).lower():
                raise
            return await asyncio.to_thread(empty_cache(graph).invoke, given, config, **context)

    def _make_config(self, number: int, attempt: int, visits: Visits) -> dict[str, Any]:
        settings = {value.name: self._choose_setting(value) for value in self.settings} if number % 2 else {}
        chosen = {name: value for name, value in settings.items() if value is not None}
        return {
            "callbacks": [visits],
            "recursion_limit": STEPS,
            "configurable": {**chosen, "thread_id": f"{number}-{attempt}"},
        }

    def _choose_setting(self, setting: ProgramValue) -> Any:
        """Choose a value that the type of a setting allows; None to leave the setting alone."""
        if not setting.choices:
            return PLAIN if setting.default == "None" else None
        choice = str(self.replies.take(("setting", setting.owner, setting.name), setting.choices[::-1]))
        with suppress(ValueError):
            return ast.literal_eval(choice)
        kind, _, member = choice.partition(".")
        kinds = [getattr(module, kind, None) for module in [*sys.modules.values()]]
        return next((getattr(found, member) for found in kinds if isinstance(found, EnumType)), None)

    def make_input(self, number: int) -> Any:
        """Make the input of a run.

        By its form it has the field that asks alone, all fields of the schema, all after a long talk, or only those
        without a default and no messages.
        """
        form = self._choose_form(number)
        made = {} if self.template is None else fill_template(self.template, self.question)
        if self.makes_up(number):
            fields = dict(self._list_fields(needed=form == 3)) or dict(self._list_fields(needed=False))
            if form == 3 and len(fields) > 1:
                fields.pop("messages", None)
            made = fields or made
        elif self.template is None:
            made = dict(self._list_fields(needed=True)) or dict(self._list_fields(needed=False))
        if not isinstance(made, dict):
            return {**self.learned} if self.learned or self._takes_object() else made
        if isinstance(made.get("messages"), str):
            talk = [AIMessage(PLAIN) if turn % 2 else HumanMessage(self.question) for turn in range(TALK)]
            made["messages"] = [*(talk if form == 2 and not self.is_given else ()), HumanMessage(self.question)]
        return {**self.learned, **made} or self.question

    def _takes_object(self) -> bool:
        """Whether the input is an object of unknown fields, as of an entrypoint that takes a dict."""
        with suppress(Exception):  # types of the user's own, which have no JSON schema
            return self.graph.get_input_jsonschema().get("type") == "object"
        return False

    def _list_fields(self, *, needed: bool) -> Iterator[tuple[str, Any]]:
        """List the fields of the input, each with a value of its type; those of no usual type are left out."""
        schema: Any = self.graph.builder.input_schema if isinstance(self.graph, CompiledStateGraph) else None
        hints: Mapping[str, Any] = {}
        with suppress(Exception):  # names that only a type checker knows
            hints = get_type_hints(schema, include_extras=True) if schema else {}
        for name, kind in hints.items():
            if "Message" in str(kind):
                yield name, self.question if name == "messages" else [HumanMessage(self.question)]
            elif get_origin(kind) is not Annotated and not (needed and _has_default(schema, name)):
                with suppress(Exception):  # a type that is no schema
                    yield name, self._make_value(kind, ("input", name), [self.question])

    def _make_value(self, kind: Any, key: Any, texts: Sequence[str]) -> Any:
        """Make a value of a type; a text is one of some, or a word that the program compares with."""
        adapter: Any = TypeAdapter(kind)
        shown = adapter.json_schema()
        made = self.replies.fill(shown, shown, key)
        if made == PLAIN:
            made = self.replies.take(key, [*texts, *self.replies.words[:MOST_WORDS]])
        return adapter.validate_python(made)

    def _make_context(self, number: int) -> Any:
        """Make a context: with its defaults, then with other values of its types."""
        schema = getattr(self.graph, "context_schema", None)
        if not isinstance(schema, type):
            return None
        with suppress(Exception):  # a field without a default
            if number % 2 == 0:
                return schema()
        made = dict[str, Any]()
        for name, kind in get_type_hints(schema).items():
            with suppress(Exception):  # a type that is no schema
                if kind is not str:
                    made[name] = self._make_value(kind, ("context", name), [PLAIN])
                elif not _has_default(schema, name) or number % 4 == 3:
                    made[name] = self.replies.take(("context", name), [*self.replies.words, PLAIN])
        with suppress(Exception):
            return schema(**made)
        return None


def _has_default(schema: Any, name: str) -> bool:
    fields = getattr(schema, "model_fields", None)
    return not fields[name].is_required() if fields else hasattr(schema, name)


def _decide(asked: Any, decision: Any) -> Any:
    """Answer an interrupt; one of LangChain's own in the form that it reads."""
    actions = asked.get("action_requests") if isinstance(asked, Mapping) else None
    if actions:
        kind = {"type": "approve"} if decision in (True, "yes") else {"type": "reject", "message": PLAIN}
        return {"decisions": [kind for _ in actions]}
    return decision


if __name__ == "__main__":
    confirm(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # threads of the program may go on
