"""Agents, models, tools and schemas of a program, with the texts that they hand to a model.

It gets the calls and definitions that `graphs` and `code` come upon, and hands their texts to `code`.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from selfwire.extras.adopt.code import Code, CodeReader
from selfwire.extras.adopt.held_texts import SEVERAL, list_given
from selfwire.extras.adopt.kinds import (
    MODEL,
    find_kinds,
    find_literals,
    find_strings,
    has_base,
    is_tool_class,
    list_outside_bases,
    tell_kind,
)
from selfwire.extras.adopt.names import (
    BoundMethod,
    Element,
    Instance,
    Outside,
    Surroundings,
    Traced,
    find_method,
    list_defaults,
    list_outer,
)
from selfwire.extras.adopt.source import PLAIN_BASES, Program, end_circles
from selfwire.extras.adopt.syntax import (
    Function,
    get_argument,
    get_docstring,
    get_keywords,
    get_last_name,
    is_none,
    is_text,
    list_decorators,
    list_items,
    list_parameters,
    list_positional,
    parse_expression,
)
from selfwire.extras.adopt.texts import get_outside_maker, is_foreign, shorten_source

PROMPTS = ("prompt", "system_prompt", "state_modifier", "messages_modifier", "instructions", "supervisor_prompt")
"""Keywords of an agent's prompt."""
MODELS = ("model", "model_name", "model_id", "deployment_name", "azure_deployment", "repo_id", "default_model")
SILENT = re.compile(r"Human|Model(Fallback|Retry|CallLimit)|Tool(Retry|CallLimit)|PII|Context|.*Caching")
"""Names of middleware that sends no text of its own."""
ASKING = re.compile(r"Summarization|ModelFallback")
"""Names of middleware whose arguments without a name are models."""
RESULTS = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.List, ast.Tuple, ast.Dict, ast.Call)
"""Expressions of what a tool returns whose texts a model reads."""
JSON_MODELS = ("ChatOpenAI", "AzureChatOpenAI", "ChatDeepSeek", "ChatXAI", "ChatTogether")
"""Models of OpenAI and those built on its class, which send no schema in `json_mode`."""
SHOWN = ("default", "examples", "json_schema_extra")
"""Keywords of `Field` whose values stand in a schema beside the description."""
INJECTED = re.compile(r"\b(Injected\w+|RunnableConfig|ToolRuntime|BaseStore)\b")
"""Types of arguments that no model sees."""


@dataclass(eq=False)
class AgentDraft:
    """An agent while the program is read.

    Attributes:
        code: a piece of code without source, which uses the prompt.
        model: the expression of its model; None if it has none of its own.
        agents: those of a team, as they were passed.
        default: the agent that begins, in a swarm.
        is_named: whether the program gives it a name.
    """

    name: str
    maker: str
    at: Traced
    code: Code
    model: ast.expr | None = None
    tools: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    agents: list[Traced] = field(default_factory=list)
    subagents: list["AgentDraft"] = field(default_factory=list)
    tool_drafts: list["ToolDraft"] = field(default_factory=list)
    default: str = ""
    is_named: bool = False


@dataclass(eq=False)
class ToolDraft:
    """A tool while the program is read.

    Attributes:
        docs: a piece of code without source, which uses the description.
        body: the code of the tool itself.
        uses: whether a model or an agent is given it ("offer"), and whether a `ToolNode` runs it ("run").
    """

    name: str
    kind: str
    description: str
    at: Traced
    docs: Code
    body: Code | None = None
    uses: set[str] = field(default_factory=set)


