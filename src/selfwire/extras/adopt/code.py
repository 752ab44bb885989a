"""Pieces of code that a graph reaches: what each of them refers to, asks models for, and where it may lead.

It gets functions and expressions of `graphs` and `makers`, and hands what models are asked to `texts`.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from selfwire.extras.adopt.held_texts import SCHEMAS, note_held
from selfwire.extras.adopt.kinds import AGENT_MAKERS, MODEL, NO_MODEL, find_kinds, find_strings, has_base, tell_kind
from selfwire.extras.adopt.names import (
    Argument,
    BoundMethod,
    Element,
    Imported,
    Instance,
    Outside,
    Surroundings,
    Traced,
    give_first,
    list_outer,
)
from selfwire.extras.adopt.source import NESTED, Program
from selfwire.extras.adopt.syntax import (
    NAMED,
    Function,
    get_keywords,
    get_last_name,
    is_classmethod,
    is_field,
    is_main_guard,
    is_static,
    is_super_method,
    is_text,
    list_children,
    list_items,
    list_summands,
    read_key,
)
from selfwire.extras.adopt.texts import HUBS, MAKERS, MESSAGES, PROMPTS, ROLES, Reach, TextFinder

ASKING = ("invoke", "ainvoke", "stream", "astream", "batch", "abatch", "generate", "agenerate", "predict", "apredict")
"""Methods that ask a model, an agent or a graph."""
MODEL_BASES = ("BaseChatModel", "SimpleChatModel", "BaseLLM", "LLM", "ChatOpenAI", "ChatAnthropic", "AzureChatOpenAI")
"""Base classes of a program's own models."""
ANSWERING = ("_generate", "_agenerate", "_stream", "_astream", "_call", "_acall")
"""Methods of such a model that LangChain has answer."""
DIRECT = ("completions", "responses", "messages", "models", "litellm", "ollama")
"""Owners of methods of clients that ask a model without LangChain."""
DIRECT_ASKING = ("create", "parse", "completion", "acompletion", "chat", "generate_content", "responses", "stream")
ASKED = ("messages", "input", "prompt", "system", "instructions", "contents")
NO_MODELS = ("graph", "agent", "tool", "tools", "retriever", "outside")
UNLIKELY = ("retriev", "search", "store", "db", "client", "memory", "cache", "session", "http", "tool", "graph", "app")
"""Parts of names of what is no model, where nothing else tells it."""
PROMPT_KEYWORDS = (
    "prompt",
    "system_prompt",
    "summary_prompt",
    "state_modifier",
    "messages_modifier",
    "system_message",
    "instructions",
    "tool_description",
    "initial_summary_prompt",
    "existing_summary_prompt",
    "final_prompt",
)
"""Keywords of other packages' functions whose values are texts for a model."""
OFFERED = ("tools", "schemas")
"""Keywords of other packages' functions whose values are tools for a model."""


@dataclass(eq=False)
class Code:
    """A piece of code: a function, or an expression outside functions.

    Attributes:
        roots: its statements or expression.
        at: where its names are looked up.
        refers: pieces of code that it refers to.
        graphs: graphs and agents that it asks, each with the call.
        jumps: its calls of `Command`, `Send` and `interrupt`.
        is_setup: whether it only runs where an object is made.
    """

    roots: list[Any]
    at: Surroundings
    owner: Any = None
    refers: list["Code"] = field(default_factory=list)
    graphs: list[tuple[Traced, Traced]] = field(default_factory=list)
    jumps: list[Traced] = field(default_factory=list)
    tasks: list[Traced] = field(default_factory=list)
    is_setup: bool = False

    @cached_property
    def passes(self) -> int:
        """How many of the functions here and around are followed for what a certain call passes."""
        return sum(bool(here.given) for here in list_outer(self.at))

    @property
    def is_init(self) -> bool:
        """Whether it is the method that makes an object."""
        return getattr(self.owner, "name", "") == "__init__"

    def list_reached(self, enters_init: bool = True) -> list["Code"]:
        """List this piece of code and all that it refers to, directly or not."""
        found: dict[Code, None] = {}
        pending = [self]
        while pending:
            code = pending.pop()
            if code not in found:
                found[code] = None
                pending += code.refers if enters_init or not code.is_init else ()
        return list(found)


