"""Canned replies in place of models, tools and embeddings, for runs that show what a program sends.

Replies are put under LangChain's models where a provider's class would send, so that templates, agents, retries,
streams and parsers above it do what they always do. A reply fits what is asked: an object of a schema, a call of an
offered tool, a word that the program looks for, or a sentence. What may vary is taken in turn, so that several runs
take different branches.
"""

import inspect
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.llms import BaseLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from langchain_core.tools import BaseTool
from langchain_core.tools.base import _format_output
from pydantic import BaseModel, TypeAdapter

from selfwire.models.text_layer import list_message_texts

PLAIN = "A canned reply."
RESULT = "A canned result."
DEEPEST = 6
"""Levels of a schema below which optional parts are left out."""
NUMBER = re.compile(r"\b(score|number|integer|from \d+ to \d+|\d+-\d+)\b", re.IGNORECASE)
LONGEST_WORD = 40
SCHEMAS = ("tools", "functions", "response_format", "ls_structured_output_format")
"""Arguments of a request that hold schemas."""


class CannedRequest(NamedTuple):
    """A request as the program would have sent it.

    Attributes:
        node: path of the node that makes it, such as `review` or `team/review`; "" outside a graph.
        messages: role and text of each.
        schemas: texts of the schemas that it has.
    """

    node: str
    messages: tuple[tuple[str, str], ...]
    schemas: tuple[str, ...]