class MakerReader:
    """Reads what `create_agent`, model classes, `@tool` and schemas of a program make.

    Attributes:
        literals: values of `Literal[...]` in schemas, which a model has to write as they are.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.reader = CodeReader(program, self)
        self.agents: dict[Any, AgentDraft] = {}
        self.tools: dict[Any, ToolDraft] = {}
        self.models: dict[Any, tuple[Traced, str, tuple[str, ...]]] = {}
        self.schemas: dict[Any, Code] = {}
        self.literals: set[str] = set()
        self.json_schemas: set[tuple[ast.Dict, Code]] = set()

    # agents

    def read_agent(self, found: Traced) -> AgentDraft | None:
        """Read a call such as `create_agent(...)`; None if it calls a function of the program."""
        call = found.node
        key = (call, found.at.key)
        if key in self.agents:
            return self.agents[key]
        if not any(isinstance(value.node, Outside) for value in self.program.trace(call.func, found.at)):
            return None
        maker, named = get_last_name(call.func), self.program.open_keywords(call, found.at)
        code = Code([], found.at, call)
        self.reader.add_code(code, found.at)
        name = self._find_agent_name(call, named, found.at)
        draft = self.agents[key] = AgentDraft(name, maker, found, code)
        draft.is_named = bool({"name", "supervisor_name"} & named.keys()) or maker == "create_supervisor"
        opened = ast.Call(call.func, call.args, [ast.keyword(name, value) for name, value in named.items()])
        self._read_agent_parts(draft, opened, named)
        for prompt in PROMPTS:
            if prompt in named:
                self._read_prompt(named[prompt], found.at, code)
        if maker.endswith("deep_agent") and len(call.args) > 1:
            self._read_prompt(call.args[1], found.at, code)
        for extra in ("middleware", "pre_model_hook", "post_model_hook", "response_format"):
            if extra in named:
                self._read_extra(extra, named[extra], draft)
        if maker.endswith("deep_agent"):
            self._note_package_texts(call, named, found.at, "prompts and tools of its own")
        self._read_subagents(named.get("subagents"), draft)
        return draft

    def _note_package_texts(self, node: ast.expr, named: Mapping[str, ast.expr], at: Surroundings, own: str) -> None:
        """Note what deepagents adds to a request: texts of its own, and of files that it reads by itself."""
        keys = [key for key in ("memory", "skills") if key in named]
        read = [key for key in keys if not any(is_none(found.node) for found in self.program.trace(named[key], at))]
        files = ", ".join(f"{key}={shorten_source(named[key])}" for key in read)
        if own or files:
            added = " and ".join(filter(None, (own, f"texts of the files in {files}" * bool(files))))
            way_out = "--confirm lists what is sent" + "; add the text of a file to system_prompt" * bool(files)
            self.reader.texts.note(node, at, f"deepagents sends {added}", way_out)

    def list_agents(self) -> Iterator[AgentDraft]:
        """List the agents; no common one of a call, where each call that reaches it has an agent of its own."""
        for draft in self.agents.values():
            own = [
                other
                for other in self.agents.values()
                if other.at.node is draft.at.node
                and (other.code.passes > draft.code.passes or other.at.at.given.keys() > draft.at.at.given.keys())
            ]
            if not own or not self._are_all(own):
                yield draft

    def _are_all(self, drafts: list[AgentDraft]) -> bool:
        """Whether every call of the functions around some agents has made one of them."""
        made, functions = set[Any](), dict[Any, None]()
        for draft in drafts:
            for here in list_outer(draft.at.at):
                own = list_parameters(here.owner) if isinstance(here.owner, Function) else ()
                given = [value.node for name in own for value in here.given.get(name, ())]
                made.update(node.call if isinstance(node, Instance) else node for node in given)
                functions.update({here.owner: None} if given else {})
        for function in functions:
            for call in self.program.calls.get(getattr(function, "name", ""), ()):
                parts = {call.node, *call.node.args, *(keyword.value for keyword in call.node.keywords)}
                if not parts & made and self.program.find_called(function, call.node, call.at):
                    return False
        return True

    def _find_agent_name(self, call: ast.Call, named: dict[str, ast.expr], at: Surroundings) -> str:
        if name := self.find_first(named.get("name", named.get("supervisor_name")), at):
            return name
        if get_last_name(call.func) == "create_supervisor":
            return "supervisor"
        return self.name_by_target(call) or get_last_name(call.func)

    def name_by_target(self, node: Any) -> str:
        """Find the name of the variable, key or function that holds a value; "" if there is none."""
        parent = self.program.parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.Assign | ast.AnnAssign):
                target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
                return get_last_name(target)
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                return parent.name
            if isinstance(parent, ast.stmt) and not isinstance(parent, ast.Return):
                return ""
            parent = self.program.parents.get(parent)
        return ""

    def _read_agent_parts(self, draft: AgentDraft, call: ast.Call, named: dict[str, ast.expr]) -> None:
        at = draft.at.at
        model, tools = named.get("model"), named.get("tools")
        if draft.maker in ("create_supervisor", "create_swarm"):
            agents = get_argument(call, 0, "agents")
            draft.agents = self.list_elements(agents, at) if agents is not None else []
            draft.default = self.find_first(named.get("default_active_agent"), at)
        elif draft.maker.endswith("deep_agent"):
            tools = get_argument(call, 0, "tools")
        else:
            model, tools = get_argument(call, 0, "model"), get_argument(call, 1, "tools")
        self._add_model(draft, model, at)
        self._add_tools(draft, tools, at)

    def _add_model(self, draft: AgentDraft, model: ast.expr | None, at: Surroundings) -> None:
        draft.model = model
        draft.models = self.read_model_argument(model, at, draft.maker) if model is not None else []

    def _add_tools(self, draft: AgentDraft, tools: ast.expr | None, at: Surroundings) -> None:
        found = self.read_tools(tools, at, draft.code) if tools is not None else []
        draft.tool_drafts += [tool for tool in found if tool not in draft.tool_drafts]
        draft.tools = [tool.name for tool in draft.tool_drafts]

    def _read_prompt(self, node: ast.expr, at: Surroundings, code: Code) -> None:
        self.reader.ask(node, at, code, role="system")
        for found in self.program.trace(node, at):
            if isinstance(found.node, Function | BoundMethod):
                self.reader.refer(found, code)
            elif isinstance(found.node, ast.AST) and not isinstance(found.node, ast.Constant):
                code.refers.append(self.reader.get_code(found.node, found.at))

    def _read_extra(self, key: str, node: ast.expr, draft: AgentDraft) -> None:
        """Read middleware, hooks or the response's format."""
        at, code = draft.at.at, draft.code
        if key == "response_format":
            self._read_response_format(node, at, code)
            return
        for found in self.list_elements(node, at) if key == "middleware" else self.program.trace(node, at):
            if isinstance(found.function, Function):
                self._read_middleware_function(found.function, found, draft)
            elif isinstance(found.node, Instance):
                self._read_middleware_class(Traced(found.node.of, found.at), code)
                for tools in self.program.get_member(found, "tools"):
                    if isinstance(tools.node, ast.expr):
                        self._add_tools(draft, tools.node, tools.at)
            elif key == "middleware" and isinstance(found.node, ast.Call):
                self._read_middleware_call(found, code)
            elif isinstance(found.node, ast.AST):
                code.refers.append(self.reader.get_code(found.node, found.at))

    def _read_middleware_function(self, function: Function, found: Traced, draft: AgentDraft) -> None:
        """Read a function that a decorator such as `@before_model(tools=[...])` makes a middleware."""
        self.reader.refer(found, draft.code)
        if "dynamic_prompt" in list_decorators(function):
            self.reader.ask(function, found.at, draft.code, role="system")
        for call in getattr(function, "decorator_list", ()):
            if isinstance(call, ast.Call) and "tools" in (named := get_keywords(call)):
                self._add_tools(draft, named["tools"], found.at)

    def _read_middleware_call(self, found: Traced, code: Code) -> None:
        """Read the models of a middleware of another package, and what it is given."""
        name = get_last_name(found.node.func)
        given = found.node.args if ASKING.match(name) else []
        for part in [*given, *(part.value for part in found.node.keywords if part.arg == "model")]:
            self.read_model_argument(part, found.at, name)
        self._read_replies(found, code)
        if self._is_speaking(found):
            self.reader.texts.note(
                found.node,
                found.at,
                f"texts or tools come from another package's middleware: {shorten_source(found.node)}",
                "pass its texts as arguments, or write a middleware of the program",
            )
        code.refers.append(self.reader.get_code(found.node, found.at))

    def _read_replies(self, found: Traced, code: Code) -> None:
        """Read what a middleware puts in place of the result of a tool that failed, or is old."""
        named = get_keywords(found.node)
        given = [Traced(named["on_failure"], found.at)] if "on_failure" in named else []
        for edit in self.list_elements(named["edits"], found.at) if "edits" in named else ():
            if isinstance(edit.node, ast.Call) and "placeholder" in (inner := get_keywords(edit.node)):
                given.append(Traced(inner["placeholder"], edit.at))
        for value in given:
            for made in self.program.trace(*value[:2]):
                if isinstance(made.node, ast.Lambda | Function) or not is_text(made.node) or " " in made.node.value:
                    self.reader.ask(made.node, made.at, code, role="tool result")  # "continue" and "error" are modes

    def _is_speaking(self, found: Traced) -> bool:
        """Whether a middleware of another package may send texts of its own."""
        name, named = get_last_name(found.node.func), get_keywords(found.node)
        is_given = any(key.endswith("prompt") for key in named)
        is_other = any(isinstance(maker.node, Outside) for maker in self.program.trace(found.node.func, found.at))
        return is_other and not is_given and name.endswith("Middleware") and not SILENT.match(name)

    def _read_response_format(self, node: ast.expr, at: Surroundings, code: Code) -> None:
        """Read a schema, also in `ToolStrategy(Schema)`, or a prompt with one."""
        for given in self.program.trace(node, at):
            prompt, schema = given.node.elts if isinstance(given.node, ast.Tuple) else (None, given.node)
            if prompt is not None:
                self.reader.ask(prompt, given.at, code, role="system")
            for found in self._list_schemas(schema, given.at):
                self.read_schema(found, code)
            for part in [schema, *(schema.args[:1] if isinstance(schema, ast.Call) else ())]:
                for found in self.program.trace(part, given.at):
                    self._read_json_schema(found.node, found.at, code)
            for key, said in get_keywords(schema).items() if isinstance(schema, ast.Call) else ():
                if key in ("tool_message_content", "handle_errors"):
                    self.reader.ask(said, given.at, code, role="tool result")

    def _read_middleware_class(self, found: Traced, code: Code) -> None:
        """Read the methods of a class of middleware, and of its base classes in the program."""
        inside = self.program.enter(found.node, found.at)
        for values in inside.names.bound.values():
            for value in values:
                if isinstance(value, Function):
                    code.refers.append(self.reader.get_code(value, inside))
        for base in self.program.list_bases(found):
            if isinstance(base.node, ast.ClassDef):
                self._read_middleware_class(base, code)

    def _read_subagents(self, node: ast.expr | None, draft: AgentDraft) -> None:
        """Read the dicts of `subagents=` of a deep agent."""
        made = list[AgentDraft]()
        for found in self.list_elements(node, draft.at.at) if node is not None else ():
            if not isinstance(found.node, ast.Dict | ast.BinOp):
                continue
            if isinstance(found.node, ast.Dict):
                self._note_package_texts(found.node, dict(list_items(found.node)), found.at, "")
            if self._list_values(found, "name") or not made:  # else what code adds to the dict before
                rounds = self.program.list_rounds_around(found.node, found.at)
                made = [self._add_subagent(found._replace(at=inner), draft) for inner in rounds]
            for sub in made:
                self._read_subagent(sub, found._replace(at=sub.at.at))

    def _read_subagent(self, sub: AgentDraft, found: Traced) -> None:
        for value in self._list_values(found, "description"):
            self.reader.ask(*value[:2], sub.code, kind="tool description", role="schema")
        for value in self._list_values(found, "prompt", "system_prompt"):
            self._read_prompt(*value[:2], sub.code)
        for value in self._list_values(found, "tools"):
            self._add_tools(sub, *value[:2])
        for value in self._list_values(found, "model"):
            self._add_model(sub, *value[:2])
        for value in self._list_values(found, "runnable"):
            asking = ast.Attribute(value.node, "invoke", ast.Load())
            call = ast.copy_location(ast.Call(asking, [], []), value.node)
            sub.code.refers.append(self.reader.get_code(call, value.at))

    def _list_values(self, found: Traced, *keys: str) -> list[Traced]:
        """List what a dict has under some keys; of one that it has twice, as in `{**base, "name": name}`, the last."""
        return [value for key in keys for value in self.program.get_items(found, key)]

    def _add_subagent(self, found: Traced, draft: AgentDraft) -> AgentDraft:
        code = Code([], found.at, found.node)
        self.reader.add_code(code, found.at)
        names = (self.find_first(*value[:2]) for value in self._list_values(found, "name"))
        name = next(filter(None, names), "subagent")
        sub = self.agents[found.node, found.at.key] = AgentDraft(name, "subagent", found, code)
        draft.subagents.append(sub)
        return sub

    def find_first(self, node: ast.expr | None, at: Surroundings) -> str:
        """Find the first text that an expression may be; "" if there is none."""
        return "".join(find_strings(self.program, node, at).values[:1]) if node is not None else ""

    def list_elements(self, node: Any, at: Surroundings) -> list[Traced]:
        """Find the elements of a list, through names, sums, loops and what is appended."""
        return list_elements(self.program, node, at)

    # models

    def read_model(self, found: Traced) -> tuple[str, ...]:
        """Read a call that makes a model or asks one directly; returns the names it may have."""
        call = found.node
        known = self.models[call][2] if call in self.models else ()
        maker = get_last_name(call.func)
        values = [keyword.value for keyword in call.keywords if keyword.arg in MODELS]
        if not values and (maker == "init_chat_model" or maker.startswith("Chat")):
            values = call.args[:1]
        names = [name for value in values for name in find_strings(self.program, value, found.at).values]
        unique = tuple(dict.fromkeys(names))
        if call in self.models:  # made for several arguments
            self.models[call] = (*self.models[call][:2], tuple(dict.fromkeys([*known, *names])))
            return unique
        if isinstance(call.func, ast.Attribute) and not MODEL.fullmatch(maker):
            maker = ast.unparse(call.func)
        called = self.program.trace(call.func, found.at)
        if any(isinstance(value.node, ast.FunctionDef) or self._is_own_class(value) for value in called):
            return unique  # of the program itself; what it calls is read by itself
        if any(isinstance(value.node, Outside) and value.node.name.startswith("openai.") for value in called):
            return unique  # a client, whose calls name the model
        self.models[call] = (found, maker, unique)
        return unique

    def _is_own_class(self, found: Traced) -> bool:
        """Whether a value is a class of the program that is made of no class of another package."""
        if not isinstance(found.node, ast.ClassDef):
            return False
        return all(name in (*PLAIN_BASES, "Protocol") for name in list_outside_bases(self.program, found))

    def read_model_config(self, node: ast.Call, at: Surroundings) -> None:
        """Read the model's name in `model.with_config({"model": name})`, or `model_copy(update={"model": name})`."""
        if not any(kind == "model" for kind, _ in find_kinds(self.program, node.func.value, at)):  # type: ignore[attr-defined]
            return
        for given in [*node.args[:1], *get_keywords(node).values()]:
            for found in self.program.trace(given, at):
                named = dict(list_items(found.node)) if isinstance(found.node, ast.Dict) else {}
                inner = named.get("configurable")
                if isinstance(inner, ast.Dict):
                    named = dict(list_items(inner))
                for value in (named[key] for key in MODELS if key in named):
                    if names := find_strings(self.program, value, found.at).values:
                        self.models[node] = (Traced(node, at), get_last_name(node.func), names)

    def read_model_argument(self, node: ast.expr, at: Surroundings, maker: str) -> list[str]:
        """Read the model that is passed to the maker of an agent or a middleware, an object or a name."""
        names: list[str] = []
        for kind, found in find_kinds(self.program, node, at):
            if kind == "model":
                names += self.read_model(found)
            elif is_text(found.node):
                names.append(found.node.value)
                self.models.setdefault(found.node, (found, maker, (found.node.value,)))
        return list(dict.fromkeys(names))

    # tools

    def note_function(self, found: Traced, code: Code) -> bool:
        """Note a function that code refers to; returns whether it is a tool or a task, which is read by itself."""
        decorated = list_decorators(found.node)
        if "tool" in decorated:
            self.read_tool(found)
            return True
        if "task" in decorated:
            code.tasks.append(found)
        return bool({"entrypoint", "task"} & set(decorated))

    def read_bound(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read the tools or the schema that a call binds to a model, or that a `ToolNode` runs."""
        named = get_keywords(node)
        given = [*node.args[:1], *(named[key] for key in ("tools", "schema", "pydantic_object") if key in named)]
        for part in given if not self._is_silent(node, at) else ():
            if get_last_name(node.func).endswith(("with_structured_output", "OutputParser")):
                for found in self._list_schemas(part, at):
                    self.read_schema(found, code)
                self._read_made_schema(part, at, code)
            else:
                tools = self.read_tools(part, at, code, "run" if get_last_name(node.func) == "ToolNode" else "offer")
                for body in (tool.body for tool in tools if "handle_tool_errors" in named):
                    if body is not None and self._shows_errors(named["handle_tool_errors"], at):
                        self._read_errors(body.owner, body.at, body, is_any=True)
            for found in (*self.list_elements(part, at), *self.program.trace(part, at)):
                self._read_json_schema(found.node, found.at, code)
        if "handle_tool_errors" in named:
            self.reader.ask(named["handle_tool_errors"], at, code, role="tool result")

    def _shows_errors(self, handler: ast.expr, at: Surroundings) -> bool:
        """Whether `handle_tool_errors` hands on the texts of errors, as True and a function that reads its error do."""
        for made in (found.node for found in self.program.trace(handler, at)):
            if isinstance(made, Function):
                read = {part.id for part in ast.walk(made) if isinstance(part, ast.Name)}
                is_shown = any(argument.arg in read for argument in made.args.args[:1])
            else:
                is_shown = getattr(made, "value", True) is True
            if is_shown:
                return True
        return False

    def _is_silent(self, node: ast.Call, at: Surroundings) -> bool:
        """Whether a model is asked for JSON without the schema, which other models send all the same."""
        method = get_keywords(node).get("method")
        if not is_text(method) or method.value != "json_mode" or not isinstance(node.func, ast.Attribute):
            return False
        found = list(find_kinds(self.program, node.func.value, at))
        makers = [get_last_name(getattr(value.node, "func", None)) for _, value in found]
        return bool(makers) and all(maker in JSON_MODELS for maker in makers)

    def _read_made_schema(self, node: ast.expr, at: Surroundings, code: Code, *, docstring: bool = True) -> None:
        """Read the fields of `create_model("Name", field=(type, Field(...)))`, and its docstring."""
        for found in self.program.trace(node, at):
            if isinstance(found.node, ast.Call) and get_last_name(found.node.func) == "create_model":
                named = get_keywords(found.node)
                if docstring and "__doc__" in named:
                    self.reader.ask(named["__doc__"], found.at, code, role="schema", kind="docstring")
                rest = [key.value for key in found.node.keywords if key.arg is None]
                dicts = (inner for part in rest for inner in self.program.trace(part, found.at))
                given = [Traced(value, found.at) for value in named.values()]
                given += [value for inner in dicts for _, value in self.program.list_pairs(inner)]
                for value in given:
                    parts = value.node.elts if isinstance(value.node, ast.Tuple) else []
                    for part in parts[:1]:
                        self._read_annotation(part, value.at, code)
                    for part in parts[1:]:
                        self._read_metadata(part, value.at, code)

    def _read_json_schema(self, node: Any, at: Surroundings, code: Code) -> None:
        """Read the descriptions in a JSON schema that the source holds as a dict."""
        if not isinstance(node, ast.Dict) or (node, code) in self.json_schemas:
            return
        self.json_schemas.add((node, code))
        for key, value in list_items(node):
            if key == "description":
                self.reader.ask(value, at, code, role="schema", kind="field description")
            for found in self.program.trace(value, at):
                self._read_json_schema(found.node, found.at, code)

    def _list_schemas(self, node: ast.expr, at: Surroundings) -> Iterator[Traced]:
        for found in self.program.trace(node, at):
            if isinstance(found.node, ast.ClassDef):
                yield found
            elif isinstance(found.node, ast.Call) and found.node.args:  # ToolStrategy(Schema)
                yield from self._list_schemas(found.node.args[0], found.at)
            elif isinstance(found.node, ast.Subscript):  # list[Schema], Union[A, B]
                yield from self._list_schemas(found.node.slice, found.at)

    def read_tools(self, node: ast.expr, at: Surroundings, code: Code, use: str = "offer") -> list[ToolDraft]:
        """Read a list of tools, or a `ToolNode` that has them, which a piece of code hands to a model or only runs."""
        drafts: dict[ToolDraft, None] = {}
        pending, seen = [Traced(node, at)], set[Any]()
        while pending:
            part = pending.pop(0)
            if (part.node, part.at.key) in seen:  # tools = ToolNode(tools)
                continue
            seen.add((part.node, part.at.key))
            nodes = [found for kind, found in find_kinds(self.program, *part[:2]) if kind == "tools"]
            for found in nodes:
                code.refers.append(self.reader.get_code(*found[:2]))
                given = [*found.node.args[:1], *(key.value for key in found.node.keywords if key.arg == "tools")]
                pending += [Traced(tools, found.at) for tools in given]
            for found in self.list_elements(*part[:2]):
                draft = self.read_tool(found) if found not in nodes else None
                if draft is not None:
                    drafts[draft] = None
                    draft.uses.add(use)
                    code.refers.append(draft.docs)
                elif found not in nodes:
                    self._note_foreign_tools(found)
        return list(drafts)

    def _note_foreign_tools(self, found: Traced) -> None:
        """Note tools of another package, or made in an unknown way, whose descriptions the source does not show."""
        node = found.node.value if isinstance(found.node, ast.Await) else found.node
        if isinstance(node, Element):
            for inner in self.program.trace(node.source, found.at):
                self._note_foreign_tools(inner)
        maker = get_outside_maker(self.program, Traced(node, found.at))
        if isinstance(node, ast.Call) and is_foreign(maker):
            self.reader.texts.note(
                node,
                found.at,
                f"tools come from another package: {shorten_source(node)}",
                "wrap them in functions of the program with @tool, so that the source shows what a model reads",
            )
        elif isinstance(node, ast.Call):
            self.reader.texts.note(
                node, found.at, f"a tool that is made so is not read: {shorten_source(node)}", "make it by @tool"
            )

    def read_tool(self, found: Traced) -> ToolDraft | None:
        """Read a tool: a function, a class, an object or a call that makes one."""
        node = found.function
        if isinstance(node, Instance):
            if node.call is not None and is_tool_class(self.program, Traced(node.of, found.at)):
                return self._read_tool_object(found)
            node = node.of
        if (node, found.at.key) in self.tools:
            return self.tools[node, found.at.key]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._read_function(node, found.at)
        if isinstance(node, ast.ClassDef):
            return self._read_class(node, found.at)
        if isinstance(node, ast.Dict):
            return self._read_described(node, found.at)
        return self._read_made_tool(node, found.at) if isinstance(node, ast.Call) else None

    def _read_described(self, node: ast.Dict, at: Surroundings) -> ToolDraft | None:
        """Read a tool that a dict describes, as a request offers it."""
        inner = dict(list_items(node)).get("function", node)
        for found in self.program.trace(inner, at):
            named = dict(list_items(found.node)) if isinstance(found.node, ast.Dict) else {}
            if {"name", "description"} <= named.keys():
                draft = self._add_tool(self.find_first(named["name"], found.at), "schema", node, at)
                self._describe(draft, named["description"], found.at)
                for key in ("parameters", "input_schema"):
                    for value in self.program.trace(named[key], found.at) if key in named else ():
                        self._read_json_schema(value.node, value.at, draft.docs)
                return draft
        return None

    def _add_tool(self, name: str, kind: str, node: Any, at: Surroundings) -> ToolDraft:
        draft = ToolDraft(name, kind, "", Traced(node, at), Code([], at, None))
        self.tools[node, at.key] = draft
        return draft

    def _read_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, at: Surroundings) -> ToolDraft:
        decorators = [part for part in node.decorator_list if get_last_name(getattr(part, "func", part)) == "tool"]
        call = next((part for part in decorators if isinstance(part, ast.Call)), None)
        named = get_keywords(call) if call else {}
        name = self.find_first(get_argument(call, 0, "name_or_callable"), at) if call else ""
        draft = self._add_tool(name or node.name, "decorated" if decorators else "function", node, at)
        draft.body = self.reader.get_code(node, at)
        self._describe(draft, named.get("description"), at, Traced(node, at))
        if "args_schema" in named:
            self._read_args_schema(named["args_schema"], at, draft)
        else:
            self._read_argument_texts(node, at, draft)
        self._read_results(node, at, draft, named.get("response_format"))
        return draft

    def _describe(
        self, draft: ToolDraft, description: ast.expr | None, at: Surroundings, owner: Traced | None = None
    ) -> None:
        """Read a description, or the docstring of its owner; one that is assigned later comes before both."""
        for tool, given in self.program.described if owner is not None else ():
            if any(owner and found.node is owner.node for found in self.program.trace(*tool[:2])):
                if isinstance(self.program.parents[given.node], ast.AugAssign):
                    self.reader.ask(*given[:2], draft.docs, role="schema", kind="tool description")
                else:
                    description, at = given.node, given.at
        if description is not None:
            texts = find_strings(self.program, description, at).values
            draft.description = texts[0] if texts else ""
            self.reader.ask(description, at, draft.docs, role="schema", kind="tool description")
            made = [found.node for found in self.program.trace(description, at)]
            if not texts and made and all(isinstance(node, ast.Attribute | Element | Outside) for node in made):
                self.reader.texts.note(
                    description,
                    at,
                    f"the source does not show what describes a tool: {shorten_source(description)}",
                    "write the description in the source; --confirm lists what is sent",
                )
        elif owner is not None and (doc := get_docstring(owner.node)) is not None:
            draft.description = ast.get_docstring(owner.node) or ""
            self.reader.ask(doc, owner.at, draft.docs, role="schema", kind="docstring", changes=("cleandoc",))

    def _read_args_schema(self, node: ast.expr, at: Surroundings, draft: ToolDraft) -> None:
        for found in self.program.trace(node, at):
            func, schemas = getattr(found.node, "func", None), [found]
            if isinstance(func, ast.Attribute) and func.attr in ("model_json_schema", "schema"):
                schemas = self.program.trace(func.value, found.at)
            for schema in schemas:
                if isinstance(schema.node, ast.ClassDef):
                    self.read_schema(schema, draft.docs, docstring=False)
            self._read_json_schema(found.node, found.at, draft.docs)
        self._read_made_schema(node, at, draft.docs, docstring=False)

    def _read_argument_texts(self, node: Any, at: Surroundings, draft: ToolDraft) -> None:
        """Read the texts of `Annotated[str, "..."]` in a tool's signature, and its schemas."""
        defaults = list_defaults(at.file.read_names(node), at)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if argument.annotation is None or not INJECTED.search(ast.unparse(argument.annotation)):
                self._read_annotation(argument.annotation, at, draft.docs)
                for default in defaults.get(argument.arg, ()):
                    self._read_value(*default[:2], draft.docs)

    def _read_annotation(self, annotation: Any, at: Surroundings, code: Code) -> None:
        """Read the descriptions in an annotation, and the schemas that it names."""
        if is_text(annotation) and (named := parse_expression(annotation.value)) is not None:
            annotation = named
        if isinstance(annotation, ast.Subscript):
            kind = get_last_name(annotation.value)
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            if kind == "Literal":
                self.literals |= set(find_literals(self.program, annotation, at))
            for part in parts[1:] if kind == "Annotated" else ():
                self._read_metadata(part, at, code)
            for part in {"Annotated": parts[:1], "Literal": []}.get(kind, parts):
                self._read_annotation(part, at, code)
        elif isinstance(annotation, ast.BinOp):
            self._read_annotation(annotation.left, at, code)
            self._read_annotation(annotation.right, at, code)
        elif isinstance(annotation, ast.Name | ast.Attribute):
            for found in self.program.trace(annotation, at):
                if isinstance(found.node, ast.ClassDef):
                    self.read_schema(found, code)
            self._read_made_schema(annotation, at, code)

    def _read_metadata(self, part: ast.expr, at: Surroundings, code: Code) -> None:
        if isinstance(part, ast.Call) and get_last_name(part.func) in ("Field", "Doc"):
            named = get_keywords(part)
            if "description" in named:
                self.reader.ask(named["description"], at, code, role="schema", kind="field description")
            default = part.args[:1] if get_last_name(part.func) == "Field" else []
            for value in (*default, *(named[key] for key in SHOWN if key in named)):
                self._read_value(value, at, code)
        elif is_text(part) or isinstance(part, ast.Name):
            self.reader.ask(part, at, code, role="schema", kind="field description")

    def _read_value(self, node: ast.expr, at: Surroundings, code: Code) -> None:
        """Read the texts of several words in what a schema says beside descriptions, such as a default."""
        pending, seen = [(node, at)], set[Any]()
        for shown, here in pending:  # it grows
            for made, inside, _ in self.program.trace(shown, here):
                if (made, inside.key) in seen:
                    continue
                seen.add((made, inside.key))
                parts = made.values if isinstance(made, ast.Dict) else getattr(made, "elts", ())
                if is_text(made) and SEVERAL.search(made.value):
                    self.reader.ask(made, inside, code, role="schema", kind="field value")
                elif isinstance(made, ast.expr) and not isinstance(made, ast.Constant) and not parts:
                    self.reader.texts.left.setdefault((made, inside.key), Traced(made, inside))
                pending += [(part, inside) for part in parts]
                if isinstance(made, Instance) and made.made_in is not None:
                    pending += [(part, made.made_in) for part in list_given(made.call)]

    def _read_results(self, node: Any, at: Surroundings, draft: ToolDraft, form: ast.expr | None = None) -> None:
        """Read the texts that a tool returns, which the model reads: no artifact, which stands behind them."""
        is_first = is_text(form) and form.value == "content_and_artifact"
        for returned in self.program.list_returned(node, at, {}, None, None):
            for pair in self.program.trace(returned.node, returned.at):
                is_pair = is_first and isinstance(pair.node, ast.Tuple)
                found = Traced(pair.node.elts[0], pair.at) if is_pair else pair
                made = found.node.elt if isinstance(found.node, ast.ListComp) else None
                if isinstance(found.node, RESULTS) or isinstance(made, ast.JoinedStr):
                    self.reader.ask(found.node, found.at, draft.body, role="tool result", whole=False)
        self._read_errors(node, self.program.enter(node, at), draft.body, is_any=False)

    def _read_errors(self, node: Any, at: Surroundings, code: Code | None, *, is_any: bool) -> None:
        """Read the texts of errors that a tool raises and that a model reads: those of `ToolException`, or of any."""
        for made in (part.exc for part in ast.walk(node) if isinstance(part, ast.Raise)):
            if isinstance(made, ast.Call) and (is_any or get_last_name(made.func) == "ToolException"):
                for text in made.args[:1]:
                    self.reader.ask(text, at, code, role="tool result", whole=False)

    def _read_class(self, node: ast.ClassDef, at: Surroundings) -> ToolDraft | None:
        found = Traced(node, at)
        if not is_tool_class(self.program, found):
            draft = self._add_tool(node.name, "schema", node, at)
            draft.description = ast.get_docstring(node) or ""
            if "tool" in list_decorators(node):  # its fields are offered without their descriptions
                self._describe(draft, None, at, found)
            else:
                draft.docs.refers.append(self.read_schema(found, draft.docs))
            return draft
        return self._read_tool_object(Traced(Instance(node, None), at))

    def _read_tool_object(self, found: Traced) -> ToolDraft:
        """Read an object of a class of tools; its fields are those of the class, or what the call passes."""
        of, passed = found.node.of, get_keywords(found.node.call) if found.node.call else {}
        names, descriptions, schemas = (
            [*self.program.get_member(found, key)] for key in ("name", "description", "args_schema")
        )
        order = [base.node for base in self.program.list_mro(Traced(of, found.at))]
        kept = [list_made_values(self.program, values, order) for values in (names, descriptions)]
        is_made = any(value.maker for values in kept for value in values)
        is_own = (is_made or bool({"name", "description"} & passed.keys())) and found.node.made_in is not None
        node, where = (found.node.call, found.node.made_in) if is_own else (of, found.at)
        if (node, where.key) in self.tools:
            return self.tools[node, where.key]
        draft = self._add_tool(read_made_text(self.program, kept[0]) or of.name, "class", node, where)
        for made in kept[1]:
            self._describe(draft, made.found.node, made.found.at)
        draft.description = read_made_text(self.program, kept[1])
        for value in schemas[:1]:
            self._read_args_schema(value.node, value.at, draft)
        forms = [member.node for member in self.program.get_member(found, "response_format")]
        for method in ("_run", "_arun"):
            for member in self.program.get_member(found, method):
                if isinstance(member.node, BoundMethod):
                    draft.body = self.reader.get_found_code(member)
                    if not schemas:
                        self._read_argument_texts(member.node.function, member.at, draft)
                    self._read_results(member.node.function, member.at, draft, next(iter(forms), None))
        for handler in (member for name in HANDLERS for member in self.program.get_member(found, name)):
            self.reader.ask(handler.node, handler.at, draft.body or draft.docs, role="tool result")
        return draft

    def _read_made_tool(self, node: ast.Call, at: Surroundings) -> ToolDraft | None:
        """Read `StructuredTool.from_function(...)`, `Tool(...)`, `tool(f)`, `create_handoff_tool(...)` and the like."""
        if not any(kind == "tool" for kind, _ in tell_kind(self.program, Traced(node, at))):
            return None
        maker, named = get_last_name(node.func), get_keywords(node)
        if maker == "create_handoff_tool":
            return self._read_handoff(node, named, at)
        if maker == "create_retriever_tool":
            return self._read_retriever(node, at)
        of = getattr(node.func, "value", None) if maker == "from_function" else node.func
        function, name_at, text_at = PLACES.get((get_last_name(of), maker), (0, sys.maxsize, sys.maxsize))
        found = self._find_function(get_argument(node, function, "func", "coroutine"), at)
        name = self.find_first(get_argument(node, name_at, "name"), at)
        name = name or getattr(found and found.node, "name", "")
        draft = self._add_tool(name or self.name_by_target(node), "StructuredTool", node, at)
        owner = None if found and isinstance(found.node, ast.Lambda) else found
        self._describe(draft, get_argument(node, text_at, "description"), at, owner)
        if "args_schema" in named:
            self._read_args_schema(named["args_schema"], at, draft)
        if found is not None and not isinstance(found.node, ast.ClassDef):
            draft.body = self.reader.get_code(found.node, found.at)
            if "args_schema" not in named:
                self._read_argument_texts(found.node, found.at, draft)
            self._read_results(found.node, found.at, draft, named.get("response_format"))
        for handler in (named[name] for name in HANDLERS if name in named):
            self.reader.ask(handler, at, draft.body or draft.docs, role="tool result")
        return draft

    def _find_function(self, node: ast.expr | None, at: Surroundings) -> Traced | None:
        """Find the function, or the class, of which a tool is made."""
        traced, kinds = self.program.trace(node, at), (*Function.__args__, ast.ClassDef)
        return next((Traced(found.function, found.at) for found in traced if isinstance(found.function, kinds)), None)

    def _read_handoff(self, node: ast.Call, named: dict[str, ast.expr], at: Surroundings) -> ToolDraft:
        agent = self.find_first(get_argument(node, 0, "agent_name"), at)
        name = self.find_first(named.get("name"), at) or f"transfer_to_{'_'.join(agent.lower().split())}"
        draft = self._add_tool(name, "handoff", node, at)
        self._describe(draft, named.get("description"), at)
        return draft

    def _read_retriever(self, node: ast.Call, at: Surroundings) -> ToolDraft:
        name = self.find_first(get_argument(node, 1, "name"), at) or self.name_by_target(node)
        draft = self._add_tool(name, "retriever", node, at)
        self._describe(draft, get_argument(node, 2, "description"), at)
        if (found := get_argument(node, 0, "retriever")) is not None:
            self.reader.ask(found, at, draft.docs, role="tool result", kind="document", whole=False)
        return draft

    # schemas

    def read_schema(self, found: Traced, code: Code, *, docstring: bool = True) -> Code:
        """Read the texts of a pydantic model, dataclass or TypedDict that a model has to fill."""
        node = found.node
        inside = self.program.enter(node, found.at)
        is_known = node in self.schemas
        own = self.schemas.setdefault(node, Code([], inside, None))
        code.refers.append(own)
        for doc in [get_docstring(node), *inside.names.bound.get("__doc__", ())] if docstring else ():
            if doc is not None:
                self.reader.ask(doc, inside, own, role="schema", kind="docstring", changes=("cleandoc",))
        if is_known:
            return own
        if has_base(self.program, found, ("Enum", "StrEnum", "IntEnum")):
            return own
        for base in self.program.list_bases(found):
            if isinstance(base.node, ast.ClassDef):
                self.read_schema(base, own, docstring=False)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign):
                self._read_annotation(statement.annotation, inside, own)
                is_shown = get_last_name(getattr(statement.annotation, "value", statement.annotation)) != "ClassVar"
                if statement.value is not None and is_shown and not ast.unparse(statement.target).startswith("_"):
                    is_field = get_last_name(getattr(statement.value, "func", None)).lower() == "field"
                    read = self._read_metadata if is_field else self._read_value
                    read(statement.value, inside, own)
        self._read_model_config(inside, own)
        return own

    def _read_model_config(self, inside: Surroundings, code: Code) -> None:
        """Read what the settings of a pydantic model add to its schema."""
        for config in inside.names.bound.get("model_config", ()):
            for made in self.program.trace(config, inside):
                named = get_keywords(made.node) if isinstance(made.node, ast.Call) else {}
                named = dict(list_items(made.node)) if isinstance(made.node, ast.Dict) else named
                if "json_schema_extra" in named:
                    self._read_value(named["json_schema_extra"], made.at, code)