class CodeReader:
    """Reads the pieces of code that a graph reaches.

    Args:
        program: whose code is read.
        makers: reads agents, models, tools and schemas where a piece of code makes or names them.
    """

    def __init__(self, program: Program, makers: Any) -> None:
        self.program, self.makers = program, makers
        self.codes: dict[Any, Code] = {}
        self.by_owner: dict[Any, Code] = {}
        self.pending: list[Code] = []
        self.asked: list[tuple[Any, Surroundings, Reach]] = []
        self.returned: list[tuple[Traced, Code]] = []
        self.texts = TextFinder(program, self.find_code, self.is_reply)

    # pieces

    def get_code(self, owner: Any, at: Surroundings, me: Traced | None = None) -> Code:
        """The piece of code of a function or an expression; it is read later.

        Args:
            me: the object whose method the function is, if it is known.
        """
        return self._get_inner_code(owner, at, self._enter_method(owner, at, me) if me is not None else None)

    def get_partial_code(self, found: Traced, call: ast.Call, at: Surroundings) -> Code:
        """The piece of code of a function or a method with the arguments that `partial(function, ...)` passes."""
        inside = self.program.enter_partial(found, call, at)
        if inside is None:
            return self.get_found_code(found)
        return self._get_inner_code(inside.owner, found.at, inside)

    def get_called_code(self, found: Traced, call: ast.Call, at: Surroundings) -> Code:
        """The piece of code of a function or method with what a call passes, such as one in a round of a loop."""
        if not isinstance(found.node, BoundMethod):
            return self._get_inner_code(found.node, found.at, self.program.enter_called(found, call, at))
        function, owner = found.node
        me = {} if is_static(function) else give_first(function, owner)
        inside = self.program.enter_called(Traced(function, found.at), call, at, skip_first=bool(me))
        if inside is None:
            return self.get_found_code(found)
        inside = Surroundings(found.at.file, function, found.at, {**inside.given, **me})
        return self._get_inner_code(function, found.at, inside if inside.depth <= NESTED else None)

    def _get_inner_code(self, owner: Any, at: Surroundings, inside: Surroundings | None) -> Code:
        key = (owner, inside.key if inside else at.key)
        if key not in self.codes:
            if isinstance(owner, Function):
                body = [owner.body] if isinstance(owner, ast.Lambda) else [*owner.body]
                code = Code(body, inside or self.program.enter(owner, at), owner)
            else:
                code = Code([owner], at, owner)
            self.codes[key] = code
            code.refers += self._list_wrappers(owner, at)
            self.by_owner.setdefault(owner, code)
            self.pending.append(code)
        return self.codes[key]

    def get_found_code(self, found: Traced) -> Code:
        """The piece of code of a function, a method of an object, or an expression."""
        if isinstance(found.node, BoundMethod):
            return self.get_code(found.node.function, found.at, found.node.owner)
        return self.get_code(found.node, found.at)

    def _enter_method(self, function: Any, at: Surroundings, me: Traced) -> Surroundings | None:
        """Return the surroundings inside a method of an object that a certain call has made; None for any other."""
        if not isinstance(me.node, Instance) or me.node.call is None or is_static(function):
            return None
        if function.name == "__init__":
            return self.program.enter_init(me, function)
        inside = Surroundings(at.file, function, at, give_first(function, me))
        return inside if inside.depth <= NESTED else None

    def _list_wrappers(self, function: Any, at: Surroundings) -> Iterator[Code]:
        """List the pieces of code of a function's own decorators, and of what they make of this function."""
        for decorator in getattr(function, "decorator_list", ()):
            is_made = isinstance(decorator, ast.Call)
            for found in self.program.trace(decorator.func if is_made else decorator, at):
                if isinstance(found.node, ast.ClassDef):
                    for made in self.program.list_decorated(decorator, at, Traced(function, at)):
                        yield from self._list_called(made)
                if not isinstance(found.node, ast.FunctionDef):
                    continue
                yield self.get_code(decorator, at)
                around = self.program.enter(found.node, found.at) if is_made else found.at
                inner = [part for part in found.node.body if isinstance(part, ast.FunctionDef)]
                for part in inner if is_made else [found.node]:
                    inside = dict(self.program.list_decorations(self.program.enter(part, around))).get(function)
                    yield from [self._get_inner_code(part, around, inside)] if inside is not None else []

    def _list_called(self, made: Traced) -> Iterator[Code]:
        """List the pieces of code that run where an object, or a function that a decorator has made, is called."""
        members = self.program.get_member(made, "__call__") if isinstance(made.node, Instance) else [made]
        yield from (
            self.get_found_code(member) for member in members if isinstance(member.node, Function | BoundMethod)
        )

    def add_code(self, code: Code, at: Surroundings) -> None:
        """Make a piece of code known."""
        self.codes[code.owner, at.key] = code
        self.by_owner.setdefault(code.owner, code)

    def find_code(self, node: Any) -> Code | None:
        """Find the piece of code in which a node stands."""
        while node is not None:
            if node in self.by_owner:
                return self.by_owner[node]
            node = self.program.parents.get(node)
        return None

    def read_pending(self) -> None:
        """Read all pieces of code that are known, and those that they refer to."""
        while self.pending:
            self._read(self.pending.pop())

    def follow_texts(
        self, users: Mapping[Code, Sequence[str]], own: Collection[Code], entries: Collection[Any]
    ) -> None:
        """Follow what models are asked to the texts in the source.

        Args:
            users: nodes, agents and tools by the pieces of code that they use.
            own: pieces of code that tell who uses a text; others do so for a text that is found by them alone.
            entries: functions of nodes, routers and tools.
        """
        self.program.live = {code.owner for code in self.codes.values() if isinstance(code.owner, Function)}
        self.program.traced.clear()  # arguments of calls that nothing reaches are left out from now on
        all_users = dict[Any, frozenset[str]]()
        for code, labels in users.items():  # a call in a loop is a piece of code for each round
            all_users[code.owner] = all_users.get(code.owner, frozenset()) | frozenset(labels)
        self.texts.users, self.texts.entries = all_users, entries
        for found, code in self.returned:
            if code.owner in entries:
                self._read_object(found, code)
        for is_first in (True, False):
            self.texts.told = set() if is_first else set(self.texts.drafts)
            for node, at, reach in self.asked:
                if (reach.unit is None or reach.unit in own) is is_first:
                    whole = frozenset(users.get(reach.unit, ()))
                    for inside, callers in self._list_callers(at, whole):
                        self.texts.follow_asked(node, inside, reach._replace(users=callers))
            self.texts.add_written()
        note_held(self.texts)

    def _list_callers(
        self, at: Surroundings, users: frozenset[str], depth: int = 0
    ) -> list[tuple[Surroundings, frozenset[str]]]:
        """List the surroundings inside a function for each call of it, with those of its users who make the call.

        They are told apart only where the calls of all users are known.
        """
        function, outer, known = at.owner, at.outer, list[tuple[Surroundings, frozenset[str]]]()
        is_shared = len(users) > 1 and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not at.given
        if not is_shared or outer is None or depth == NESTED:
            return [(at, users)]
        for call in filter(self.program.is_live, self.program.calls.get(function.name, ())):
            unit = self.find_code(call.node)
            labels = users & self.texts.users.get(unit.owner, frozenset()) if unit is not None else frozenset()
            called = self.program.find_called(function, call.node, call.at) if labels else []
            if called:
                skipped = isinstance(called[0].node, BoundMethod) and not is_static(function)
                for where, who in self._list_callers(call.at, labels, depth + 1):
                    own = Traced(function, outer)
                    inside = self.program.enter_called(own, call.node, where, skip_first=skipped)
                    known.append((inside or at, who))
        return known if users == frozenset().union(*(who for _, who in known)) else [(at, users)]

    def ask(self, node: Any, at: Surroundings, unit: Any, **more: Any) -> None:
        """Note an expression that reaches a model."""
        self.asked.append((node, at, Reach(unit, **more)))

    def _read(self, code: Code) -> None:
        for node, at in walk_code(code, self.program):
            if isinstance(node, ast.Call):
                self._read_call(node, at, code)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in PROMPT_KEYWORDS:
                self._read_set(node, at, code)
            elif isinstance(node, NAMED) and isinstance(node.ctx, ast.Load):
                if is_filled(node, self.program.parents.get(node)):
                    continue
                for found in self.list_referred(node, at):
                    self._refer_name(found, node, at, code)
            elif isinstance(node, ast.Dict):
                self._read_dict(node, at, code)
            elif isinstance(node, ast.BinOp):
                self._read_sum(node, at, code)
                self._read_piped(node, at, code)
            elif isinstance(node, ast.Return):
                self._read_return(node, at, code)

    def _refer_name(self, found: Traced, node: ast.Name | ast.Attribute, at: Surroundings, code: Code) -> None:
        """Note that a piece of code names a definition, with what is passed to it where that is known."""
        parent = self.program.parents.get(node)
        if isinstance(found.node, ast.Dict | ast.DictComp) and is_iterated(node, parent):
            return
        if isinstance(found.node, ast.ClassDef) and isinstance(parent, ast.Attribute):
            members = [member.node for member in self.program.get_member(found, parent.attr)]
            if members and not any(
                isinstance(member, BoundMethod) and is_classmethod(member.function) for member in members
            ):
                return  # no object is made of it here
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if is_partial(parent, node) and isinstance(found.node, ast.FunctionDef | ast.AsyncFunctionDef | BoundMethod):
            code.refers.append(self.get_partial_code(found, parent, at))
        elif self._is_own(call, at, code) and isinstance(found.node, ast.FunctionDef | BoundMethod):
            code.refers.append(self.get_called_code(found, call, at))
        elif isinstance(found.node, ast.ClassDef) and call is not None:
            self._refer_class(found, code, Traced(Instance(found.node, call, at), found.at))
        else:
            self.refer(found, code)

    def _is_own(self, call: ast.Call | None, at: Surroundings, code: Code) -> TypeGuard[ast.Call]:
        """Whether a call is all of a piece of code, and passes nothing that callers of a function around it pass."""
        is_inner = isinstance(code.owner, ast.Lambda) or (code.at.outer and isinstance(code.at.outer.owner, Function))
        is_round = is_inner and code.passes  # a function that a round of a loop makes
        if call is None or not (is_round or call is code.owner):
            return False
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        found = [found.node for part in given for found in self.program.trace(part, at)]
        others = [node for node in found if not isinstance(node, Argument) or node.function is not code.owner]
        return bool(others or not is_round) and not any(isinstance(node, Argument) for node in others)

    def list_referred(self, node: ast.Name | ast.Attribute, at: Surroundings) -> Iterator[Traced]:
        """List what a name or an attribute is bound to."""
        if isinstance(node, ast.Name):
            yield from self.program.look_up(node.id, at)
        else:
            for base in self.program.trace(node.value, at):
                yield from self.program.get_member(base, node.attr)

    def refer(self, found: Traced, code: Code) -> None:
        """Note that a piece of code refers to a definition or to an expression elsewhere."""
        node, at = found.node, found.at
        if isinstance(node, BoundMethod):
            if not self.makers.note_function(Traced(node.function, at), code):
                code.refers.append(self.get_found_code(found))
            return
        if isinstance(node, Instance | Imported | Argument) or not isinstance(node, ast.AST | Element):
            return
        if isinstance(node, ast.ClassDef):
            self._refer_class(found, code, None)
            return
        if isinstance(node, Element):
            node = node.source
        is_here = not isinstance(node, Function) and self.program.is_inside(node, code.owner)
        if is_here or self._is_asked_elsewhere(node, at):
            return
        if isinstance(node, Function):
            is_read = self.makers.note_function(Traced(node, at), code)
        else:
            kinds = (*find_kinds(self.program, node, at), *tell_kind(self.program, Traced(node, at)))
            is_read = any(kind == "graph" for kind, _ in kinds)
        code.refers += [] if is_read else [self.get_code(node, at)]

    def _is_asked_elsewhere(self, node: Any, at: Surroundings) -> bool:
        """Whether an expression is the reply for which another function has asked a model."""
        asked = node.value if isinstance(node, ast.Await) else node
        return isinstance(asked, ast.Call) and isinstance(at.owner, Function) and self.is_reply(asked, at)

    def _refer_class(self, found: Traced, code: Code, made: Traced | None) -> None:
        """Note that a piece of code makes an object of a class, or names the class."""
        inside = self.program.enter(found.node, found.at)
        for name in ("__init__", "__call__", "__post_init__"):
            for method in inside.names.bound.get(name, ()):
                if isinstance(method, Function):
                    code.refers.append(self.get_code(method, inside, made))
        if has_base(self.program, found, MODEL_BASES):
            me = made or Traced(Instance(found.node, None), found.at)
            members = (member for name in ANSWERING for member in self.program.get_member(me, name))
            code.refers += [self.get_found_code(member) for member in members if isinstance(member.node, BoundMethod)]

    # what a piece of code does

    def _read_call(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        name = get_last_name(node.func)
        if name in ("Command", "Send", "interrupt"):
            code.jumps.append(Traced(node, at))
        if name in CALLS:
            CALLS[name](self, node, at, code)
        elif MODEL.fullmatch(name) and not NO_MODEL.fullmatch(name):
            self.makers.read_model(Traced(node, at))
        elif self._is_direct(node, at):
            self._read_direct(node, at, code)
        elif name in ASKING and isinstance(node.func, ast.Attribute):
            self._read_asking(node, at, code)
        self._read_handed(node, at, code)
        if name not in AGENT_MAKERS:
            self._read_keywords(node, at, code)

    def _read_hub(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read a prompt that is pulled from a hub, which the source does not show."""
        if all(found.node is node for found in self.program.trace(node, at)):  # else it is the program's own
            self.texts.follow_asked(node, at, Reach(code, role="system"))

    def _read_agent(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        for inner in self.program.list_rounds_around(node, at):
            if agent := self.makers.read_agent(Traced(node, inner)):
                code.refers.append(agent.code)

    def _read_parser(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read the schema that `parser.get_format_instructions()` or `Schema.model_json_schema()` writes."""
        for found in self.program.trace(node.func.value, at) if isinstance(node.func, ast.Attribute) else ():
            if isinstance(found.node, ast.ClassDef):
                self.makers.read_schema(found, code)
            elif isinstance(found.node, ast.Call) and get_last_name(found.node.func).endswith("OutputParser"):
                self.makers.read_bound(found.node, found.at, code)

    def _read_sum(self, node: ast.BinOp, at: Surroundings, code: Code) -> None:
        """Read the text that is added to a message or a prompt template, as in `prompt + "Be brief."`."""
        first: ast.expr = node
        while isinstance(first, ast.Subscript) or (isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add)):
            first = first.value if isinstance(first, ast.Subscript) else first.left
        made = {get_last_name(getattr(found.node, "func", None)) for found in self.program.trace(first, at)}
        if isinstance(node.right, ast.Constant | ast.JoinedStr | ast.Tuple | ast.List) and made & {
            *MESSAGES,
            *PROMPTS,
            *MAKERS,
        }:
            self.ask(node.right, at, code, role="user", mode="format")

    def _read_piped(self, node: ast.BinOp, at: Surroundings, code: Code) -> None:
        """Read the graphs of a chain, and what a function or a dict hands to the prompt or the model behind it."""
        for part in (node.left, node.right) if isinstance(node.op, ast.BitOr) else ():
            if any(kind in ("graph", "agent") for kind, _ in find_kinds(self.program, part, at)):
                asking = ast.copy_location(ast.Attribute(part, "invoke", ast.Load()), node)
                self._read_asking(ast.copy_location(ast.Call(asking, [], []), node), at, code)
        behind = self.program.trace(node.right, at) if isinstance(node.op, ast.BitOr) else ()
        firsts = ((first, right.at) for right in behind for first in list_summands(right.node)[:1])  # of prompts
        kinds = {kind for first in firsts for kind, _ in find_kinds(self.program, *first)}
        if {"model", "prompt"} & kinds:
            for found in self._list_last(node.left, at):
                if "model" in kinds and isinstance(found.node, Function):
                    self.ask(found.node, found.at, code, role="user")
                elif "model" not in kinds and isinstance(found.node, Function | ast.Dict | ast.Call):
                    self._read_filling(found, Traced(node.right, at), code)

    def _list_last(self, node: ast.expr, at: Surroundings) -> Iterator[Traced]:
        """List what stands at the end of a chain, without `RunnableLambda` around it."""
        for found in self.program.trace(node, at):
            is_piped = isinstance(found.node, ast.BinOp) and isinstance(found.node.op, ast.BitOr)
            last = found.node.right if is_piped else None
            if isinstance(found.node, ast.Call) and get_last_name(found.node.func) == "RunnableLambda":
                last = next(iter(found.node.args), None)
            yield from [found] if last in (None, node) else self._list_last(last, found.at)

    def _read_filling(self, filling: Traced, prompt: Traced, code: Code) -> None:
        """Read what a dict, or a function that returns one, fills into the holes of a prompt."""
        holes = self.texts.list_holes(*prompt[:2])
        made, parts = filling.node, [filling]
        if isinstance(made, Function):
            parts = [*self.program.list_returned(made, filling.at, {}, None, None)]
        elif isinstance(made, ast.Call) and get_last_name(made.func) in ("RunnableParallel", "assign"):
            named = self.texts.list_filled_keywords(made.keywords, filling.at, holes)
            parts = [*(filling._replace(node=part) for part in made.args[:1]), *named]
        elif isinstance(made, ast.Call):
            return
        for value in (value for part in parts for value in self.texts.list_filled(*part[:2], holes)):
            self.ask(*value[:2], code, whole=False)

    def _read_assigned(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read what the functions in `RunnablePassthrough.assign(hole=function)` fill into a prompt."""
        for keyword in node.keywords:
            for found in self.program.trace(keyword.value, at):
                if any(kind == "function" for kind, _ in tell_kind(self.program, found)):
                    self.ask(*found[:2], code)

    def _read_message(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read a message, or a prompt template; in a model of the program it depends on who sends it."""
        if node in self.replies:
            return
        of = code.at.outer
        is_method = of is not None and isinstance(of.owner, ast.ClassDef) and of.outer is not None
        is_own = is_method and has_base(self.program, Traced(of.owner, of.outer), MODEL_BASES)  # type: ignore[union-attr, arg-type]
        self.ask(node, at, code, via="message" if is_own else "model")

    @cached_property
    def replies(self) -> set[Any]:
        """Messages that models of the program reply, as in `ChatGeneration(message=AIMessage(text))`."""
        calls = self.program.calls.get("ChatGeneration", ())
        given = [(get_keywords(call.node).get("message"), call.at) for call in calls]
        return {found.node for message, at in given if message is not None for found in self.program.trace(message, at)}

    def _read_above(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read what a model of the program hands to the class above it, behind where a layer sees what is asked."""
        if is_super_method(node):
            for part in node.args[:1]:
                self.ask(part, at, code, via="client")

    def _read_config(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        if isinstance(node.func, ast.Attribute):
            self.makers.read_model_config(node, at)

    def _read_bound(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        self.makers.read_bound(node, at, code)

    def _read_partial(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read the values of `prompt.partial(hole=value)`."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if owner is not None and any(kind == "prompt" for kind, _ in find_kinds(self.program, owner, at)):
            for keyword in node.keywords:
                self.ask(keyword.value, at, code, whole=False)

    def _read_appended(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read the messages of `prompt.append(message)`, and of `request.messages.append(("user", text))`."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_prompt = owner is not None and any(kind == "prompt" for kind, _ in find_kinds(self.program, owner, at))
        is_field = isinstance(owner, ast.Attribute) and owner.attr == "messages"
        for part in node.args[:1]:  # of a field, objects are read where they are made
            if is_prompt or (is_field and isinstance(part, ast.Tuple | ast.Dict | ast.List)):
                self.ask(part, at, code, mode="format" if is_prompt else "")

    def _read_keywords(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read keywords such as `prompt=` and `tools=` of functions that are not the program's own."""
        offered = OFFERED if get_last_name(node.func) not in CALLS else ()
        named = [keyword for keyword in node.keywords if keyword.arg in (*PROMPT_KEYWORDS, *offered)]
        called = [found.node for found in self.program.trace(node.func, at)] if named else []
        if not any(isinstance(node, Function | BoundMethod | ast.ClassDef) for node in called):
            for keyword in named:
                if keyword.arg in offered:
                    if any(isinstance(node, Outside) for node in called):
                        self.makers.read_tools(keyword.value, at, code)
                    continue
                is_tool = keyword.arg == "tool_description"
                mode = "format" if str(keyword.arg).endswith("summary_prompt") else ""
                role, kind = ("schema", "tool description") if is_tool else ("system", "")
                self.ask(keyword.value, at, code, role=role, mode=mode, kind=kind)

    def _read_set(self, node: ast.Attribute, at: Surroundings, code: Code) -> None:
        """Read what is assigned to `request.system_prompt` and its like, but not to an object of the program."""
        set_by, owners = self.program.parents.get(node), self.program.trace(node.value, at)
        if isinstance(set_by, ast.Assign | ast.AugAssign) and not any(isinstance(o.node, Instance) for o in owners):
            self.ask(set_by.value, at, code, role="system")

    def _is_direct(self, node: ast.Call, at: Surroundings) -> bool:
        """Whether a call is that of a client, such as `client.chat.completions.create(...)` or litellm's function."""
        func = node.func
        if isinstance(func, ast.Attribute):
            is_named = any(keyword.arg in (None, *ASKED) for keyword in node.keywords)
            is_asking = is_named or len(node.args) > 1  # `ollama.chat("llama3", messages)`, not `self.models.chat()`
            return is_asking and func.attr in DIRECT_ASKING and get_last_name(func.value) in DIRECT
        names = [found.node.name for found in self.program.trace(func, at) if isinstance(found.node, Outside)]
        parts = [name.split(".")[-2:] for name in names]
        return any(len(part) == 2 and part[0] in DIRECT and part[1] in DIRECT_ASKING for part in parts)

    def _read_direct(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        self.makers.read_model(Traced(node, at))
        for keyword in node.keywords:
            if keyword.arg in ASKED:
                role = "system" if keyword.arg in ("system", "instructions") else ""
                self.ask(keyword.value, at, code, role=role, via="client")

    def _read_posted(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read what is posted to a model's server, as in `httpx.post(url, json={"model": name, "system": text})`."""
        body = get_keywords(node).get("json")
        pairs = [pair for found in self.program.trace(body, at) for pair in self.program.list_pairs(found)]
        if body is None or not {"model", "contents"} & {read_key(key.node) for key, _ in pairs}:
            return
        for key in (*ASKED, "system_instruction", "systemInstruction"):  # also one that is put into the body later
            part = ast.copy_location(ast.Subscript(body, ast.Constant(key), ast.Load()), body)
            role = "system" if key == "instructions" or key.startswith("system") else "user"
            self.ask(part, at, code, role=role, via="client")

    def _read_asking(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        assert isinstance(node.func, ast.Attribute)
        given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in ("input", "messages"))]
        found = list(find_kinds(self.program, node.func.value, at))
        kinds = {kind for kind, _ in found}
        if kinds & {"graph", "agent"}:
            code.graphs += [(value, Traced(node, at)) for kind, value in found if kind in ("graph", "agent")]
            for part in given:
                self._read_input(part, at, code)
        elif kinds and kinds <= set(NO_MODELS):
            self._note_foreign(node.func, at)
        elif kinds & {"model", "chain", "prompt"} or not self._is_unlikely(node.func.value):
            is_filled = bool(kinds & {"chain", "prompt"})
            holes = self.texts.list_holes(node.func.value, at) if is_filled else set[str]()
            for value in (value for part in given for value in self.texts.list_filled(part, at, holes)):
                self.ask(*value[:2], code, role="" if is_filled else "user", whole="model" in kinds)

    def _note_foreign(self, asking: ast.Attribute, at: Surroundings) -> None:
        """Note a chain, an agent or a graph that a module of another package holds; of the classes of one, nothing."""
        if asking.attr.removeprefix("a") not in ("invoke", "stream", "batch"):
            return
        for found in self.program.trace(asking.value, at):
            name = found.node.name.rpartition(".")[2] if isinstance(found.node, Outside) else ""
            if (name.islower() or name.isupper()) and "." in found.node.name:
                self.texts.note(
                    asking,
                    at,
                    f"{found.node.name} is not in the source: what it sends to a model is not shown",
                    "if it is a part of the program, list its folder under dependencies in langgraph.json",
                )

    def _read_handed(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        """Read a method that asks a model where it is handed over, as in `to_thread(model.invoke, prompt)`."""
        for number, part in enumerate(node.args[:2], 1):
            if isinstance(part, ast.Attribute) and part.attr in ASKING and node.args[number:]:
                self._read_asking(ast.Call(part, node.args[number:], node.keywords), at, code)

    @staticmethod
    def _is_unlikely(receiver: ast.expr) -> bool:
        name = get_last_name(receiver).lower()
        return not name or any(part in name for part in UNLIKELY)

    def _read_input(self, part: ast.expr, at: Surroundings, code: Code) -> None:
        """Read what a graph or an agent is given: messages reach a model, other fields are written into its state."""
        for found in self.program.trace(part, at):
            if isinstance(found.node, ast.Dict):
                self._read_fields(self._list_fields(found), found.at, code)
            else:
                self._read_object(found, code)

    def _read_object(self, found: Traced, code: Code) -> None:
        """Read the fields of an object that is written into the state."""
        made = found.node
        if not isinstance(made, Instance) or made.call is None or made.made_in is None:
            return
        is_alone = len(self.program.list_mro(Traced(made.of, found.at))) == 1  # else fields of others come first
        fields = [part.target.id for part in made.of.body if is_field(part)] if is_alone else []  # type: ignore[attr-defined]
        passed = {name: self.program.get_passed_field(made, name) for name in [*get_keywords(made.call), *fields]}
        known = [(name, value) for name, value in passed.items() if value is not None]
        self._read_fields(known, made.made_in, code)

    def _read_update(self, node: ast.Call, at: Surroundings, code: Code) -> None:
        parts = [keyword.value for keyword in node.keywords if keyword.arg in ("update", "arg")]
        for part in [*parts, *(node.args[1:2] if get_last_name(node.func) == "Send" else [])]:
            self._read_input(part, at, code)

    def _read_return(self, node: ast.Return, at: Surroundings, code: Code) -> None:
        for found in self.program.trace(node.value, at) if node.value is not None else ():
            if isinstance(found.node, ast.Dict):
                self._read_fields(self._list_fields(found), found.at, code)
            elif isinstance(found.node, Instance):
                self.returned.append((found, code))  # it is a state only if a node returns it
            for key, value in self.program.list_pairs(found) if not isinstance(found.node, ast.Dict) else ():
                for name in find_strings(self.program, *key[:2]).values:
                    self._read_fields([(name, value.node)], value.at, code)

    def _list_fields(self, found: Traced) -> Iterator[tuple[str, ast.expr]]:
        """List the keys and values of a dict that is written into the state, a key such as `self.field` too."""
        for key, value in zip(found.node.keys, found.node.values, strict=True):
            names = find_strings(self.program, key, found.at).values if isinstance(key, ast.Attribute) else ()
            yield from ((name, value) for name in names)
        yield from list_items(found.node)

    def _read_fields(self, items: Iterable[tuple[str, ast.expr]], at: Surroundings, code: Code) -> None:
        for key, value in items:
            if key == "messages":
                self.ask(value, at, code, role="user", whole=False)
            else:
                self.texts.writes.setdefault(key, []).append(Traced(value, at))

    def _read_dict(self, node: ast.Dict, at: Surroundings, code: Code) -> None:
        named = dict(list_items(node))
        kind = named.get("type")
        if "content" in named and ("role" in named or (is_text(kind) and kind.value in ROLES)):
            self.ask(node, at, code, via="message")

    def is_reply(self, node: ast.Call, at: Surroundings) -> bool:
        """Whether a call asks a model, so that its result is no text of the program."""
        name = get_last_name(node.func)
        if self._is_direct(node, at):
            return True
        if not isinstance(node.func, ast.Attribute):
            return name == "interrupt"
        if name not in ASKING:
            return False
        kinds = find_kinds(self.program, node.func.value, at)
        return not any(kind in ("prompt", "retriever") for kind, _ in kinds)


CALLS: dict[str, Any] = {
    "Command": CodeReader._read_update,
    "Send": CodeReader._read_update,
    **dict.fromkeys(("post", "request"), CodeReader._read_posted),
    "partial": CodeReader._read_partial,
    "append": CodeReader._read_appended,
    "extend": CodeReader._read_appended,
    "with_config": CodeReader._read_config,
    "model_copy": CodeReader._read_config,
    **dict.fromkeys(SCHEMAS, CodeReader._read_parser),
    "assign": CodeReader._read_assigned,
    **dict.fromkeys(HUBS, CodeReader._read_hub),
    **dict.fromkeys(ANSWERING, CodeReader._read_above),
    **dict.fromkeys(AGENT_MAKERS, CodeReader._read_agent),
    **dict.fromkeys((name for name in MESSAGES if not name.endswith("Template")), CodeReader._read_message),
    **dict.fromkeys((*PROMPTS, *MAKERS), CodeReader._read_message),
    **dict.fromkeys(("bind", "bind_tools", "ToolNode", "with_structured_output"), CodeReader._read_bound),
}
"""How a call is read, by the name of what it calls."""


def is_partial(call: Any, function: ast.expr) -> TypeGuard[ast.Call]:
    """Whether a call is `partial(function, ...)`."""
    is_first = isinstance(call, ast.Call) and call.args[:1] == [function]
    return is_first and get_last_name(call.func) == "partial"


def is_filled(node: ast.expr, parent: ast.AST | None) -> bool:
    """Whether an expression is a collection that something is put into, as `NODES[name] = node`; it is not read."""
    if isinstance(parent, ast.Subscript):
        return parent.value is node and isinstance(parent.ctx, ast.Store)
    return isinstance(parent, ast.Attribute) and parent.attr in ("append", "add", "insert", "setdefault")


def is_iterated(node: ast.expr, parent: ast.AST | None) -> bool:
    """Whether an expression is iterated over or asked for what it has; of a dict, only the keys are read then."""
    if isinstance(parent, ast.Call):
        return node in parent.args and get_last_name(parent.func) in ("join", "list", "sorted", "tuple", "set", "len")
    if isinstance(parent, ast.Compare):
        return node in parent.comparators and isinstance(parent.ops[0], ast.In | ast.NotIn)
    return isinstance(parent, ast.For | ast.comprehension) and parent.iter is node


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def walk_code(code: Code, program: Program) -> Iterator[tuple[ast.AST, Surroundings]]:
    """Iterate over the nodes of a piece of code with their surroundings; functions inside are pieces of their own."""
    pending: list[tuple[Any, Surroundings]] = [(root, code.at) for root in reversed(code.roots)]
    while pending:
        node, at = pending.pop()
        if isinstance(node, DEFINITIONS):
            continue
        if isinstance(node, ast.If) and is_main_guard(node):
            continue
        if isinstance(node, ast.stmt) and not program.is_reached(node, at):
            continue
        yield node, at
        inner = program.enter(node, at) if isinstance(node, ast.Lambda) else at
        skipped = getattr(node, "annotation", None)
        pending += [(child, inner) for child in reversed(list_children(node)) if child is not skipped]
