"""Texts that can reach a model: followed from where a model is asked back to the literals in the source."""

import ast
import inspect
import re
import string
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.extras.adopt import prompt_files
from selfwire.extras.adopt.kinds import find_kinds, has_base, is_environment
from selfwire.extras.adopt.names import Argument, BoundMethod, Element, Instance, Outside, Surroundings, Traced
from selfwire.extras.adopt.prompt_files import FileText
from selfwire.extras.adopt.source import OPENERS, Program, end_circles
from selfwire.extras.adopt.syntax import (
    LISTS,
    VIEWS,
    Function,
    get_keywords,
    get_last_name,
    is_complete,
    is_static,
    is_text,
    list_decorators,
    list_items,
    list_positional,
    list_summands,
    read_key,
)

WIDTH = 100
"""Characters of a text from which on it stands between triple quotes."""
ROLES = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool result",
}
"""Names of roles in tuples and dicts of messages, and ours."""
MESSAGES = {
    "SystemMessage": "system",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "ToolMessage": "tool result",
    "FunctionMessage": "tool result",
    "ChatMessage": "",
    "SystemMessagePromptTemplate": "system",
    "HumanMessagePromptTemplate": "user",
    "AIMessagePromptTemplate": "assistant",
}
"""Classes of messages by the role of their text."""
PROMPTS = (
    "ChatPromptTemplate",
    "PromptTemplate",
    "FewShotPromptTemplate",
    "FewShotChatMessagePromptTemplate",
    "ChatMessagePromptTemplate",
)
CONTENTS = ("content", "text", "messages", "template", "value", "page_content")
"""Attributes of messages, prompts, members and documents that hold their texts."""
TAKING = ("get", "aget", "search", "asearch")
PUTTING = ("put", "aput")
"""Methods by which a LangGraph store gives items and takes them."""
SEARCHES = ("similarity_search", "asimilarity_search", "max_marginal_relevance_search", "as_retriever")
"""Methods by which a store gives documents."""
DECODERS = ("base64.", "binascii.", "bytes.", "bz2.", "codecs.", "gzip.", "lzma.", "marshal.", "pickle.", "zlib.")
LOADERS = ("json.loads", "tomllib.loads", "yaml.load", "yaml.safe_load")
"""What makes texts of constants that are written in another form."""
NETWORK = ("aiohttp.", "http.", "httpx.", "requests.", "urllib.", "urllib3.")
"""Modules that fetch what stands at an address."""
TEMPLATES = ("template", "messages", "prefix", "suffix", "prompt", "example_prompt")
"""Keywords of prompt templates that hold their texts."""
MAKERS = ("from_messages", "from_template", "from_file")
UNCHANGED = ("strip", "lstrip", "rstrip", "expandtabs", "removeprefix", "removesuffix", "center", "ljust", "rjust")
"""Methods of texts that keep their words."""
SPELLING = (*UNCHANGED, "lower", "upper", "title", "capitalize", "swapcase", "casefold")
"""Methods that spell a word in another way."""
PASSED_ON = (
    "str",
    "list",
    "tuple",
    "reversed",
    "sorted",
    "add_messages",
    "dict",
    "repr",
    "dumps",
    "dump",
    "safe_dump",
    "pformat",
    "deepcopy",
    "filter",
    "reduce",
    "gettext",
    "choice",
    "sample",
    "map",
    "RunnableLambda",
    *("set", "frozenset", "iter", "chain", "from_iterable", "islice", "deque", "min", "max"),
)
"""Functions whose result has the texts of their arguments."""
ITERATING = (*LISTS, "filter", "map", "reduce", "sample", "islice", "min", "max")
"""Functions that take the elements of a collection one by one."""
HOLDERS = {
    *MESSAGES,
    *PROMPTS,
    *MAKERS,
    *("dedent", "cleandoc", "field", "Field", "Template", "str", "cast", "dict", "getenv"),
}
"""Calls whose result still has the name of the constant or field that it is assigned to."""
HUBS = ("pull", "pull_prompt", "get_prompt", "load_prompt_from_hub")
DATABASES = ("sqlite3.", "shelve.", "dbm.")
"""Modules of Python that load what a program has saved."""
MESSAGE_MODULES = ("langchain_core.messages", "langchain.messages")
"""Modules whose functions, such as `trim_messages`, return the messages that they are given."""
FRAMEWORKS = ("langchain", "langchain_core", "langgraph", "langchain_classic", "pydantic")
LETTERS = re.compile(r"[^\W\d_]")
WORDS = re.compile(r"\w+")
PERCENT = re.compile(r"%%|%(?:\((\w+)\))?[#0\- +]*[\d*]*(?:\.\d+)?[sdrfigexXoc]")
DOLLAR = re.compile(r"\$\$|\$(?:(\w+)|\{(\w+)\})")
CURLY = re.compile(r"\{\{\{?\s*([^{}]+?)\s*\}?\}\}|\{%-?\s*(.+?)\s*-?%\}|\{(#.*?#)\}", re.DOTALL)
INCLUDED = re.compile(r"\{%-?\s*(?:include|extends|import|from)\s+['\"]([^'\"]+)")
"""Names of templates that one of Jinja's takes in."""
ESCAPES = ("%%", "$$")
HOLES = {"percent": PERCENT, "dollar": DOLLAR, "curly": CURLY}
"""Patterns of holes by how they are written; those of `format` have a parser of their own."""
GAP = "\0"
"""Stands for a hole of an f-string while its text is changed."""


DEEPEST_CUT = 8
"""Steps from a part of a file to the call that reads it after which tracing gives up."""
IsReply = Callable[[ast.Call, Surroundings], bool]
Split = tuple[tuple[str, ...], tuple[str, ...]]
"""The static pieces of a text and the holes between them."""


class Reach(NamedTuple):
    """How a text reaches a model.

    Attributes:
        unit: the piece of code that uses it.
        mode: how its holes are written: format, percent, dollar, curly; "" if it has none; `percent+format` where a
            text is filled in both ways, one after the other.
        changes: functions that change its white space, in the order of their use.
        kind: of the text; "" to tell it from the source.
        whole: whether it is a message, not a part of one.
        is_joined: whether something is added to it.
        users: nodes, agents and tools that use it.
        is_written: whether it comes by way of a field of the state.
        metadata: the key of the metadata of documents under which it stands; "" if it is no metadata.
        marks: words in it that the program replaces by something else, or patterns of them.
        via: model; client, if it is not LangChain's; message, for a literal that one of them is sent; marker, for one
            that `selfwire.text` names.
    """

    unit: Any
    role: str = ""
    mode: str = ""
    changes: tuple[str, ...] = ()
    kind: str = ""
    whole: bool = True
    is_joined: bool = False
    via: str = "model"
    marks: tuple[str | re.Pattern[str], ...] = ()
    users: frozenset[str] = frozenset()
    is_written: bool = False
    metadata: str = ""

    def fill_first(self, mode: str) -> "Reach":
        """Return the reach of a text whose holes of a kind are filled before others are."""
        modes = self.mode.split("+") if self.mode else []
        return self._replace(mode="+".join(dict.fromkeys([mode, *modes])))

    def change_first(self, changes: tuple[str, ...]) -> "Reach":
        """Return the reach of a text that is changed before; each change is made once, as twice adds nothing."""
        return self._replace(changes=(*changes, *(name for name in self.changes if name not in changes)))


@dataclass
class TextDraft:
    """A text while the program is read.

    Attributes:
        users: nodes, agents and tools that use it.
        units: pieces of code that use it, as long as their users are not known.
        is_alone: whether a class of settings, or a call of `selfwire.text`, names it, so that it may have no users.
        is_whole: whether it is a message wherever it is used, and no part of one.
    """

    path: Path
    kind: str
    name: str
    value: str
    pieces: tuple[str, ...]
    holes: tuple[str, ...]
    place: tuple[int, int, int, int]
    node: Any = None
    roles: list[str] = field(default_factory=list)
    users: frozenset[str] = frozenset()
    units: list[Any] = field(default_factory=list)
    vias: set[str] = field(default_factory=set)
    is_alone: bool = False
    is_whole: bool = True


ItemKey = tuple[str, str | None, Reach]
"""A field of the state, the key of an item of it, None for the whole, and how it reaches a model."""


class WrittenItem(NamedTuple):
    """The texts that nodes write into a field of the state, or as an item of it.

    Attributes:
        items: others that it is made of.
    """

    texts: list[tuple[TextDraft, Reach]]
    items: dict[ItemKey, None]