@end_circles(list[Traced]())
def list_elements(program: Program, node: Any, at: Surroundings) -> list[Traced]:
    """Find the elements of a list, through names, sums, loops and what is appended."""
    elements: list[Traced] = []
    for found in program.trace(node, at):
        parts = _list_parts(program, found)
        if parts is not None:
            elements += parts
        elif found.node is not node:
            elements.append(found)
    return elements


PLACES = {
    ("Tool", "Tool"): (1, 0, 2),
    ("Tool", "from_function"): (0, 1, 2),
    ("StructuredTool", "from_function"): (0, 2, 3),
}
"""Places at which makers of tools take the function, the name and the description; others take the first alone."""
HANDLERS = ("handle_tool_error", "handle_validation_error")
"""Fields of a tool whose text is sent back in place of an error."""
MAKING = ("__init__", "__post_init__", "model_post_init")
"""Methods that make an object."""


class MadeValue(NamedTuple):
    """A value that a field of an object may have once the object is made.

    Attributes:
        maker: the method that gives it; None if it is the default or what a call passes.
        is_sure: whether the method does so in any case.
        is_added: whether it is added to the value before, by `+=`.
    """

    found: Traced
    maker: Any = None
    is_sure: bool = True
    is_added: bool = False


def list_made_values(program: Program, values: Sequence[Traced], order: Sequence[Any]) -> list[MadeValue]:
    """List the values of a field of an object once it is made: one that it surely has, and what may come behind it.

    Args:
        order: the class of the object and its base classes, whose methods give values before those of the class.
    """
    made = list[tuple[int, MadeValue]]()
    for value in values:
        method = find_method(value.at)
        of: Any = method.outer.owner if method is not None and method.outer is not None else None
        if method is None or of not in order:
            made.append((-len(order), MadeValue(value)))
        elif is_making(method.owner, of) and (is_sure := is_reached(program, value, method)) is not False:
            is_added = isinstance(program.parents.get(value.node), ast.AugAssign)
            made.append((-order.index(of), MadeValue(value, method.owner, bool(is_sure), is_added)))
    kept = list[MadeValue]()
    for _, part in sorted(made, key=lambda pair: pair[0]):
        is_changed = part.is_added or (part.maker is not None and reads_itself(program, part))
        kept = [part] if part.is_sure and not is_changed else [*kept, part]
    return kept or [MadeValue(value) for value in values[:1]]