class CannedReplies:
    """Makes replies, and reports the requests that they answer.

    Args:
        words: that the program compares with replies.
        report: gets each request.
        calls_tools: whether the program's own tools are run; else only those that decide where a run goes on.
    """

    def __init__(self, words: Sequence[str], report: Callable[[CannedRequest], None], *, calls_tools: bool) -> None:
        self.words = [word for word in words if any(map(str.isalpha, word)) and len(word) <= LONGEST_WORD]
        self._report, self._calls_tools = report, calls_tools
        self._turns, self._chance = Counter[Any](), random.Random(0)
        self._called = set[Any]()

    def begin_run(self) -> None:
        """Let every agent call a tool once more."""
        self._called.clear()

    def take(self, key: Any, options: Sequence[Any]) -> Any:
        """Take an option of a choice: each once, and then by chance, so that no two choices go in step."""
        turn = self._turns[key]
        self._turns[key] += 1
        return options[turn] if turn < len(options) else self._chance.choice(options)

    def install(self) -> None:
        """Put the replies under all models, tools and embeddings of this process; they stay."""
        self._install_models()
        self._install_tools()
        Embeddings.__init_subclass__ = classmethod(_can_embeddings)  # type: ignore[assignment]
        time.sleep = lambda seconds: None  # no waits between retries

    def _install_models(self) -> None:
        answer = self._answer

        def generate(
            model: BaseChatModel, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **given: Any
        ) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=answer(messages, given, run_manager))])

        async def agenerate(*given: Any, **named: Any) -> ChatResult:
            return generate(*given, **named)

        def complete(llm: BaseLLM, prompts: list[str], *_: Any, **__: Any) -> LLMResult:
            texts = [str(answer([HumanMessage(prompt)], {}, None).text) for prompt in prompts]
            return LLMResult(generations=[[Generation(text=text)] for text in texts])

        async def acomplete(*given: Any, **named: Any) -> LLMResult:
            return complete(*given, **named)

        BaseChatModel._generate_with_cache = generate  # type: ignore[assignment, method-assign]
        BaseChatModel._agenerate_with_cache = agenerate  # type: ignore[method-assign]
        BaseChatModel._should_stream = lambda *_, **__: False  # type: ignore[method-assign]
        BaseLLM._generate_helper = complete  # type: ignore[assignment, method-assign]
        BaseLLM._agenerate_helper = acomplete  # type: ignore[method-assign]

    def _install_tools(self) -> None:
        run, arun = BaseTool.run, BaseTool.arun

        def run_canned(tool: BaseTool, given: Any, *args: Any, **named: Any) -> Any:
            if self._calls_tools or _decides_route(tool):
                return run(tool, given, *args, **named)
            return _format_output(self._make_result(tool), None, named.get("tool_call_id"), tool.name, "success")

        async def arun_canned(tool: BaseTool, given: Any, *args: Any, **named: Any) -> Any:
            if self._calls_tools or _decides_route(tool):
                return await arun(tool, given, *args, **named)
            return run_canned(tool, given, *args, **named)

        BaseTool.run = run_canned  # type: ignore[assignment, method-assign]
        BaseTool.arun = arun_canned  # type: ignore[assignment, method-assign]

    def _answer(self, messages: Sequence[BaseMessage], given: Mapping[str, Any], manager: Any) -> AIMessage:
        node = _find_node(getattr(manager, "metadata", None) or {})
        texts = tuple((message.type, text) for message in messages for text in _list_sent(message))
        schemas = tuple(text for name in SCHEMAS for text in _list_strings(given.get(name)))
        self._report(CannedRequest(node, texts, schemas))
        if asked := given.get("response_format"):
            return self._make_object(asked, texts)
        offered = {name: schema for name, schema in map(_read_tool, given.get("tools") or ()) if name}
        if offered and (name := self._choose_tool(node, offered, given.get("tool_choice"))):
            made = self.fill(offered[name], offered[name])
            arguments = made if isinstance(made, dict) else {}
            return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call_{uuid4().hex[:12]}"}])
        return AIMessage(self._make_text(node, "\n".join(text for _, text in texts)))

    def _choose_tool(self, node: str, offered: Mapping[str, Any], choice: Any) -> str:
        """Choose a tool to call; "" for none. One that must be called is; else one in a run, which was not yet."""
        named = choice if isinstance(choice, str) else next(iter(_list_values(choice, "name")), "")
        if named in offered:
            return str(named)
        key = (node, *offered)
        if choice in ("any", "required", True) or _list_values(choice, "type") == ["any"]:
            return str(self.take(key, [*offered]))
        if key in self._called:
            return ""
        self._called.add(key)
        return str(self.take(key, ["", *offered]))

    def _make_object(self, asked: Any, texts: Sequence[tuple[str, str]]) -> AIMessage:
        kind = asked if isinstance(asked, type) else None
        schema = TypeAdapter(asked).json_schema() if kind else next(iter(_list_values(asked, "schema")), None)
        if schema is None:
            return AIMessage(self._make_text("", "\n".join(text for _, text in texts)))
        made = self.fill(schema, schema)
        parsed = dict[str, Any]()
        with suppress(ValueError):
            parsed = {"parsed": TypeAdapter(kind).validate_python(made)} if kind else {}
        return AIMessage(json.dumps(made), additional_kwargs=parsed)

    def _make_text(self, node: str, asked: str) -> str:
        """Make a text: an object if the request shows a schema or examples of one, or a word that it names."""
        shown = list(_list_objects(asked))
        schemas = [found for found in shown if isinstance(found.get("properties"), dict)]
        if schemas:
            return json.dumps(self.fill({"type": "object", **schemas[-1]}, schemas[-1]))
        if shown:
            return json.dumps(self.take((node, "object"), shown))
        words = [word for word in self.words if _names(asked, word)]
        numbers = ["7"] if NUMBER.search(asked) else []
        return str(self.take((node, *words, *numbers), [*numbers, *words, PLAIN]))

    def _make_result(self, tool: BaseTool) -> Any:
        """Make what a tool may return, by its annotation."""
        kind = inspect.signature(_get_function(tool)).return_annotation
        if kind not in (str, "str", inspect.Signature.empty):
            with suppress(Exception):  # an annotation that is no schema
                schema = TypeAdapter(kind).json_schema()
                return self.fill(schema, schema)
        return RESULT

    def fill(self, schema: Any, whole: Mapping[str, Any], path: tuple[Any, ...] = ()) -> Any:
        """Make a value that a JSON schema allows; choices are taken in turn.

        Args:
            whole: the schema that holds the definitions.
        """
        if not isinstance(schema, Mapping):
            return PLAIN
        if reference := schema.get("$ref"):
            name = str(reference).rpartition("/")[2]
            found = {**whole.get("definitions", {}), **whole.get("$defs", {})}.get(name, {})
            return self.fill(found, whole, (*path, name)) if len(path) < 2 * DEEPEST else None
        for several in ("anyOf", "oneOf", "allOf"):
            if parts := [part for part in schema.get(several, ()) if part != {"type": "null"}]:
                part = self.take((path, json.dumps(parts, sort_keys=True)), parts)
                return self.fill(part, whole, (*path, several))
        options = _list_options(schema)
        if options:
            return self.take((path, *map(str, options)), options)
        kind = schema.get("type")
        kind = next((part for part in kind if part != "null"), None) if isinstance(kind, list) else kind
        if kind == "object" or (kind is None and "properties" in schema):
            found = schema.get("properties", {})
            needed = schema.get("required", ()) if len(path) > DEEPEST else found
            return {name: self.fill(found.get(name), whole, (*path, name)) for name in needed}
        if kind == "array":
            least = max(1, min(int(schema.get("minItems", 2)), int(schema.get("maxItems", 2))))
            return [self.fill(schema.get("items"), whole, (*path, "[]")) for _ in range(least)]
        return PLAIN if kind in ("string", None) else None


