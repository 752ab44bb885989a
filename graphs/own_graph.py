"""Graphs of the user's own as measured systems, with the calls of their models metered."""

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, Required, Union, get_args, get_origin

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import get_type_hints

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, format_error
from selfwire.core.plugins import GRAPH_NAME, GRAPHS, import_user_file, import_user_module
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.values import FrozenJson, FrozenModel, fingerprint, to_plain_json
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.models.call_meter import CallMeter
from selfwire.models.metered_chat import MeteredModel

QUESTION = "{question}"
"""Stands for the question in a template of the input."""
ASKING = ("question", "query", "input", "task", "request", "prompt", "topic")
ANSWERING = ("answer", "final_answer", "response", "output", "result", "report")
"""Usual names of the field that takes the question, and of the one that holds the answer."""
AGENT = "graph"


class OwnGraphConfig(FrozenModel):
    """Where the question goes, and where the answer is.

    Args:
        input: the graph's input, JSON with {question} in a text; "" to find it by the graph's schema.
        answer: field of the output, or fields of fields as `a.b`; "" to find it by the schema.
    """

    input: FrozenJson | str = ""
    answer: str = ""


class Mapped(NamedTuple):
    """How a question becomes an input, and an output an answer.

    Attributes:
        template: the input as JSON, in which {question} is replaced.
        messages: whether the question goes into `messages`, and the answer is the last AI message.
        answer: path of the answer; () for the output itself.
    """

    template: Any
    messages: bool = False
    answer: tuple[str, ...] = ()


def give_graph(graph: Any) -> str:
    """Make a graph known in this process; returns the name that stands for it, by the graph's own."""
    for name, known in GRAPHS.items():
        if known is graph:
            return name
    own = re.sub(r"\W+", "-", graph.get_name() if isinstance(graph, Runnable) else type(graph).__name__).strip("-")
    name = next(name for name in chain([own], (f"{own}-{number}" for number in count(2))) if name not in GRAPHS)
    GRAPHS[name] = graph
    return name


def load_graph(name: str) -> Runnable[Any, Any]:
    """Import a graph by its name, and compile it where it is not.

    Raises:
        ConfigError: it cannot be imported, or is no graph; or a function without arguments that makes none.
    """
    found = GRAPHS[name] if name in GRAPHS else _import(name)
    try:
        if callable(found) and not isinstance(found, Runnable | StateGraph):
            found = found()
        if isinstance(found, StateGraph):
            found = found.compile()
    except Exception as error:
        raise ConfigError(f"graph {name!r} cannot be made: {format_error(error)}") from error
    if not isinstance(found, Runnable):
        raise ConfigError(
            f"{name!r} is a {type(found).__name__}, not a graph; name a compiled LangGraph, a StateGraph, a Runnable, "
            "or a function without arguments that makes one"
        )
    return found


def _import(name: str) -> Any:
    matched = GRAPH_NAME.fullmatch(name)
    assert matched is not None, name
    module = matched["module"]
    try:
        imported = import_user_file(Path(module)) if module.endswith(".py") else import_user_module(module)
        return attrgetter(matched["name"])(imported)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise ConfigError(
            f"graph {name!r} cannot be imported: {format_error(error)}; "
            "name it as module:attribute or file.py:attribute"
        ) from error


def map_graph(name: str, graph: Runnable[Any, Any], config: OwnGraphConfig) -> Mapped:
    """Find where the question goes and where the answer is, by the graph's schemas where the config does not say it.

    Raises:
        ConfigError: there are several possibilities, which it names, or the template is not usable.
    """
    answer = tuple(config.answer.split(".")) if config.answer else None
    if config.input:
        template = to_plain_json(config.input)
        if QUESTION not in json.dumps(template):
            raise ConfigError(f"the input of {name!r} has no {QUESTION}, so that nothing would be asked: {template}")
        return Mapped(template, answer is None and _has_messages(graph), _map_answer(name, graph, answer))
    if isinstance(graph, BaseLanguageModel):
        return Mapped(QUESTION)
    fields = _list_fields(graph, "input")
    if fields is None:
        return Mapped(QUESTION, answer=answer or ())
    if "messages" in fields:
        return Mapped({"messages": QUESTION}, answer is None, answer or ())
    asked = _choose(
        name,
        "input",
        [field for field, is_text in fields.items() if is_text],
        ASKING,
        '--set input=\'{"FIELD": "{question}"}\'',
    )
    return Mapped({asked: QUESTION}, answer=_map_answer(name, graph, answer, asked))


def _map_answer(
    name: str, graph: Runnable[Any, Any], answer: tuple[str, ...] | None, asked: str = ""
) -> tuple[str, ...]:
    if answer is not None or _has_messages(graph):
        return answer or ()
    fields = _list_fields(graph, "output")
    if fields is None:
        return ()
    texts = [field for field, is_text in fields.items() if is_text and field != asked]
    return (_choose(name, "output", texts, ANSWERING, "--set answer=FIELD"),)


def _has_messages(graph: Runnable[Any, Any]) -> bool:
    return "messages" in (_list_fields(graph, "output") or {})