def is_making(method: Any, of: ast.ClassDef) -> bool:
    """Whether a method makes objects of a class, or is called by one that does."""
    makers = [part for part in of.body if isinstance(part, ast.FunctionDef) and part.name in MAKING]
    calls = [part for maker in makers for part in ast.walk(maker) if isinstance(part, ast.Call)]
    return method.name in MAKING or method.name in map(get_last_name, (call.func for call in calls))


def is_reached(program: Program, value: Traced, method: Surroundings) -> bool | None:
    """Whether a method comes to a value; None if that depends on what the source does not show."""
    child, parent, is_sure = value.node, program.parents.get(value.node), True
    while parent is not None and parent is not method.owner:
        if isinstance(parent, ast.If) and child is not parent.test:
            tests = [parent.test, ast.copy_location(ast.UnaryOp(ast.Not(), parent.test), parent.test)]
            here, other = tests if child in parent.body else reversed(tests)
            if program.is_false(here, value.at):
                return False
            is_sure = is_sure and program.is_false(other, value.at)
        is_sure = is_sure and not isinstance(parent, ast.For | ast.While | ast.Try)
        child, parent = parent, program.parents.get(parent)
    return is_sure or None


def reads_itself(program: Program, value: MadeValue) -> bool:
    """Whether a value is made of the one that the field has had before, as `self.name = self.name + "_north"`."""
    statement = value.found.node
    while statement is not None and not isinstance(statement, ast.Assign):
        statement = program.parents.get(statement)
    targets = [ast.unparse(target) for target in statement.targets] if statement is not None else []
    return any(ast.unparse(part) in targets for part in ast.walk(value.found.node) if isinstance(part, ast.Attribute))