class TextFinder:
    """Follows expressions to the literals that they are made of.

    Attributes:
        writes: expressions that nodes write into fields of the state, by field.
        unit_of: finds the piece of code in which a call stands.
        users: nodes, agents and tools by the functions and expressions that they use, once these are known.
        told: texts whose users are all known.
        is_reply: finds whether a call asks a model, so that its result is no text of the program.
        entries: functions of nodes, routers and tools, which are given the state.
        wholes: files with front matter that the expression that is followed sends; `cut` are those that it cuts.
        items: fields of the state, and items of them, that were followed; `written` is the one that is being followed.
        grown: names to which `+=` adds, by file.
        holes: names in the holes of templates that were filled; None if there may be others than the source shows.
        left: expressions that reach a model, of which `note_held` reads what no rule finds.
        cut_files: names of the files of which code cuts texts, by the place that reads them.
        read_items: those that are read, with all who read them; `add_written` adds their texts.
    """

    def __init__(self, program: Program, unit_of: Callable[[Any], Any], is_reply: IsReply) -> None:
        self.program, self.unit_of, self.is_reply = program, unit_of, is_reply
        self.drafts: dict[tuple[Path, int, int], TextDraft] = {}
        self.opaque: dict[tuple[Path, int], tuple[Any, str, str]] = {}
        self.writes: dict[str, list[Traced]] = {}
        self.seen: set[Any] = set()
        self.users: Mapping[Any, frozenset[str]] = {}
        self.told: set[tuple[Path, int, int]] = set()
        self.entries: Collection[Any] = ()
        self.wholes: list[tuple[TextDraft, Reach]] = []
        self.cut: set[Path] = set()
        self.items: dict[ItemKey, WrittenItem] = {}
        self.read_items: dict[ItemKey, Reach] = {}
        self.grown: dict[Path, set[str]] = {}
        self.holes: dict[Any, set[str] | None] = {}
        self.written: WrittenItem | None = None
        self.left: dict[Any, Traced] = {}
        self.cut_files: dict[tuple[Path, int], set[str]] = {}

    def follow_asked(self, node: Any, at: Surroundings, reach: Reach) -> None:
        """Find the texts of what a model is asked; of a file that code may cut or not, only the part."""
        before, self.wholes, self.cut = (self.wholes, self.cut), [], set()
        if reach.users or reach.unit is None:
            self.left.setdefault((node, at.key), Traced(node, at))
        self.follow(node, at, reach)
        for draft, own in self.wholes:
            if draft.path not in self.cut:
                self._add(draft, own)
        self.wholes, self.cut = before

    def follow(self, node: Any, at: Surroundings, reach: Reach) -> None:
        """Find the texts that an expression is made of."""
        key = (node, at.key, reach)
        if key in self.seen:
            return
        self.seen.add(key)
        handler = HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node, at, reach)
        elif type(node) in OPENERS:
            self._follow_traced(node, at, reach)

    def _follow_traced(self, node: Any, at: Surroundings, reach: Reach) -> None:
        for found in self.program.trace(node, at):
            if found.node is node:
                self._follow_unknown(node, at, reach)
            elif isinstance(found.node, Outside):
                self._note_opaque(node, at, reach, found.node.name)
            elif not isinstance(found.node, Argument):
                is_docstring = isinstance(self.program.parents.get(found.node), ast.Expr)
                is_cleaned = is_docstring and getattr(node, "attr", "") == "description"  # of a tool
                passed = self._pass_on(reach, found.call)
                self.follow(found.node, found.at, passed.change_first(("cleandoc",)) if is_cleaned else passed)
        if isinstance(node, ast.Attribute):
            self._follow_field(node.value, node.attr, at, reach)

    def _pass_on(self, reach: Reach, call: Any) -> Reach:
        """The reach of what a call passes: of those who use it, the ones that use the code of the call too."""
        unit = self.unit_of(call) if call is not None else None
        if unit is None or self._is_task(call, unit.at):  # which is a node of its own
            return reach
        calling = self.users.get(unit.owner, frozenset())
        # a tool may name a constant that it does not send, and what a node writes into the state is sent by others
        stays = reach.is_written or any(
            all(part.startswith("tool ") for part in side) for side in (calling, reach.users)
        )
        return reach._replace(unit=unit, users=(reach.users & calling) or ((stays and reach.users) or calling))

    def _is_task(self, call: Any, at: Surroundings) -> bool:
        """Whether a call is that of a function with `@task`."""
        called = self.program.trace(call.func, at) if isinstance(call, ast.Call) else ()
        return any("task" in list_decorators(found.node) for found in called)

    def _follow_unknown(self, node: Any, at: Surroundings, reach: Reach) -> None:
        """Follow an attribute or item of something that the source does not show, such as a field of the state."""
        if self._follow_bodies(node, at, reach):
            return
        if isinstance(node, ast.Subscript) and self._follow_item(node, at, reach):
            return
        if any(
            follow(node, at, reach) for follow in (self._follow_element, self._follow_metadata, self._follow_contents)
        ):
            return
        self._note_cut_files(node, at)
        taken_from = self.program.trace(node.source, at) if isinstance(node, Element) else []
        known = next((found.node.name for found in taken_from if isinstance(found.node, Outside)), "")
        self._note_opaque(node.source if isinstance(node, Element) else node, at, reach, known)

    def _follow_element(self, node: Any, at: Surroundings, reach: Reach) -> bool:
        """Follow what a loop, an index or a slice takes from a field of the state; whether it is such."""
        taken = find_collection(node)
        found = self.program.trace(taken, at) if isinstance(taken, ast.Name) else [Traced(taken, at)]
        fields = [(find_collection(part.node) or part.node, part.at) for part in found]
        for value, inner in fields:
            if not self.read_field(value, inner):
                is_part = isinstance(node, Element) and isinstance(value, ast.Subscript | ast.Attribute)
                if not is_part or any(isinstance(part.node, Outside) for part in self.program.trace(value, inner)):
                    return False
        for value, inner in fields:
            self.follow(value, inner, reach._replace(whole=False))
        return bool(fields)

    def _follow_contents(self, node: Any, at: Surroundings, reach: Reach) -> bool:
        """Follow the text of a message, a prompt, a member or a document; whether it is one."""
        if not isinstance(node, ast.Attribute) or node.attr not in CONTENTS:
            return False
        for base in self.program.trace(node.value, at):
            if isinstance(base.node, Element | ast.Subscript) and node.attr == "page_content":
                self._follow_searched(base, reach)
            elif isinstance(base.node, ast.Call) and not self.is_reply(base.node, base.at):
                self.follow(base.node, base.at, reach)
            elif node.attr == "value":
                self.follow(base.node, base.at, reach)
        return True

    def _follow_metadata(self, node: Any, at: Surroundings, reach: Reach) -> bool:
        """Follow `document.metadata["key"]`, or its `get`, of a document that a store gives; whether it is such."""
        owner, key = (node.value, node.slice) if isinstance(node, ast.Subscript) else (None, None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner, key = node.func.value, node.args[0]
        if not isinstance(owner, ast.Attribute) or owner.attr != "metadata" or not is_text(key):
            return False
        for base in self.program.trace(owner.value, at):
            if isinstance(base.node, Element | ast.Subscript):
                self._follow_searched(base, reach._replace(metadata=key.value))
        return True

    def _follow_searched(self, document: Traced, reach: Reach) -> None:
        """Follow what gives a document that is an element of others."""
        source = document.node.source if isinstance(document.node, Element) else document.node.value
        self.follow(source, document.at, reach._replace(whole=False))

    def _follow_item(self, node: ast.Subscript, at: Surroundings, reach: Reach) -> bool:
        """Follow an item of the state, or of a file of keys; returns whether it is one of a file."""
        if is_text(node.slice):
            self._follow_field(node.value, node.slice.value, at, reach)
            self._follow_written_item(node.value, node.slice.value, at, reach)
        elif isinstance(node.slice, ast.Name) and isinstance(node.value, ast.Name):  # the variable of a loop
            for name in self.program.read_strings(node.slice, at):
                self._follow_field(node.value, name, at, reach)
        if self._follow_file_keys(node, at, reach):
            return True
        self._follow_stored(node, at, reach)
        return False

    def _follow_written_item(self, owner: ast.expr, key: str, at: Surroundings, reach: Reach) -> None:
        """Follow `state["field"]["key"]`, or `.get("key")` of a field, to the items that nodes write into the field."""
        if name := self.read_field(owner, at):
            self._note_read(name, key, reach)

    def read_field(self, node: Any, at: Surroundings) -> str:
        """Read the name of the field of the state that an expression is, as `state["notes"]`; "" for another."""
        owner, key = getattr(node, "value", None), getattr(node, "slice", None)
        if isinstance(node, ast.Call) and get_last_name(node.func) == "get" and node.args:
            owner, key = getattr(node.func, "value", None), node.args[0]
        name = node.attr if isinstance(node, ast.Attribute) else key.value if is_text(key) else ""
        is_field = name in self.writes and isinstance(owner, ast.expr) and self.is_state(owner, at)
        return name if is_field else ""

    def _note_read(self, name: str, key: str | None, reach: Reach) -> None:
        """Note that a field of the state, or an item of it, is read."""
        item = (name, key, reach._replace(whole=False, kind="", is_written=True, unit=None, users=frozenset()))
        if self.written is not None:
            self.written.items[item] = None
        else:
            known = self.read_items.setdefault(item, reach)
            self.read_items[item] = known._replace(users=known.users | reach.users)

    def add_written(self) -> None:
        """Add what nodes write into fields of the state, with all who read it, by way of other fields too."""
        readers, self.read_items = self.read_items, {}
        order, is_changed = self._order_items(readers), True
        while is_changed:
            is_changed = False
            for item in order:
                for inner in self.items[item].items:
                    known = readers.setdefault(inner, readers[item])
                    if not readers[item].users <= known.users:
                        readers[inner] = known._replace(users=known.users | readers[item].users)
                        is_changed = True
        for item, reach in readers.items():
            for draft, own in self.items[item].texts:
                self._add(draft, own._replace(unit=reach.unit, users=reach.users))

    def _order_items(self, readers: Iterable[ItemKey]) -> list[ItemKey]:
        """Follow fields and items of them, and those that they are made of; these come later, but in a circle."""
        found, ended, pending = set[ItemKey](), dict[ItemKey, None](), list(readers)
        while pending:
            if (item := pending[-1]) in found:
                ended.setdefault(pending.pop())
            else:
                found.add(item)
                pending += [inner for inner in self._read_written_item(item).items if inner not in found]
        return [*reversed(ended)]

    def is_state(self, node: ast.expr, at: Surroundings) -> bool:
        """Whether an expression may be what a node, a router or a tool is given."""
        for base in self.program.trace(node, at):
            if isinstance(base.node, Argument) and (function := base.node.function) in self.entries:
                is_method = base.at.outer is not None and isinstance(base.at.outer.owner, ast.ClassDef)
                first = 1 if is_method and not is_static(function) else 0
                written = ast.unparse(base.node.annotation) if base.node.annotation is not None else ""
                if base.node.name in list_positional(function)[first : first + 1] or "InjectedState" in written:
                    return True
        return False

    def _read_written_item(self, item: ItemKey) -> WrittenItem:
        """Follow what nodes write into a field, or as an item of it, once for all who read it."""
        if item not in self.items:
            name, key, shape = item
            self.items[item] = self.written = WrittenItem([], {})
            before, self.seen = self.seen, set()
            for written in self.writes[name]:
                made = written.node if key is None else self.program.make_item(written.node, key)
                self.follow_asked(made, written.at, shape)
            self.seen, self.written = before, None
        return self.items[item]

    def _follow_stored(self, node: ast.Subscript, at: Surroundings, reach: Reach) -> None:
        """Follow `item.value["field"]`, where a store gave the item, to what the program puts there."""
        item, field = node.value, node.slice
        if not isinstance(item, ast.Attribute) or item.attr != "value" or not is_text(field):
            return
        taken = [
            Traced(part.node.source, part.at) if isinstance(part.node, Element) else part
            for part in self.program.trace(item.value, at)
        ]
        asked = [
            part
            for value in taken
            for part in self.program.trace(*value[:2])
            if get_last_name(getattr(part.node, "func", None)) in TAKING
        ]
        for ask, put in product(asked, [call for name in PUTTING for call in self.program.calls.get(name, ())]):
            if not self.program.is_live(put) or not is_within(put.node.args[:1], ask.node.args[:1]):
                continue
            where = ask.at if ask.at.owner is put.at.owner else put.at
            given = [*put.node.args[2:3], *(keyword.value for keyword in put.node.keywords if keyword.arg == "value")]
            kind = "document" if get_last_name(ask.node.func).endswith("search") else ""
            for found in (found for part in given for found in self.program.trace(part, where)):
                for name, value in list_items(found.node) if isinstance(found.node, ast.Dict) else ():
                    if name == field.value:
                        self.follow(value, found.at, reach._replace(mode="", changes=(), kind=kind, whole=False))

    def _follow_field(self, owner: ast.expr, name: str, at: Surroundings, reach: Reach) -> None:
        """Follow a field of the state to what nodes write into it."""
        if name in self.writes and name != "messages":
            if any(isinstance(base.node, Argument | Element) for base in self.program.trace(owner, at)):
                self._note_read(name, None, reach)

    # literals

    def _follow_constant(self, node: ast.Constant, at: Surroundings, reach: Reach) -> None:
        if is_text(node):
            self.add_literal(node, node.value, at, reach)

    def add_literal(self, node: ast.AST, text: str, at: Surroundings, reach: Reach) -> None:
        """Note a constant text."""
        value = change(text, reach.changes)
        pieces, holes = split_marks(*split_template(value, reach.mode), reach.marks)
        kind = reach.kind or self._tell_kind(node) or ("template" if reach.mode else "constant")
        self._note(node, at, reach, kind, value, pieces, holes)

    def _follow_f_string(self, node: ast.JoinedStr, at: Surroundings, reach: Reach) -> None:
        parts: list[str] = []
        holes: list[str] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts.append(GAP)
                holes.append(ast.unparse(part.value))
                self.follow(part.value, at, reach._replace(changes=(), whole=False, kind=""))
            elif is_text(part):
                parts.append(part.value)
        value = change("".join(parts), reach.changes)
        if holes and not reach.mode:
            self._note(node, at, reach, "f-string", value.replace(GAP, "{}"), tuple(value.split(GAP)), tuple(holes))
            return
        more, names = split_template(value, reach.mode)
        pieces, named = _split_holes(more, names, holes)
        self._note(node, at, reach, "f-string" if holes else "constant", value.replace(GAP, "{}"), pieces, named)

    def _follow_operation(self, node: ast.BinOp, at: Surroundings, reach: Reach) -> None:
        if isinstance(node.op, ast.Add):
            if (text := join_constants(node)) is not None:
                self.add_literal(node, text, at, reach)
                return
            self.follow(node.left, at, reach._replace(is_joined=True))
            self.follow(node.right, at, reach._replace(is_joined=True))
        elif isinstance(node.op, ast.Mod):
            self.follow(node.left, at, reach.fill_first("percent"))
            inner = reach._replace(changes=(), whole=False, kind="")
            self._follow_filled([node.right], [], at, inner, self.list_holes(node.left, at, "percent"))
        elif isinstance(node.op, ast.BitOr):
            self.follow(node.left, at, reach)
            if any(kind == "function" for kind, _ in find_kinds(self.program, node.right, at)):
                self.follow(node.right, at, reach._replace(whole=False))  # what it returns is handed on
        elif isinstance(node.op, ast.Mult):
            self.follow(node.left, at, reach)

    def _tell_kind(self, node: Any) -> str:
        """Tell whether a literal is the default of a field or of an argument; "" if it is neither."""
        parent = self.program.parents.get(node)
        while isinstance(parent, ast.Call | ast.keyword | ast.Lambda | ast.BinOp | ast.Attribute):
            parent = self.program.parents.get(parent)
        if isinstance(parent, ast.arguments):
            return "default"
        is_field = isinstance(parent, ast.AnnAssign) and isinstance(self.program.parents.get(parent), ast.ClassDef)
        return "default" if is_field else ""

    def _note(
        self, node: Any, at: Surroundings, reach: Reach, kind: str, value: str, pieces: tuple[str, ...], holes: Any
    ) -> None:
        if not any(LETTERS.search(piece) for piece in pieces) or value in ROLES or not hasattr(node, "lineno"):
            return  # the name of an argument that is a key of `**rest` has no literal
        lines = at.file.lines
        place = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        columns = tuple(count_characters(lines, line, column) for line, column in (place[::2], place[1::2]))
        draft = TextDraft(
            at.file.path, kind, self._tell_name(node), value, pieces, tuple(holes), (*place[:2], *columns), node
        )
        self._add(draft, reach._replace(is_joined=reach.is_joined or self._is_added_to(node, at)))

    def _is_added_to(self, node: Any, at: Surroundings) -> bool:
        """Whether a text is given to a name to which `+=` adds, or added so itself."""
        parent = self.program.parents.get(node)
        if not isinstance(parent, ast.Assign):
            return isinstance(parent, ast.AugAssign)
        path = at.file.path
        if path not in self.grown:
            added = (found for found in at.file.nodes if isinstance(found, ast.AugAssign))
            self.grown[path] = {ast.unparse(found.target) for found in added}
        return bool(self.grown[path]) and any(ast.unparse(target) in self.grown[path] for target in parent.targets)

    def _tell_name(self, node: Any) -> str:
        """Tell the name of the constant, field or key that holds a literal; "" if none does."""
        child, parent = node, self.program.parents.get(node)
        while parent is not None and not isinstance(parent, ast.stmt | ast.FormattedValue | ast.Lambda):
            if isinstance(parent, ast.Call) and child is not parent.func and get_last_name(parent.func) not in HOLDERS:
                return ""
            if isinstance(parent, ast.Dict):
                for key, value in list_items(parent):
                    if value is child and key not in ("content", "text", "messages"):
                        return key
            child, parent = parent, self.program.parents.get(parent)
        if isinstance(parent, ast.Assign) and child is parent.value:
            return ast.unparse(parent.targets[0])
        return ast.unparse(parent.target) if isinstance(parent, ast.AnnAssign) else ""

    def _add(self, draft: TextDraft, reach: Reach) -> None:
        if reach.metadata:
            return  # it is no part of a document
        if self.written is not None:
            self.written.texts.append((draft, reach))
            return
        key = (draft.path, draft.place[0], draft.place[2])
        known = self.drafts.setdefault(key, draft)
        is_fixed = draft.kind == "field value"  # no layer changes it in a schema
        if is_fixed or len(draft.holes) > len(known.holes) or (known.kind, draft.kind) == ("constant", "template"):
            known.kind, known.pieces, known.holes, known.value = draft.kind, draft.pieces, draft.holes, draft.value
        known.vias.add(reach.via)
        known.is_alone |= reach.unit is None
        known.is_whole &= reach.whole and not reach.is_joined
        if reach.role and reach.role not in known.roles:
            known.roles.append(reach.role)
        if key not in self.told:
            known.users |= reach.users
            known.units += [reach.unit] if reach.unit is not None and not self.users else []

    # collections

    def _follow_parts(self, node: ast.List | ast.Tuple | ast.Set, at: Surroundings, reach: Reach) -> None:
        parts = node.elts
        first = parts[0] if isinstance(node, ast.Tuple) and len(parts) == 2 else None
        if is_text(first) and first.value in ("placeholder", "messages"):
            return
        if is_text(first) and first.value in ROLES:
            self.follow(parts[1], at, reach._replace(role=ROLES[first.value], whole=True, is_joined=False))
            return
        if first is not None and reach.whole and not is_text(first):  # its role is computed, if it is a message
            named = [value.node.value for value in self.program.trace(first, at) if is_text(value.node)]
            reach = reach._replace(role=ROLES.get(named[0], "") if len(named) == 1 else "")
        for part in parts:
            if isinstance(part, ast.Starred):
                self._follow_iterated(part.value, at, reach)
            else:
                self.follow(part, at, reach)

    def _follow_dict(self, node: ast.Dict, at: Surroundings, reach: Reach) -> None:
        named = dict(list_items(node))
        role, content = named.get("role", named.get("type")), named.get("content")
        if role is not None and content is not None:
            name = role.value if is_text(role) else ""
            self.follow(content, at, reach._replace(role=ROLES.get(name, reach.role), whole=True, is_joined=False))
        elif is_text(named.get("type")) and not reach.is_written:  # a part of a message, such as a picture
            if "text" in named:
                self.follow(named["text"], at, reach)
        else:
            tag = named.get("type") if is_text(named.get("type")) else None
            for value in node.values:
                if value is not tag:
                    self.follow(value, at, reach._replace(whole=False, kind=""))

    def _follow_comprehension(self, node: Any, at: Surroundings, reach: Reach) -> None:
        self.follow(node.elt, at, reach)

    def _follow_made_dict(self, node: ast.DictComp, at: Surroundings, reach: Reach) -> None:
        for _, value in self.program.list_pairs(Traced(node, at)):
            self.follow(value.node, value.at, reach._replace(whole=False, kind=""))

    def _follow_function(self, node: Any, at: Surroundings, reach: Reach) -> None:
        function, owner = node if isinstance(node, BoundMethod) else (node, None)
        for returned in self.program.list_returned(function, at, {}, None, owner):
            self.follow(returned.node, returned.at, reach)

    def _follow_object(self, node: Instance, at: Surroundings, reach: Reach) -> None:
        """Follow what `str(object)` returns."""
        for method in self.program.get_member(Traced(node, at), "__str__"):
            for returned in (
                self.program.list_returned(method.node.function, method.at, {}, None, Traced(node, at))
                if isinstance(method.node, BoundMethod)
                else ()
            ):
                self.follow(returned.node, returned.at, reach._replace(whole=False))

    # calls

    def _follow_call(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        traced = self.program.trace(node, at)
        found = [value for value in traced if value.node is not node]
        name = get_last_name(node.func)
        key = node.args[0] if name == "get" and node.args else None
        if is_text(key) and isinstance(node.func, ast.Attribute):
            self._follow_field(node.func.value, key.value, at, reach)
            self._follow_written_item(node.func.value, key.value, at, reach)
        for value in found:
            if not isinstance(value.node, Argument):
                self.follow(value.node, value.at, self._pass_on(reach, value.call if value.call is not node else None))
        if (found and len(found) == len(traced)) or self.is_reply(node, at):
            return
        handler = CALLS.get(name)
        if handler is not None:
            handler(self, node, at, reach)
        elif self._is_of_messages(node, at):
            self._follow_arguments(node, at, reach)
        elif prompt_files.find_read(self.program, node, at) is not None or prompt_files.is_prompt_loader(name):
            self._follow_file(node, at, reach)
        elif not self._follow_bodies(node, at, reach):
            self._note_opaque(node, at, reach)

    def _is_of_messages(self, node: ast.Call, at: Surroundings) -> bool:
        """Whether a call is that of a function of LangChain's messages."""
        called = [found.node for found in self.program.trace(node.func, at) if isinstance(found.node, Outside)]
        return any(outside.name.startswith(MESSAGE_MODULES) for outside in called)

    def _follow_marker(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow the text that `selfwire.text` names."""
        if is_marker(self.program, node, at):
            self.follow(node.args[1], at, reach)
        else:
            self._note_opaque(node, at, reach)

    def follow_message(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow the text of a message."""
        role = MESSAGES.get(get_last_name(node.func), "") or reach.role
        content = [keyword.value for keyword in node.keywords if keyword.arg in ("content", "content_blocks")]
        for part in [*node.args[:1], *content]:
            self.follow(part, at, reach._replace(role=role, mode="", whole=True, is_joined=False))

    def follow_prompt(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow the texts of a prompt template."""
        named, mode = get_keywords(node), tell_mode(node)
        owner = get_last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        role = "user" if owner == "ChatPromptTemplate" else MESSAGES.get(owner, "")
        inner = reach._replace(mode=mode, role=role or reach.role)
        texts = [value for name, value in named.items() if name in TEMPLATES]
        if get_last_name(node.func) == "from_file":
            for text in self._read_files(node.args[0], at):
                self._add_file(text, inner)
            return
        for part in [*node.args[:1], *texts]:
            self.follow(part, at, inner)
        filled = reach._replace(mode="", whole=False, kind="")
        if get_last_name(node.func) == "FewShotChatMessagePromptTemplate":
            filled = filled._replace(role="")
        if "examples" in named:
            self.follow(named["examples"], at, filled)
        for selector in self.program.trace(named["example_selector"], at) if "example_selector" in named else ():
            if isinstance(selector.node, ast.Call):
                for part in [
                    *selector.node.args[:1],
                    *(k.value for k in selector.node.keywords if k.arg == "examples"),
                ]:
                    self.follow(part, selector.at, filled)
        for part in list_values(named.get("partial_variables")):
            self.follow(part, at, filled)

    @cached_property
    def changed(self) -> set[Any]:
        """Expressions to which code adds something, or of which it replaces a part."""
        found = set[Any]()
        for node, at, _ in self.program.changing:
            while isinstance(node, ast.Attribute | ast.Subscript | ast.Name | ast.Call):
                found.update(value.node for value in self.program.trace(node, at))
                node = getattr(node, "value", None)
        return found

    def list_holes(self, text: ast.expr, at: Surroundings, mode: str = "") -> set[str]:
        """List the names in the holes of a text or a prompt; none if there may be others than the source shows."""
        return self._find_holes(text, at, mode) or set()

    def _find_holes(self, text: ast.expr, at: Surroundings, mode: str) -> set[str] | None:
        key = (text, at.key, mode)
        if key not in self.holes:
            self.holes[key] = None  # of what is made of itself
            traced = self.program.trace(text, at)
            known = [found for found in traced if not isinstance(found.node, Argument)]
            self.holes[key] = unite_names(self._read_holes(found.node, found.at, mode) for found in known)
        return self.holes[key]

    def _read_holes(self, node: Any, at: Surroundings, mode: str) -> set[str] | None:
        """Read the names in the holes of an expression of a known kind that no other code changes."""
        if node in self.changed:
            return None
        if is_text(node):
            return read_names(node.value, mode)
        if isinstance(node, ast.JoinedStr):
            values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            static = GAP.join(part.value if is_text(part) else "" for part in node.values)
            return unite_names([read_names(static, mode), *(self._find_holes(value, at, mode) for value in values)])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._find_holes(node.left, at, mode)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and mode:
            return unite_names(self._find_holes(part, at, mode) for part in (node.left, node.right))
        if isinstance(node, ast.List | ast.Tuple) and not any(isinstance(part, ast.Starred) for part in node.elts):
            first = node.elts[0] if node.elts else None
            own = "format" if is_text(first) and first.value == "placeholder" else mode
            return unite_names(self._find_holes(part, at, own) for part in node.elts)
        return self._read_prompt_holes(node, at) if isinstance(node, ast.Call) else None

    def _read_prompt_holes(self, node: ast.Call, at: Surroundings) -> set[str] | None:
        """Read the names in the holes of a prompt template, a placeholder or a message, which has none."""
        name, named = get_last_name(node.func), get_keywords(node)
        if name == "partial" and isinstance(node.func, ast.Attribute):
            return self._find_holes(node.func.value, at, "")
        if name in MESSAGES and not name.endswith("Template"):
            return set()
        if not is_complete(node) or name == "from_file" or not is_text(named.get("template_format", ast.Constant(""))):
            return None
        if name == "MessagesPlaceholder":
            parts = [*node.args[:1], *(named[key] for key in ("variable_name",) if key in named)]
            found = [value.node for part in parts for value in self.program.trace(part, at)]
            return {value.value for value in found} if all(map(is_text, found)) else None
        if name in MAKERS or (name in (*MESSAGES, *PROMPTS) and not name.startswith("FewShot")):
            parts = [*node.args[:1], *(value for key, value in named.items() if key in TEMPLATES)]
            return unite_names(self._find_holes(part, at, tell_mode(node)) for part in parts)
        return None

    def _follow_filled(
        self,
        parts: Sequence[ast.expr],
        keywords: Sequence[ast.keyword],
        at: Surroundings,
        reach: Reach,
        holes: set[str],
    ) -> None:
        """Follow what is filled into a text: of dicts and keywords what its holes name, if these are known."""
        found = [value for part in parts for value in self.list_filled(part, at, holes)]
        for value in [*found, *self.list_filled_keywords(keywords, at, holes)]:
            self.follow(value.node, value.at, self._pass_on(reach, value.call))

    def list_filled_keywords(
        self, keywords: Sequence[ast.keyword], at: Surroundings, holes: Collection[str]
    ) -> Iterator[Traced]:
        """List the values of keywords, and of the dicts of `**`, that holes name."""
        for keyword in keywords:
            if keyword.arg is None:
                yield from self.list_filled(keyword.value, at, holes)
            elif not holes or keyword.arg in holes:
                yield Traced(keyword.value, at)

    def list_filled(self, part: ast.expr, at: Surroundings, holes: Collection[str]) -> list[Traced]:
        """List the values of a dict, or the fields of a state, that holes name; another expression stays whole."""
        filled = list[Traced]()
        entries = list_entries(self.program, part, at) if holes else []
        for key, value in entries:
            if isinstance(key, Argument):
                filled += [value._replace(node=self.program.make_item(value.node, hole)) for hole in sorted(holes)]
            elif not is_text(key) or key.value in holes:
                filled.append(value)
        return filled if entries else [Traced(part, at)]

    def _follow_format(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `text.format(...)`, and `string.Formatter().format(text, ...)`."""
        assert isinstance(node.func, ast.Attribute)
        text, *values = (
            [*node.args] if self._is_formatter(node.func.value, at) and node.args else [node.func.value, *node.args]
        )
        self.follow(text, at, reach.fill_first("format"))
        is_own = any(found.node is node for found in self.program.trace(text, at))  # text = text.format(...)
        mode = "" if is_own else reach.mode  # what fills the whole later fills its parts too
        inner = reach._replace(mode=mode, changes=(), whole=False, kind="")
        placed = values if node.func.attr == "format" else []
        for part in placed:
            self.follow(part, at, inner)
        self._follow_filled(values[len(placed) :], node.keywords, at, inner, self.list_holes(text, at, "format"))

    def _is_formatter(self, node: ast.expr, at: Surroundings) -> bool:
        """Whether an expression is a `string.Formatter`, or an object of a subclass."""
        for found in self.program.trace(node, at):
            if isinstance(found.node, Instance):
                return has_base(self.program, Traced(found.node.of, found.at), ("Formatter",))
            if isinstance(found.node, ast.Call) and get_last_name(found.node.func) == "Formatter":
                return True
        return False

    def _follow_substitution(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `Template(text).substitute(...)`, and `render` of Jinja's."""
        if not isinstance(node.func, ast.Attribute):
            return
        mode = "curly" if node.func.attr == "render" else "dollar"
        holes = list[set[str]]()
        for made in self.program.trace(node.func.value, at):
            if isinstance(made.node, ast.Call) and made.node.args:
                called = get_last_name(made.node.func)
                if called in ("Template", "from_string"):
                    self.follow(made.node.args[0], made.at, reach._replace(mode=mode))
                    holes.append(self.list_holes(made.node.args[0], made.at, mode))
                    continue
                if called == "get_template":
                    self._follow_jinja_file(made, reach)
            holes.append(set())
        names = set[str]().union(*holes) if all(holes) else set[str]()
        inner = reach._replace(mode="", changes=(), whole=False, kind="")
        self._follow_filled(node.args, node.keywords, at, inner, names)

    def _follow_jinja_file(self, made: Traced, reach: Reach) -> None:
        """Follow `Environment(loader=FileSystemLoader(folder)).get_template(name)`, or one of a `DictLoader`."""
        names = prompt_files.find_patterns(self.program, made.node.args[0], made.at)
        loaders, texts = list(self._list_jinja_loaders(made)), dict[FileText | Traced, None]()
        for name in names:  # it grows with those that a template includes or extends
            for loader in loaders:
                texts.update(dict.fromkeys(self._load_jinja_text(loader, name)))
            sources = [source for text in texts for source in list_sources(text)]
            names += [part for source in sources for part in INCLUDED.findall(source) if part not in names]
        for text in texts:
            if isinstance(text, FileText):
                self._add_file(text, reach._replace(mode="curly"))
            else:
                self.follow(text.node, text.at, reach._replace(mode="curly"))
        if not texts:
            self._note_computed_file(made.node, made.at)

    def _list_jinja_loaders(self, made: Traced) -> Iterator[Traced]:
        """List the loaders of the environment that gives a template."""
        owner = made.node.func.value if isinstance(made.node.func, ast.Attribute) else None
        for environment in self.program.trace(owner, made.at) if owner is not None else ():
            loader = get_keywords(environment.node).get("loader") if isinstance(environment.node, ast.Call) else None
            for found in self.program.trace(loader, environment.at) if loader is not None else ():
                if isinstance(found.node, ast.Call) and found.node.args:
                    yield found

    def _load_jinja_text(self, loader: Traced, name: str) -> Iterable[FileText | Traced]:
        """Load the template of a name, from a folder, a package or a dict."""
        kind, given = get_last_name(loader.node.func), loader.node.args
        if kind == "DictLoader":
            pairs = (
                pair for found in self.program.trace(given[0], loader.at) for pair in self.program.list_pairs(found)
            )
            named = (value for key, value in pairs if name in self.program.read_strings(*key[:2]))
            return [text for value in named for text in self.program.trace(*value[:2])]
        folder = given[0]
        if kind == "PackageLoader":
            folder = ast.Call(ast.Name("read_text", ast.Load()), [*given, ast.Constant("templates")][:2], [])
        return self._read_files(ast.Call(ast.Name("join", ast.Load()), [folder, ast.Constant(name)], []), loader.at)

    def _follow_join(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        assert isinstance(node.func, ast.Attribute)
        is_of_class = get_last_name(node.func.value) == "str" and len(node.args) == 2
        separator, given = node.args if is_of_class else (node.func.value, node.args[0] if node.args else None)
        split = given.func if isinstance(given, ast.Call) and not given.args else None
        if isinstance(split, ast.Attribute) and split.attr == "split" and getattr(separator, "value", "") == " ":
            self.follow(split.value, at, reach.change_first(("squeeze",)))
            return
        if (text := join_constants(node)) is not None:
            self.add_literal(node, text, at, reach)
            return
        self.follow(separator, at, reach)
        if given is not None:
            self._follow_iterated(given, at, reach._replace(whole=False, kind=""))
            for found in self.program.trace(given, at):
                if isinstance(found.node, ast.ClassDef):  # the members of an Enum
                    for part in self.program.iterate(found):
                        self.follow(part.node, part.at, reach._replace(whole=False, kind=""))  # type: ignore[union-attr]

    def _follow_changed(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `text.strip()` and its like."""
        if isinstance(node.func, ast.Attribute):
            own = (node.func.attr,) if node.func.attr in CHANGES and not node.args else ()
            self.follow(node.func.value, at, reach.change_first(own))

    def _follow_replaced(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `text.replace(mark, value)`: the mark is a hole of the text."""
        mark = node.args[0] if node.args else None
        if is_text(mark) and isinstance(node.func, ast.Attribute) and LETTERS.search(mark.value):
            self.follow(node.func.value, at, reach._replace(marks=tuple(dict.fromkeys((*reach.marks, mark.value)))))
        else:
            self._follow_changed(node, at, reach.fill_first("curly") if is_curly(mark) else reach)
        for part in node.args[1:2]:
            self.follow(part, at, reach._replace(mode="", changes=(), whole=False, kind=""))

    def _follow_substituted(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `re.sub(pattern, value, text)`, or `pattern.sub(value, text)`."""
        if self._follow_bodies(node, at, reach):
            return
        patterns, text = prompt_files.find_substitution(self.program, node, at)
        is_space = any(pattern in (r"\s+", r"\s\s+", r"\s{2,}") for pattern in patterns)
        value = next((given for given, behind in pairwise(node.args) if behind is text), get_keywords(node).get("repl"))
        made = [found for found in self.program.trace(value, at) if isinstance(found.node, Function)] if value else []
        if value is not None and made and not all(map(self._is_spelling, made)):
            self.follow(value, at, reach._replace(mode="", changes=(), whole=False, kind=""))
            curly = [pattern for pattern in patterns if pattern.replace("\\", "").startswith("{{")]
            reach = reach.fill_first("curly") if curly else reach
            marks = (*reach.marks, *(known for pattern in patterns if not curly for known in compile_mark(pattern)))
            reach = reach._replace(marks=tuple(dict.fromkeys(marks)))
        if text is not None:
            self.follow(text, at, reach.change_first(("squeeze",)) if is_space else reach)

    def _is_spelling(self, function: Traced) -> bool:
        """Whether a function only spells in another way what a pattern matches: `lambda found: found[0].lower()`."""
        inside = self.program.enter(function.node, function.at)
        returned = inside.names.returned
        return bool(returned) and all(is_spelled(self.program, part, inside) for part in returned)

    def _follow_last(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `unicodedata.normalize(form, text)`."""
        for part in node.args[-1:]:
            self.follow(part, at, reach)

    def _follow_dedent(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `textwrap.dedent(text)`, `indent(text, prefix)` and their like."""
        own = tuple({get_last_name(node.func)} & CHANGES.keys())
        for part in node.args[:1]:
            self.follow(part, at, reach.change_first(own))

    def _follow_docstring(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `inspect.getdoc(function)`."""
        for part in node.args[:1]:
            self.follow(ast.Attribute(part, "__doc__", ast.Load()), at, reach.change_first(("cleandoc",)))

    def _follow_documents(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `Document(text)`, or the texts or documents of which a store is made."""
        named, inner = get_keywords(node), reach._replace(mode="", whole=False, kind="document")
        documents = [named[key] for key in ("page_content", "texts", "documents") if key in named]
        if not reach.metadata or get_last_name(node.func) == "from_documents":
            for part in [*node.args[:1], *documents]:
                self.follow(part, at, inner)
            return
        owners = [named[key] for key in ("metadata", "metadatas") if key in named]
        found = [value for part in owners for value in self.program.trace(part, at)]
        for value in found:
            for owner in self.program.iterate(value) if "metadatas" in named else [value]:
                if isinstance(owner, Traced):
                    item = self.program.make_item(owner.node, reach.metadata)
                    self.follow(item, owner.at, inner._replace(metadata=""))

    def _follow_arguments(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        if get_last_name(node.func) == "dict":
            names = [keyword.arg for keyword in node.keywords]
            if "content" in names:
                self.follow(node.keywords[names.index("content")].value, at, reach)
                return
        named = [keyword.value for keyword in node.keywords if keyword.arg in (None, "messages")]
        follow = self._follow_iterated if get_last_name(node.func) in ITERATING else self.follow
        for part in [*node.args, *named]:
            follow(part, at, reach)

    def _follow_iterated(self, node: ast.expr, at: Surroundings, reach: Reach) -> None:
        """Follow a collection whose elements are taken one by one.

        Those of a dict are its keys, which are texts if they have several words, and names else.
        """
        found = self.program.trace(node, at)
        if not found or not all(isinstance(value.node, ast.Dict) for value in found):
            self.follow(node, at, reach)
            return
        for key, _ in (pair for value in found for pair in self.program.list_pairs(value)):
            if is_text(key.node) and len(key.node.value.split()) > 1:
                self.follow(key.node, key.at, reach)

    def _follow_view(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `values()`, `keys()` or `items()` of a dict."""
        owner, name = getattr(node.func, "value", None), get_last_name(node.func)
        if owner is not None and name != "values":
            self._follow_iterated(owner, at, reach)
        if owner is not None and name != "keys":
            self.follow(owner, at, reach)

    def _follow_cast(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        for part in node.args[1:]:
            self.follow(part, at, reach)

    def _follow_asked_prompt(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `prompt.invoke(values)` and `prompt.format_messages(**values)`; holes may be added after `partial`."""
        if isinstance(node.func, ast.Attribute):
            self.follow(node.func.value, at, reach)
            if any(kind == "retriever" for kind, _ in find_kinds(self.program, node.func.value, at)):
                return  # it gives documents, and a model sees no question
        is_last = isinstance(node.func, ast.Attribute) and node.func.attr != "partial"
        holes = self.list_holes(node.func.value, at) if is_last else set[str]()  # type: ignore[attr-defined]
        inner = reach._replace(mode="", changes=(), whole=False, kind="")
        self._follow_filled(node.args, node.keywords, at, inner, holes)

    def _follow_environment(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        self._note_environment(node, at, reach, ast.unparse(node.args[0]) if node.args else "")
        for part in node.args[1:]:
            self.follow(part, at, reach._replace(kind="default"))

    def _follow_got(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        """Follow `os.environ.get(name, default)`; the other forms of `get` are traced."""
        if is_environment(node):
            self._follow_environment(node, at, reach)
        elif isinstance(node.func, ast.Attribute) and not self._follow_metadata(node, at, reach):
            if not self._follow_file_keys(node, at, reach):
                self._note_opaque(node, at, reach)

    # files

    def _read_files(self, node: ast.expr, at: Surroundings) -> list[FileText]:
        found = [prompt_files.read_whole(path) for path in prompt_files.list_files(self.program, node, at)]
        return [text for text in found if text is not None]

    def _follow_file(self, node: ast.Call, at: Surroundings, reach: Reach) -> None:
        read = prompt_files.find_read(self.program, node, at)
        if read is None:
            if not self._follow_loaded(node, at, (), reach):
                self._note_opaque(node, at, reach)
            return
        texts = self._read_files(*read)
        for text in texts:
            self._add_file(text, reach)
        if not texts and reach.whole:
            self._note_computed_file(node, at)

    def _follow_file_keys(self, node: ast.expr, at: Surroundings, reach: Reach) -> bool:
        """Follow `yaml.safe_load(...)["key"]`; returns whether it is such an expression."""
        found = prompt_files.find_loaded(self.program, node, at)
        if found is None:
            return False
        call, keys = found
        callers = {key.call for level in keys for key in level or () if key.call is not None}
        for caller in callers or {None}:  # each passes a key of its own
            passed = tuple(level and tuple(key for key in level if key.call in (caller, None)) for level in keys)
            if not self._follow_loaded(call.node, call.at, passed, self._pass_on(reach, caller)):
                return False
        return True

    def _follow_bodies(self, node: Any, at: Surroundings, reach: Reach) -> bool:
        """Follow what stands behind the front matter of files; returns whether it is such an expression."""
        bodies = prompt_files.find_bodies(self.program, node, at)
        for body in bodies:
            self._add_file(body, reach)
        self.cut |= {body.path for body in bodies}
        return bool(bodies)

    def _follow_loaded(self, call: ast.Call, at: Surroundings, keys: tuple[Any, ...], reach: Reach) -> bool:
        opened = prompt_files.find_loaded_path(self.program, call, at)
        if opened is None:
            return False
        texts = prompt_files.read_loaded(self.program, opened, keys)
        named = {text.key: text.text for text in texts or ()}
        for text in texts or ():  # a message has its role beside it
            is_content = text.key.split(".")[-1] == "content"
            role = ROLES.get(named.get(f"{text.key[:-7]}role", ""), reach.role) if is_content else reach.role
            self._add_file(text, reach._replace(role=role))
        if texts is None and not self._note_cut_files(call, at):
            self._note_computed_file(call, at)
        return True

    def _add_file(self, text: FileText, reach: Reach) -> None:
        value = change(text.text, reach.changes)
        pieces, holes = split_marks(*split_template(value, reach.mode), reach.marks)
        if LETTERS.search(value) and value not in ROLES:
            place = (text.line, text.end_line, text.column, text.end_column)
            draft = TextDraft(text.path, "file", text.key, value, pieces, holes, place)
            if text.line == 1 and not text.key and prompt_files.read_body(text.path) is not None:
                self.wholes.append((draft, reach))
            else:
                self._add(draft, reach)

    # what cannot be read

    def note(self, node: Any, at: Surroundings, reason: str, way_out: str) -> None:
        """Note a thing that cannot be read."""
        self.opaque.setdefault((at.file.path, node.lineno), (Traced(node, at), reason, way_out))

    def _note_cut_files(self, node: Any, at: Surroundings) -> bool:
        """Note the files of which a value is a part, as one thing for all that a line reads; whether it has any."""
        cut = list_cut_files(self.program, node, at)
        for read, file in cut:
            place = (read.at.file.path, read.node.lineno)
            names = self.cut_files.setdefault(place, set()) if place not in self.opaque else self.cut_files.get(place)
            if names is not None:
                names.add(file.name)
                reason = f"a text is cut out of {', '.join(sorted(names))} by code"
                way_out = "keep each prompt in a file of its own, or under a key of a YAML or JSON file"
                self.opaque[place] = (Traced(*read[:2]), reason, way_out)
        return bool(cut)

    def _note_computed_file(self, node: ast.Call, at: Surroundings) -> None:
        self.note(
            node,
            at,
            f"the file that {shorten_source(node)} reads is not found from the source alone",
            "run it from the program's folder, or name the file by a constant path in the program's folder",
        )

    def _note_environment(self, node: Any, at: Surroundings, reach: Reach, name: str) -> None:
        if reach.whole:
            self.note(
                node,
                at,
                f"a text comes from the environment variable {name}",
                "move its value into a constant or a file of the program",
            )

    def _note_opaque(self, node: Any, at: Surroundings, reach: Reach, known: str = "") -> None:
        """Note a message whose text the source does not hold; a part of one is a hole, unless the source encodes it."""
        fixed = hasattr(node, "lineno") and is_fixed(self.program, node, at)
        if not hasattr(node, "lineno") or not (fixed or reach.whole) or self._is_of_reply(node, at):
            return
        variable, names = self._find_origins(node, at)
        if variable is not None:
            self._note_environment(node, at, reach, ast.unparse(variable))
            return
        names += [known] if known else []
        if isinstance(node, ast.Call) and get_last_name(node.func) in HUBS and names and reach.whole:
            what = ast.unparse(node.args[0]) if node.args else "a prompt"
            way_out = "save its text in a file of the program and read it from there"
            self.note(node, at, f"the prompt {what} is pulled from a hub", way_out)
            return
        whole = (*(FETCHED if fixed else ()), *ORIGINS) if reach.whole else ()
        for is_such, origin, way_out in (*(DECODED if fixed else ()), *whole):
            if any(map(is_such, names)):
                self.note(node, at, f"a text comes from {origin}: {shorten_source(node)}", way_out)
                return

    def _is_of_reply(self, node: Any, at: Surroundings, depth: int = 0) -> bool:
        """Whether an expression is taken out of what a model replies."""
        while isinstance(node, ast.Call | ast.Attribute | ast.Subscript | ast.Await):
            if isinstance(node, ast.Call) and self.is_reply(node, at):
                return True
            node = node.func if isinstance(node, ast.Call) else node.value
        inner = (found for found in self.program.trace(node, at) if found.node is not node and depth < DEEPEST_CUT)
        return any(self._is_of_reply(*found[:2], depth + 1) for found in inner)

    def _find_origins(self, node: Any, at: Surroundings) -> tuple[ast.expr | None, list[str]]:
        """Find the variable of the environment that an expression reads, else the names of others that make it."""
        called = list[Traced]()
        while isinstance(node, ast.Call | ast.Attribute | ast.Subscript | ast.Await):
            if isinstance(node, ast.Subscript) and get_last_name(node.value) == "environ":
                return node.slice, []
            if isinstance(node, ast.Call):
                called += self.program.trace(node.func, at)
                node = node.args[0] if get_last_name(node.func) == "getattr" and node.args else node.func
            else:
                node = node.value
        traced = self.program.trace(node, at)
        names = [found.node.name for found in (*called, *traced) if isinstance(found.node, Outside)]
        calls = self.program.calls.get("exec", ())
        spaces = [(part, call.at) for call in calls for part in call.node.args[1:]]
        executed = [found.node for part in spaces for found in self.program.trace(*part)]
        names += ["exec" for found in traced if isinstance(found.node, ast.Dict) and found.node in executed]
        return None, names or [get_outside_maker(self.program, found) for found in traced]


@end_circles(True)
def is_spelled(program: Program, node: ast.expr, at: Surroundings) -> bool:
    """Whether an expression is what the first argument of its function, a match, has matched, in any spelling."""
    for found in program.trace(node, at):
        made, func = found.node, getattr(found.node, "func", None)
        if isinstance(func, ast.Attribute) and func.attr in SPELLING:
            if not is_spelled(program, func.value, found.at):
                return False
            continue
        names = list_positional(found.at.owner)[:1] if isinstance(found.at.owner, Function) else []
        parts = made.args if get_last_name(func) == "group" else [getattr(made, "slice", None)]
        is_whole = all(part is not None and read_key(part) == 0 for part in parts)
        if get_last_name(getattr(func or made, "value", None)) not in names or not is_whole:
            return False
    return True


@end_circles(list[tuple[Any, Traced]]())
def list_entries(program: Program, node: ast.expr, at: Surroundings) -> list[tuple[Any, Traced]]:
    """List the keys and values of a dict, and of those that it takes in by `**`.

    A state, whose fields are not known, has its argument for a key, and what is no dict has None.
    """
    entries = list[tuple[Any, Traced]]()
    for found in program.trace(node, at):
        if isinstance(found.node, ast.Dict):
            for key, value in zip(found.node.keys, found.node.values, strict=True):
                entries += list_entries(program, value, found.at) if key is None else [(key, Traced(value, *found[1:]))]
        else:
            is_given = isinstance(found.node, Argument)
            entries.append((found.node, Traced(node, at)) if is_given else (None, found))
    return entries


def get_outside_maker(program: Program, found: Traced) -> str:
    """The name of what makes an object, such as `redis.Redis` of `redis.Redis().get(...)`; "" if the program does."""
    seen, rest = set[Any](), [found]
    while rest:
        node, at = rest.pop()[:2]
        if isinstance(node, Outside):
            return node.name
        inner = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
        if isinstance(inner, ast.AST) and (inner, at.key) not in seen:
            seen.add((inner, at.key))
            rest += reversed(program.trace(inner, at))
    return ""


def is_within(namespace: Sequence[ast.expr], prefix: Sequence[ast.expr]) -> bool:
    """Whether a namespace of a store may begin with another."""
    parts = [part.elts for part in (*namespace, *prefix) if isinstance(part, ast.Tuple)]
    pairs = zip(*parts, strict=False) if len(parts) == 2 else ()
    return all(not is_text(part) or not is_text(begin) or part.value == begin.value for part, begin in pairs)


@end_circles(list[tuple[Traced, Path]]())
def list_cut_files(program: Program, node: Any, at: Surroundings) -> list[tuple[Traced, Path]]:
    """List the files of the program of which a value is a part, each with the call that reads it."""
    if isinstance(node, ast.Call):
        read = prompt_files.find_read(program, node, at) or prompt_files.find_opened(program, Traced(node, at))
        files = prompt_files.list_files(program, *read) if read is not None else []
        if files:
            return [(Traced(node, at), path) for path in files]
        parts = [getattr(node.func, "value", None), *node.args]
    else:
        parts = [node.source if isinstance(node, Element) else getattr(node, "value", None)]
    inner = (found for part in parts if isinstance(part, ast.expr) for found in program.trace(part, at))
    return [cut for found in inner for cut in list_cut_files(program, found.node, found.at)]


@end_circles(False)
def is_fixed(program: Program, node: Any, at: Surroundings) -> bool:
    """Whether an expression is made of constants and of names of others, and of nothing that a run or a loop gives."""
    for found in program.trace(node, at):
        made, parts = found.node, list[Any]()
        if isinstance(made, ast.Call):
            parts = [*made.args, *(keyword.value for keyword in made.keywords), getattr(made.func, "value", None)]
        elif isinstance(made, ast.Attribute | ast.Subscript):
            parts = [made.value, getattr(made, "slice", None)]
        elif isinstance(made, ast.List | ast.Tuple):
            parts = [*made.elts]
        elif not isinstance(made, Outside | ast.Constant | ast.Dict) or str(getattr(made, "name", "")).startswith(
            "os."
        ):
            return False  # os.environ
        if not all(is_fixed(program, part, found.at) for part in parts if part is not None):
            return False
    return True


def list_sources(text: FileText | Traced) -> list[str]:
    """List the literals of which a template is made; that of a file is one."""
    if isinstance(text, FileText):
        return [text.text]
    parts = ast.walk(text.node) if isinstance(text.node, ast.AST) else ()
    return [part.value for part in parts if is_text(part)]


def is_marker(program: Program, node: ast.Call, at: Surroundings) -> bool:
    """Whether a call is `selfwire.text(name, text)` with both as literals."""
    if len(node.args) != 2 or not all(map(is_text, node.args)) or get_last_name(node.func) != "text":
        return False
    makers = (get_outside_maker(program, found) for found in program.trace(node.func, at))
    return any(maker.partition(".")[0] == "selfwire" for maker in makers)


def is_foreign(name: str) -> bool:
    """Whether a name belongs to a package that is neither Python's nor one of LangChain's."""
    package = name.partition(".")[0]
    return "." in name and package not in sys.stdlib_module_names and package not in FRAMEWORKS


BY_COMPUTED_NAME = "that is imported by a computed name"
COPIED = "copy the text into a constant or a file of the program"
PLAIN = "write the text as it is, as a constant or in a file of the program"
ORIGINS: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (is_foreign, "another package", COPIED),
    (
        lambda name: name.startswith("configparser."),
        "an INI file",
        "keep it under a key of a YAML, JSON or TOML file, or in a file of its own",
    ),
    (lambda name: name.startswith(DATABASES), "a database", "keep the text in a constant or a file of the program"),
    (
        lambda name: name.endswith("import_module"),
        f"a module {BY_COMPUTED_NAME}",
        "import the module by a statement",
    ),
    (lambda name: name == "exec", "code in a text", PLAIN),
)
"""What makes a text that the source does not hold, by the maker's name; where it comes from, and the way out."""
DECODED: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (lambda name: name.startswith((*DECODERS, *LOADERS)), "a decoder", PLAIN),
    (lambda name: name == "eval", "code in a text", PLAIN),
)
"""What makes of constants a text that the source holds in another form."""
FETCHED: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (lambda name: name.startswith(NETWORK), "the network", COPIED),
    (lambda name: name.startswith("subprocess."), "another program", COPIED),
    (lambda name: name.startswith("importlib.metadata."), "another package", COPIED),
)
"""What makes of constants a text that the source does not hold; as a part of a message it is data."""


def shorten_source(node: ast.AST) -> str:
    """Format an expression in at most 60 characters."""
    return textwrap.shorten(ast.unparse(node), 60, placeholder="...")


def change(text: str, changes: tuple[str, ...]) -> str:
    """Change the white space of a text as the program does."""
    for name in changes:
        text = CHANGES[name](text)
    return text


def squeeze(text: str) -> str:
    """Put one space in place of all white space between words."""
    return " ".join(text.split())


CHANGES: dict[str, Callable[[str], str]] = {
    "dedent": textwrap.dedent,
    "cleandoc": inspect.cleandoc,
    "squeeze": squeeze,
    "strip": str.strip,
    "lstrip": str.lstrip,
    "rstrip": str.rstrip,
    "lower": str.lower,
    "upper": str.upper,
}


def find_collection(node: Any) -> ast.expr | None:
    """Find the collection that a loop, an index or a slice takes from, as `items` in `enumerate(sorted(items))`."""
    taken: Any
    taken, path = (node.source, node.path) if isinstance(node, Element) and node.loop else (node, ())
    while taken is not None:
        name = get_last_name(taken.func) if isinstance(taken, ast.Call) else ""
        if name in ("zip", "enumerate") and path:
            number, path = path[0] - (name == "enumerate"), path[1:]
            taken = taken.args[number] if 0 <= number < len(taken.args) else None
        elif name in LISTS and name != "chain" and taken.args:
            taken = taken.args[0]
        elif name == "values" or (name == "items" and path[:1] == (1,)):
            taken, path = getattr(taken.func, "value", None), path[name == "items" :]
        elif isinstance(taken, ast.BoolOp):
            taken = taken.values[0]
        elif isinstance(taken, ast.Subscript) and not is_text(taken.slice) and not isinstance(taken.slice, ast.Name):
            taken = taken.value
        else:
            break
    return None if path or taken is node else taken


def join_constants(node: ast.expr) -> str | None:
    """Join a sum, or a literal list, of constant texts; None if a part is none."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
        separator, given = node.func.value, node.args[0]
        parts = given.elts if isinstance(given, ast.List | ast.Tuple) else [separator]
        texts = [part.value for part in parts if is_text(part)]
        is_whole = isinstance(given, ast.List | ast.Tuple) and len(texts) == len(parts)
        return separator.value.join(texts) if is_whole and is_text(separator) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = join_constants(node.left), join_constants(node.right)
        return None if left is None or right is None else left + right
    return node.value if is_text(node) else None


def list_values(node: ast.expr | None) -> list[ast.expr]:
    """The values of a literal dict."""
    return list(node.values) if isinstance(node, ast.Dict) else []


def is_curly(mark: ast.expr | None) -> bool:
    """Whether a word that code replaces is a computed name between two braces, as `"{{" + key + "}}"`."""
    parts = list_summands(mark)
    ends = [part.value.strip() for part in (*parts[:1], *parts[-1:]) if is_text(part)]
    return len(parts) > 1 and ends == ["{{", "}}"]


def tell_mode(prompt: ast.Call) -> str:
    """Tell how the holes of a prompt template are written."""
    written = get_keywords(prompt).get("template_format")
    return "curly" if is_text(written) and written.value != "f-string" else "format"


def read_names(text: str, mode: str) -> set[str] | None:
    """Read the names in the holes of a text; None if it may have other holes."""
    holes = split_template(text, mode)[1]
    if any(GAP in hole for hole in holes):
        return None
    if mode == "format" and not holes and re.search("[{}]", re.sub(r"\{\{|\}\}", "", text)):
        return None  # it is the part of a hole
    if mode == "percent" and (len(holes) != text.count("%(") or any(map(str.isdigit, holes))):
        return None
    if mode == "curly" and any(hole.startswith(("include", "extends", "import", "from")) for hole in holes):
        return None
    return {name for hole in holes for name in (hole, *WORDS.findall(hole))}


def unite_names(parts: Iterable[set[str] | None]) -> set[str] | None:
    """Unite the names in the holes of the parts of a text; None if those of a part are not known."""
    known = [*parts]
    return set[str]().union(*filter(None, known)) if known and None not in known else None


def split_template(text: str, mode: str) -> Split:
    """Split a template into its static pieces and the names of its holes."""
    first, _, others = mode.partition("+")
    if others:
        outer, names = split_template(text, first)
        parts, all_names = list[str](), list[str]()
        for number, piece in enumerate(outer):
            inner, own = split_template(piece, others)
            parts += inner
            for name in (*own, *names[number : number + 1]):  # both kinds may have holes without names
                all_names.append(str(len(all_names)) if name.isdigit() else name)
        return tuple(parts), tuple(all_names)
    if mode == "format":
        return _split_format(text)
    pattern = HOLES.get(mode)
    if pattern is None:
        return (text,), ()
    pieces, holes, end = [""], list[str](), 0
    for match in pattern.finditer(text):
        pieces[-1] += text[end : match.start()]
        end = match.end()
        if match[0] in ESCAPES:
            pieces[-1] += match[0][0]
        else:
            holes.append(next(filter(None, match.groups()), str(len(holes))))
            pieces.append("")
    return (*pieces[:-1], pieces[-1] + text[end:]), tuple(holes)


def compile_mark(pattern: str) -> list[re.Pattern[str]]:
    """Compile the pattern of the words that a program replaces; nothing where it is none, or is of no words."""
    try:
        return [re.compile(pattern)] if LETTERS.search(pattern) else []
    except re.error:
        return []


def split_marks(pieces: tuple[str, ...], holes: tuple[str, ...], marks: Iterable[str | re.Pattern[str]]) -> Split:
    """Split pieces further where the program replaces words."""
    given = [*marks]
    words = sorted((mark for mark in given if isinstance(mark, str)), key=len, reverse=True)
    patterns = [re.compile("|".join(map(re.escape, words)))] if words else []
    patterns += [mark for mark in given if isinstance(mark, re.Pattern) and not matches_each_word(mark, pieces)]
    parts, names = list[str](), list[str]()
    for number, piece in enumerate(pieces):
        found, end = [match for pattern in patterns for match in pattern.finditer(piece)], 0
        for match in sorted(found, key=lambda match: (match.start(), -match.end())):
            if match.start() >= end and LETTERS.search(match[0]):
                parts.append(piece[end : match.start()])
                names.append(match[0])
                end = match.end()
        parts.append(piece[end:])
        names += holes[number : number + 1]
    return tuple(parts), tuple(names)


def matches_each_word(pattern: re.Pattern[str], pieces: Iterable[str]) -> bool:
    """Whether a pattern, such as that of any word, leaves nothing of a text; a hole alone has marks around its name."""
    texts = [*pieces]
    words = [match[0] for text in texts for match in pattern.finditer(text) if match[0]]
    are_plain = all(word[0].isalnum() and word[-1].isalnum() for word in words)
    return are_plain and not any(LETTERS.search(pattern.sub("", text)) for text in texts)


def _split_format(text: str) -> Split:
    pieces, holes = [""], list[str]()
    try:
        for static, name, _, _ in string.Formatter().parse(text):
            pieces[-1] += static
            if name is not None:
                holes.append(name or str(len(holes)))
                pieces.append("")
    except ValueError:
        return (text,), ()
    return tuple(pieces), tuple(holes)


def _split_holes(pieces: tuple[str, ...], names: tuple[str, ...], holes: list[str]) -> Split:
    """Split pieces of a template further, at the holes of an f-string inside them."""
    parts, all_names = list[str](), list[str]()
    left = list(holes)
    for index, piece in enumerate(pieces):
        split = piece.split(GAP)
        parts += split
        all_names += [left.pop(0) for _ in split[1:]] + list(names[index : index + 1])
    return tuple(parts), tuple(all_names)


def count_characters(lines: list[str], line: int, column: int) -> int:
    """Convert a column in bytes to one in characters."""
    text = lines[line - 1] if line <= len(lines) else ""
    return column if text.isascii() else len(text.encode()[:column].decode(errors="replace"))


HANDLERS: dict[type, Any] = {
    ast.Constant: TextFinder._follow_constant,
    ast.JoinedStr: TextFinder._follow_f_string,
    ast.BinOp: TextFinder._follow_operation,
    ast.List: TextFinder._follow_parts,
    ast.Tuple: TextFinder._follow_parts,
    ast.Set: TextFinder._follow_parts,
    ast.Dict: TextFinder._follow_dict,
    ast.ListComp: TextFinder._follow_comprehension,
    ast.DictComp: TextFinder._follow_made_dict,
    ast.GeneratorExp: TextFinder._follow_comprehension,
    ast.Call: TextFinder._follow_call,
    Instance: TextFinder._follow_object,
    **dict.fromkeys((*Function.__args__, BoundMethod), TextFinder._follow_function),
}
"""How the texts of an expression are found, by its kind."""
CALLS: dict[str, Any] = {
    **dict.fromkeys((*PROMPTS, *MAKERS), TextFinder.follow_prompt),
    **dict.fromkeys(MESSAGES, TextFinder.follow_message),
    "format": TextFinder._follow_format,
    "format_map": TextFinder._follow_format,
    "vformat": TextFinder._follow_format,
    "substitute": TextFinder._follow_substitution,
    "safe_substitute": TextFinder._follow_substitution,
    "render": TextFinder._follow_substitution,
    "join": TextFinder._follow_join,
    "dedent": TextFinder._follow_dedent,
    "getdoc": TextFinder._follow_docstring,
    "cleandoc": TextFinder._follow_dedent,
    "replace": TextFinder._follow_replaced,
    "cast": TextFinder._follow_cast,
    "sub": TextFinder._follow_substituted,
    "normalize": TextFinder._follow_last,
    **dict.fromkeys(("indent", "fill", "StringIO"), TextFinder._follow_dedent),
    "getenv": TextFinder._follow_environment,
    "text": TextFinder._follow_marker,
    "get": TextFinder._follow_got,
    **dict.fromkeys((*UNCHANGED, "lower", "upper", "getvalue"), TextFinder._follow_changed),
    **dict.fromkeys(PASSED_ON, TextFinder._follow_arguments),
    **dict.fromkeys(("Document", "from_texts", "from_documents"), TextFinder._follow_documents),
    **dict.fromkeys(SEARCHES, TextFinder._follow_changed),
    **dict.fromkeys(VIEWS, TextFinder._follow_view),
    **dict.fromkeys(
        ("invoke", "ainvoke", "format_messages", "format_prompt", "partial", "to_messages", "to_string"),
        TextFinder._follow_asked_prompt,
    ),
}
"""How the texts of a call's result are found, by the name of the function."""


def quote_text(body: str, prefix: str = "", *, is_docstring: bool = False) -> str:
    """Write a literal with double quotes: of a line if it is short and no docstring, else of several."""
    if not is_docstring and "\n" not in body and len(body) < WIDTH and not {'"', "\\"} & set(body):
        return f'{prefix}"{body}"'
    safe = body.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if safe.endswith('"'):
        safe = f'{safe[:-1]}\\"'
    return f'{prefix}"""{safe}"""'