def _list_fields(graph: Runnable[Any, Any], side: str) -> dict[str, bool] | None:
    """Fields of the input or output by name, and whether each is a text; None if it is no object with fields."""
    if isinstance(graph, CompiledStateGraph):
        schema = graph.builder.input_schema if side == "input" else graph.builder.output_schema
        with suppress(NameError, TypeError):  # names that only a type checker knows
            return {name: _is_text_type(kind) for name, kind in get_type_hints(schema).items()} or None
    try:
        found = graph.get_input_jsonschema() if side == "input" else graph.get_output_jsonschema()
    except Exception:  # noqa: BLE001 - types of the user's own, which have no JSON schema
        return None
    fields = found.get("properties")
    if not fields or (side == "output" and "content" in fields):  # a message
        return None
    return {name: _is_text_schema(field) for name, field in fields.items()}


def _is_text_type(kind: Any) -> bool:
    if get_origin(kind) in (Required, NotRequired, Annotated):
        return _is_text_type(get_args(kind)[0])
    return kind is str or (get_origin(kind) in (Union, UnionType) and str in get_args(kind))


def _is_text_schema(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema or "const" in schema:
        return False
    return schema.get("type") == "string" or any(_is_text_schema(part) for part in schema.get("anyOf", ()))


def _choose(name: str, side: str, texts: Sequence[str], usual: Sequence[str], way_out: str) -> str:
    named = [text for text in texts if text in usual]
    if len(texts) == 1 or len(named) == 1:
        return (named or texts)[0]
    listed = f"several text fields could be it: {', '.join(named or texts)}" if texts else "it has no text field"
    what = "question goes into its input" if side == "input" else "answer is in its output"
    raise ConfigError(f"graph {name!r} does not show where the {what}: {listed}; say it with {way_out}")


class OwnGraph(Method[OwnGraphConfig]):
    """A graph of the user's own, which answers every question in a thread of its own.

    Raises:
        ConfigError: it cannot be imported or asked.
    """

    config_type = OwnGraphConfig
    evolves = False

    def __init__(self, target: str, config: Mapping[str, Any]) -> None:
        super().__init__(**config)
        self.target, self.graph = target, load_graph(target)
        self.mapped = map_graph(target, self.graph, self.config)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The graph as a team of one; its agents and edges are its own."""
        return Team(method=self.target, agents=(Agent(id=AGENT, prompt=self.target),), topology=make_chain(AGENT))

    async def answer(self, team: Team, question: Question, ctx: Ctx[OwnGraphConfig]) -> Trajectory:
        """Ask the graph; a step for each call of its models.

        Raises:
            BudgetError: a call did not fit into the budget, and was not sent.
        """
        assert isinstance(ctx.model, MeteredModel), "systems are metered"
        at, done = ctx.at.at(task=question.id), Trajectory(question=question, workflow=team.fingerprint)
        meter = CallMeter(ctx.model.ledger, ctx.model.journal, ctx.model.chat().prices, at, asyncio.get_running_loop())
        try:
            done = done.replace(answer=self._read(await self._invoke(question.input, meter)))
        except Exception as error:  # noqa: BLE001 - a user's graph may raise anything
            done = done.as_failed(format_error(error))
        finally:
            await meter.close()
        if meter.refusal is not None:
            raise meter.refusal
        steps = [Step(node=call.node, agent=AGENT, output=call.reply, usage=call.usage) for call in meter.calls]
        return done.replace(steps=tuple(steps))

    async def _invoke(self, question: str, meter: CallMeter) -> Any:
        config: RunnableConfig = {"callbacks": [meter], "configurable": {"thread_id": fingerprint(meter.scope.key)}}
        given = _fill(self.mapped.template, question)
        if isinstance(given, dict) and isinstance(given.get("messages"), str):
            given = {**given, "messages": [HumanMessage(given["messages"])]}
        try:
            return await self.graph.ainvoke(given, config)
        except NotImplementedError:  # nodes, models or checkpointers that only work synchronously
            if meter.calls:
                raise
            return await asyncio.to_thread(self.graph.invoke, given, config)
        except GraphBubbleUp as error:
            raise ConfigError(f"the graph waits for a person ({format_error(error)}), which nobody is here") from error

    def _read(self, output: Any) -> str:
        """Read the answer.

        Raises:
            ConfigError: there is none.
        """
        if isinstance(output, Mapping) and "__interrupt__" in output:
            raise ConfigError("the graph waits for a person (interrupt), and nobody is here to answer")
        if self.mapped.messages:
            said = [message for message in output["messages"] if isinstance(message, AIMessage) and message.text]
            if not said:
                raise ConfigError("the graph has ended without an AI message")
            return str(said[-1].text)
        for part in self.mapped.answer:
            if not isinstance(output, Mapping):
                output = {name: getattr(output, name) for name in (part,) if hasattr(output, name)}
            if part not in output:
                there = ", ".join(map(str, output)) or "nothing"
                raise ConfigError(f"the output has no field {part!r}, only {there}; name another with --set answer=")
            output = output[part]
        if isinstance(output, list) and output and isinstance(output[-1], BaseMessage):
            output = output[-1]
        if isinstance(output, BaseMessage):
            return str(output.text)
        return output if isinstance(output, str) else json.dumps(output, default=str)


def _fill(template: Any, question: str) -> Any:
    """The template with the question in place of its mark, in all texts."""
    if isinstance(template, str):
        return template.replace(QUESTION, question)
    if isinstance(template, list):
        return [_fill(part, question) for part in template]
    return {name: _fill(part, question) for name, part in template.items()} if isinstance(template, dict) else template