def read_made_text(program: Program, values: Sequence[MadeValue]) -> str:
    """Read the text that a field surely has once its object is made; "" if the source does not show it."""
    text = ""
    for value in values:
        if value.is_sure or value is values[0]:
            node, at = value.found.node, value.found.at
            if value.maker is not None and reads_itself(program, value):
                node = TextPutter(list_positional(value.maker)[0], text).visit(deepcopy(node))
            read = "".join(find_strings(program, node, at).values[:1])
            text = text + read if value.is_added else read
    return text


class TextPutter(ast.NodeTransformer):
    """Puts a text in the place of each attribute of an object; the only one that is read is that which is assigned."""

    def __init__(self, me: str, text: str) -> None:
        self.me, self.text = me, text

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Put the text there."""
        is_own = isinstance(node.value, ast.Name) and node.value.id == self.me
        return ast.copy_location(ast.Constant(self.text), node) if is_own else node


def _list_parts(program: Program, found: Traced) -> list[Traced] | None:
    """List the elements of one list; None if it is none."""
    node = found.node
    if isinstance(node, ast.BinOp):
        return [*list_elements(program, node.left, found.at), *list_elements(program, node.right, found.at)]
    parts = [part for part in program.iterate(found) if isinstance(part, Traced)]
    if not parts and not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return None
    return [element for part in parts for element in program.trace(part.node, part.at)]