def _list_options(schema: Mapping[str, Any]) -> Sequence[Any]:
    """List the values that a schema allows where they are few, or a high and a low number."""
    if "const" in schema or schema.get("enum"):
        return schema.get("enum") or [schema["const"]]
    if schema.get("type") == "boolean":
        return (True, False)
    return _list_numbers(schema) if schema.get("type") in ("integer", "number") else ()


def _names(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _list_numbers(schema: Mapping[str, Any]) -> list[int]:
    """List a high and a low number that a schema allows."""
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = schema.get("maximum", schema.get("exclusiveMaximum", least + 10))
    inside = [int(least) + ("exclusiveMinimum" in schema), int(most) - ("exclusiveMaximum" in schema)]
    return sorted({*inside}, reverse=True)


def _can_embeddings(kind: type[Any], /, **given: Any) -> None:
    """Give a class of embeddings canned vectors, each by its text's length."""
    super(Embeddings, kind).__init_subclass__(**given)

    def embed(model: Any, text: str) -> list[float]:
        return [1.0, len(text) % 7 / 7, *[0.0] * 62]

    def embed_all(model: Any, texts: Sequence[str], *_: Any, **__: Any) -> list[list[float]]:
        return [embed(model, text) for text in texts]

    async def aembed(model: Any, text: str) -> list[float]:
        return embed(model, text)

    async def aembed_all(model: Any, texts: Sequence[str], *_: Any, **__: Any) -> list[list[float]]:
        return embed_all(model, texts)

    canned = {
        "embed_query": embed,
        "embed_documents": embed_all,
        "aembed_query": aembed,
        "aembed_documents": aembed_all,
    }
    for name, method in canned.items():
        setattr(kind, name, method)


def _get_function(tool: BaseTool) -> Any:
    return getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run


def _decides_route(tool: BaseTool) -> bool:
    """Whether a tool returns a command of LangGraph's, which says where the run goes on."""
    function = _get_function(tool)
    if "Command" in str(inspect.signature(function).return_annotation):
        return True
    with suppress(OSError, TypeError):
        return "Command(" in inspect.getsource(function)
    return False


def _find_node(metadata: Mapping[str, Any]) -> str:
    """Find the path of a node: its name after those of the nodes around its graph."""
    spaces = [part.partition(":")[0] for part in str(metadata.get("langgraph_checkpoint_ns") or "").split("|")]
    return "/".join(filter(None, spaces)) or str(metadata.get("langgraph_node") or "")


def _read_tool(tool: Any) -> tuple[str, Any]:
    """Read the name and the schema of the arguments of a tool, in the form of any provider."""
    if not isinstance(tool, Mapping):
        return "", None
    inner = tool.get("function") or tool.get("toolSpec") or tool
    schema = inner.get("parameters") or inner.get("input_schema") or inner.get("inputSchema") or {}
    return str(inner.get("name") or ""), schema.get("json", schema)


def _list_values(found: Any, key: str) -> list[Any]:
    """List the values under a key at any depth of dicts."""
    if not isinstance(found, Mapping):
        return []
    here = [found[key]] if key in found else []
    return here + [value for part in found.values() for value in _list_values(part, key)]


def _list_strings(found: Any) -> Iterator[str]:
    """List the texts in schemas: of a class those of its JSON schema, too."""
    if isinstance(found, type) and issubclass(found, BaseModel):
        found = found.model_json_schema()
    if isinstance(found, str):
        yield found
    elif isinstance(found, Mapping):
        for part in found.values():
            yield from _list_strings(part)
    elif isinstance(found, list | tuple):
        for part in found:
            yield from _list_strings(part)


def _list_sent(message: BaseMessage) -> list[str]:
    """List the texts of a message but the results of canned tools."""
    return [text for text in list_message_texts(message) if not (isinstance(message, ToolMessage) and text == RESULT)]


def _list_objects(text: str) -> Iterator[dict[str, Any]]:
    """List the JSON objects in a text."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        end = start + 1
        with suppress(ValueError):
            found, end = decoder.raw_decode(text, start)
            if isinstance(found, dict) and found:
                yield found
        start = text.find("{", end)
