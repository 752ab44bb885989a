"""A layer between code that asks chat models and these models: it replaces texts in what is sent, in one context alone.

The code that asks is not touched, so that a graph of somebody else's runs with other prompts, and two variants of it
side by side. A text is known by its static pieces: between two of them the program has filled a hole. Prompts are found
in messages; a description of a tool is found where a request offers the tool, and nowhere else.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from inspect import signature
from itertools import accumulate
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables.config import ensure_config

from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.models.providers import get_identity, rename_model

WORD = re.compile(r"[^\W\d_]{3}")
"""Letters that a piece between two holes must have, or what fills a hole could hold it too."""
BLOCK = re.compile(r"(end)?(if|for|call|filter|with|macro|block)\b|([#^/])\s*(\w+)")
"""The first word of a hole that begins or ends a block of a Jinja template, or a section of mustache."""
TAG = re.compile(r"\{(?:(?:end)?(?:if|for|call|filter|with|macro|block|include|extends|import|from|set)\b|[#^/])")
"""A hole that is no value, around which a template may take white space off."""
OFFERING = ("tools", "functions", "response_format")
"""Arguments of a request that offer tools, or have a model choose from them."""
LISTED = 120
"""Most characters between the name of a tool and its description in a prompt that lists tools."""
RECENT = 16
"""Texts put in last in a context, which a model that asks another one inside itself may hand on to it."""
ASKING = ("generate", "agenerate", "stream", "astream", "_chat_model_stream_v3", "_achat_model_stream_v3")
"""Methods of chat models that take these arguments; all other ways of asking go through one of them."""
TITLES = r"(?:Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):"
"""Titles of sections of a docstring; the text before them describes the tool."""
SECTION = re.compile(rf"(?:\A|\n)\s*(?:(?:Args|Returns|Example):|{TITLES}[ \t]*(?:\n|\Z))")
"""The first line of a section: a title alone, or one that LangChain's `parse_docstring` takes for one in any case."""


class LayerText(FrozenModel):
    """A text that a program sends, cut where its holes can be told apart.

    Args:
        name: unique in a layer.
        pieces: static pieces, at least one; between two of them is a hole.
        holes: between the pieces, as a person reads them, such as {question}.
        before, after: a hole at the beginning and at the end, which stays there; "" if there is none.
        keeps: words that must stay, as the program compares with them.
        place: file and line, for people.
        tool: name of the tool that it describes; "" for a prompt.
        is_marked: whether `selfwire.text` puts another text in its place, and this layer only finds it.
        is_whole: whether it is known only as the whole of a system message, as it is short.
        setting: field of the program's context whose value it is, which no request carries as a text; "" for a text.
        choices: how Python writes each value of a setting, by what people read; empty for a number.
        users: that send it, such as `node plan` or `tool search`; () if they are not known.
        leads_to: names of the prompts that the program may send next, "" for none before its end; of a prompt.
        is_first: whether the program may begin with it.
    """

    name: str
    pieces: tuple[str, ...]
    holes: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    keeps: tuple[str, ...] = ()
    place: str = ""
    tool: str = ""
    is_marked: bool = False
    is_whole: bool = False
    setting: str = ""
    choices: FrozenJson = FrozenMap()
    users: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()
    is_first: bool = False

    @property
    def is_prompt(self) -> bool:
        """Whether it is a prompt, and no description of a tool nor a setting."""
        return not (self.tool or self.setting)

    def read_value(self, shown: str) -> Any:
        """Read a value of a setting from what people read; of an Enum its value."""
        written = self.choices.get(shown, shown)
        try:
            return ast.literal_eval(written)
        except (ValueError, SyntaxError):
            return shown

    @classmethod
    def of(cls, name: str, pieces: Sequence[str], holes: Sequence[str]) -> "LayerText | None":
        """Cut a text at its holes; None if no piece has a word.

        Holes with no word between them, but a line break for example, are one hole, and so is a block of a Jinja
        template from `if` to `endif`, as it may be left out or sent several times. White space around the text is the
        program's and stays.
        """
        cut, marks = [pieces[0]], list[str]()
        for depth, hole, piece in zip(count_blocks(holes), holes, pieces[1:], strict=False):
            if marks and (depth or not WORD.search(cut[-1])):
                marks[-1] += f"{cut.pop()}{{{hole}}}"
            else:
                marks.append(f"{{{hole}}}")
            cut.append(piece)
        before = after = ""
        if marks and not WORD.search(cut[0]):
            before = cut.pop(0) + marks.pop(0)
        if marks and not WORD.search(cut[-1]):
            after = marks.pop() + cut.pop()
        if not all(map(WORD.search, cut)):
            return None
        if not before or TAG.search(before):
            before, cut[0] = before + cut[0][: -len(cut[0].lstrip())], cut[0].lstrip()
        if not after or TAG.search(after):
            after, cut[-1] = cut[-1][len(cut[-1].rstrip()) :] + after, cut[-1].rstrip()
        return cls(name=name, pieces=tuple(cut), holes=tuple(marks), before=before.lstrip(), after=after.rstrip())

    @property
    def shown(self) -> str:
        """The whole text as people and models read it, with its holes in braces."""
        inner = "".join(f"{piece}{hole}" for piece, hole in zip(self.pieces, (*self.holes, ""), strict=True))
        return f"{self.before}{inner}{self.after}"

    @property
    def placeholders(self) -> str:
        """Holes and words to be kept by another text for this one, a line each; "" if there are none."""
        edges = ((self.before.strip(), "at the beginning"), (self.after.strip(), "at the end"))
        begin, end = (f"{edge} ({place})" if edge else "" for edge, place in edges)
        words = (f"{word} (a word that the program compares with)" for word in self.keeps)
        return "\n".join(filter(None, (begin, *self.holes, end, *words)))

    def show(self, parts: Sequence[str | int]) -> str:
        """Write what `parse` has taken apart, with this text's own names of holes."""
        inner = "".join(part if isinstance(part, str) else self.holes[part] for part in parts)
        return f"{self.before}{inner}{self.after}"

    def parse(self, text: str) -> tuple[str | int, ...]:
        """Take another text for this one apart, into static pieces and numbers of holes; edges are left out.

        White space around the text does not count.

        Raises:
            ValueError: a hole is missing, is there too often or has left its edge, or a tool's description has a
                section such as `Args:`; the message names it.
        """
        text, before, after = (part.strip() for part in (text, self.before, self.after))
        if not text.startswith(before):
            raise ValueError(f"it must begin with {before!r}, which the program fills")
        if not text.endswith(after):
            raise ValueError(f"it must end with {after!r}, which the program fills")
        inner = text[len(before) : len(text) - len(after)]
        inner = inner.lstrip() if self.before[-1:].isspace() else inner
        found: list[str | int] = [inner.rstrip() if self.after[:1].isspace() else inner]
        for number, hole in enumerate(self.holes):
            places = [place for place, part in enumerate(found) if isinstance(part, str) and hole in part]
            if not places:
                raise ValueError(f"it must have {hole!r}, which the program fills, as often as before")
            head, _, tail = str(found[places[0]]).partition(hole)
            found[places[0] : places[0] + 1] = [head, number, tail]
        static = [part for part in found if isinstance(part, str)]
        again = [
            hole for hole in (*self.holes, self.before, self.after) if hole and any(hole in part for part in static)
        ]
        if again:
            raise ValueError(f"{again[0]!r}, which the program fills, stands in it too often")
        for word in self.keeps:
            if word in self.shown and not any(word in part for part in static):
                raise ValueError(f"{word!r}, which the program compares with, must stay")
        if self.tool and (section := SECTION.search(text)):
            raise ValueError(f"{section[0].strip()!r} begins a section, which stays in the source as it is")
        if not any(map(str.strip, static)):
            raise ValueError("it says nothing")
        return tuple(part for part in found if part != "")


def count_blocks(holes: Sequence[str]) -> list[int]:
    """Count the blocks of a Jinja template around each piece of it, such as from `if` to `endif`."""
    depths = [0]
    for hole in holes:
        block = BLOCK.match(hole)
        end = f"/{block[4]}" if block and block[4] else f"end{block[2]}" if block else ""
        change = 0 if block is None or end not in holes else -1 if block[1] or block[3] == "/" else 1
        depths.append(max(depths[-1] + change, 0))
    return depths


class TextLayer:
    """Texts to find in what is sent, and others to send in their place.

    Args:
        texts: to find.
        changed: by name, as `LayerText.shown` writes them.
        get_model: gets a model for what comes before the program has asked one; None if nothing asks `find_model`.
        models: "provider:model" by name of a text: what asks a model of the program with this text first asks that one.

    Attributes:
        models: as it was given.
        read: names of the marked texts that the program has read, in order.

    Raises:
        ValueError: a changed text lacks a hole; see `LayerText.parse`.
    """

    def __init__(
        self,
        texts: Iterable[LayerText],
        changed: Mapping[str, str] | None = None,
        get_model: Callable[[], BaseChatModel] | None = None,
        models: Mapping[str, str] = FrozenMap(),
    ) -> None:
        self._get_model, self._asked = get_model, dict[str, BaseChatModel]()
        self.models = models
        self._renamed = dict[tuple[int, str], tuple[BaseChatModel, BaseChatModel]]()  # with the model, whose id stays
        self._copies = dict[int, BaseChatModel]()  # by id
        known = {text.name: text for text in texts}
        self._changed = {name: known[name].parse(text) for name, text in (changed or {}).items()}
        # the longest comes first, so that no text is taken for a part of it
        prompts = (text for text in known.values() if not (text.tool or text.is_whole))
        self._texts = sorted(prompts, key=lambda text: -sum(map(len, text.pieces)))
        self._made = dict[int, str]()  # by identity, as another message may have an equal text of the program's
        self._before = _compile({n: text.pieces for n, text in enumerate(self._texts) if not text.is_marked})
        self._after = _compile(
            {
                n: _join_pieces(self._changed[text.name]) if text.name in self._changed else text.pieces
                for n, text in enumerate(self._texts)
            }
        )
        self._whole = {text.shown: text.name for text in known.values() if text.is_whole}
        self._whole_after = {self._show_whole(name): name for name in self._whole.values()}
        self._marked = {text.shown: text.name for text in self._texts if text.is_marked}
        self.read = dict[str, None]()
        self._tools = {text.name: text for text in known.values() if text.tool}
        self._new = {name: "".join(map(str, self._changed[name])) for name in self._tools if name in self._changed}
        self._described = {name: _compile_description(text.shown) for name, text in self._tools.items()}
        self._listed = _compile_listed([self._tools[name] for name in self._new], self._tools.values())
        self._describing = {**self._described, **{name: _compile_description(new) for name, new in self._new.items()}}

    def find(self, messages: Sequence[BaseMessage], offered: Any = ()) -> tuple[str, ...]:
        """Find the texts in what is sent; returns their names in order.

        Args:
            offered: tools as the request offers them.
        """
        return tuple(self.list_given(messages, offered))

    def list_given(self, messages: Sequence[BaseMessage], offered: Any = ()) -> dict[str, list[str]]:
        """List the texts in what is sent, in order, each with what fills its holes and stands around it.

        What a person says in a message without a text of its own is given to the first of the texts.

        Args:
            offered: tools as the request offers them.
        """
        given, loose = dict[str, list[str]](), list[str]()
        for message in messages:
            for text in list_message_texts(message):
                whole = self._whole_after.get(text.strip()) if message.type == "system" else None
                found = [*self._find_inside(text)] if whole is None else [(whole, list[str]())]
                loose += [text] if not found and message.type == "human" else []
                for name, filled in found:
                    given.setdefault(name, []).extend(part for part in filled if part.strip())
        if given:
            next(iter(given.values())).extend(loose)
        for tool, text in _list_descriptions(offered):
            given |= {name: [] for name in self._list_describing(tool, text, self._describing) if name not in given}
        return given

    def _find_inside(self, text: str) -> Iterator[tuple[str, list[str]]]:
        """Find the texts in another, and in what fills their holes, each with that and with what stands around it."""
        matches = [*self._after.finditer(text)]
        ends = [*(match.start() for match in matches[1:]), len(text)]
        before = text[: matches[0].start()] if matches else ""
        for match, end in zip(matches, ends, strict=True) if matches else ():
            filled = _list_filled(match)
            yield self._texts[_get_number(match)].name, [before, *filled, text[match.end() : end]]
            before = ""
            for part in filled:
                yield from self._find_inside(part)

    def rewrite(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages with changed texts in place of the program's; those without any are the same objects."""
        return [self._rewrite(message) for message in messages]

    def rewrite_tools(self, offered: Any) -> Any:
        """Tools as a request offers them, with changed descriptions; the same object if none has changed.

        Every text under `description` counts, so that the form of the provider does not matter.
        """
        if isinstance(offered, Mapping):
            new: Any = {
                key: self._describe(_get_tool(offered), part)
                if key == "description" and isinstance(part, str)
                else self.rewrite_tools(part)
                for key, part in offered.items()
            }
        elif isinstance(offered, list | tuple):
            new = type(offered)(map(self.rewrite_tools, offered))
        else:
            return offered
        return offered if new == offered else new

    def _list_describing(self, tool: str, text: str, patterns: Mapping[str, re.Pattern[str]]) -> list[str]:
        """List the texts that a description may be, by patterns of them: those of its tool if there are any."""
        found = [name for name, pattern in patterns.items() if pattern.match(text)]
        own = [n for n in found if self._tools[n].tool == tool or f"tool {tool}" in self._tools[n].users]
        return own or found

    def _describe(self, tool: str, text: str) -> str:
        """Replace a description; sections of a docstring behind it stay."""
        if id(text) in self._made:
            return text
        for name in self._list_describing(tool, text, self._described):
            if name in self._new and (found := self._described[name].match(text)):
                old, new = self._tools[name].shown, self._new[name]
                # a docstring's indentation is sent, and is written in the source
                new = re.sub(r"\n(?=[^\n])", f"\n{' ' * (get_margin(text) - get_margin(old))}", new)
                if "\n\n" in old and "\n\n" not in found[0]:  # LangChain joins the paragraphs of some docstrings
                    new = new.replace("\n\n", " ")
                begin = text[: len(text) - len(text.lstrip())]
                return self._note_made(begin + new + text[found.end() :])
        return text

    def _note_made(self, text: str) -> str:
        made = text[:1] + text[1:]  # an object of its own, whatever Python shares
        self._made[id(made)] = made
        return made

    @contextmanager
    def active(self) -> Iterator[None]:
        """Rewrite what chat models are sent in this context, and in the tasks and pools of threads that it starts."""
        with carry_context():
            if not (self._changed or self._marked or self.models) and self._get_model is None:
                yield
                return
            install()
            token = _ACTIVE.set(self)
            try:
                yield
            finally:
                _ACTIVE.reset(token)

    def read_marked(self, text: str) -> str:
        """Replace a marked text, and keep the white space around it; return any other text unchanged."""
        known = self._marked.get(text.strip())
        if known is None:
            return text
        self.read[known] = None
        changed = "".join(map(str, self._changed.get(known, (text.strip(),))))
        return text.replace(text.strip(), changed)

    def note_model(self, model: BaseChatModel) -> None:
        """Note a model of the program by the node of the graph that asks it."""
        if self._get_model is not None:
            node = get_node(ensure_config().get("metadata"))
            self._asked.pop(node, None)
            self._asked[node] = model

    def find_model(self, node: str) -> BaseChatModel:
        """Find the model that a node has asked; else the last that any has, else the one to get."""
        assert self._get_model is not None, "it was told how to get one"
        last = [*self._asked.values()][-1:]  # read at once, as threads add to it
        return self._asked.get(node) or next(iter(last), None) or self._get_model()

    def choose_model(self, model: BaseChatModel, messages: Sequence[BaseMessage]) -> BaseChatModel:
        """Choose the model that gets a request: that of its first text, else the one that is asked.

        Raises:
            ConfigError: as `rename_model`.
        """
        if id(model) in self._copies:
            return model
        name = self.models.get(next(iter(self.find(messages)), ""), "")
        if not name:
            return model
        if (id(model), name) not in self._renamed:
            made = rename_model(model, name)
            self._copies[id(made)] = made
            self._renamed[id(model), name] = model, made
        return self._renamed[id(model), name][1]

    def _rewrite(self, message: BaseMessage) -> BaseMessage:
        old: Any = message.content
        swap = self._swap_system if message.type == "system" and self._whole else self._swap
        new = swap(old) if isinstance(old, str) else [_rewrite_block(block, swap) for block in old]
        return message if new == old else message.model_copy(update={"content": new})

    def _swap_system(self, text: str) -> str:
        """Replace a text of a system message as a whole if it is known so, else as in any message."""
        name = self._whole.get(text.strip())
        if name is None or id(text) in self._made:
            return self._swap(text)
        return self._note_made(text.replace(text.strip(), self._show_whole(name))) if name in self._changed else text

    def _show_whole(self, name: str) -> str:
        """Show a text that is known as a whole as it is sent."""
        shown = next(text for text, known in self._whole.items() if known == name)
        return "".join(map(str, self._changed.get(name, (shown,))))

    def _swap(self, text: str) -> str:
        """Replace all at once and only once: some models convert what they send a second time."""
        if id(text) in self._made:
            return text
        parts = [*self._cut(text)]
        new = "".join(part for part, _ in parts)
        if self._new:
            ends = accumulate(len(part) for part, _ in parts)
            made = [range(end - len(part), end) for (part, is_made), end in zip(parts, ends, strict=True) if is_made]

            def describe(match: re.Match[str]) -> str:
                before, words = f"b{_get_number(match)}", str(match.lastgroup)
                if any(match.start(words) in span for span in made):
                    return match[0]
                return match[before] + [*self._new.values()][_get_number(match)]

            new = self._listed.sub(describe, new)
        if new == text:
            return text
        if not self._before.fullmatch(new):  # as it may be the program's own, where two texts are exchanged
            _MADE.set(((self, new), *_MADE.get())[:RECENT])
        return self._note_made(new)

    def _cut(self, text: str) -> Iterator[tuple[str, bool]]:
        """Cut a text into parts, changed or not, and whether each is made; what fills a hole may hold another text.

        What another model has been sent already, as one that asks another inside itself does, stays as it is.
        """
        sent = [span for layer, made in _MADE.get() if layer is self for span in _list_spans(made, text)]
        end = 0
        for match in self._before.finditer(text):
            yield text[end : match.start()], False
            if any(first <= match.start() and match.end() <= last for first, last in sent):
                yield match[0], True
                end = match.end()
                continue
            found, filled, end = self._texts[_get_number(match)], _list_filled(match), match.end()
            if is_changed := found.name in self._changed:
                parts: Iterable[str | int] = self._changed[found.name]
            else:
                parts = [part for number, piece in enumerate(found.pieces) for part in (piece, number)][:-1]
            for part in parts:
                if isinstance(part, str):
                    yield part, is_changed
                else:
                    yield from self._cut(filled[part])
        yield text[end:], False


def _list_spans(part: str, text: str) -> Iterator[tuple[int, int]]:
    """List where a text has another one in it."""
    start = text.find(part) if part else -1
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + len(part))


def _compile(texts: Mapping[int, Sequence[str]]) -> re.Pattern[str]:
    """A pattern of texts by their numbers, each a group that is called by it, around groups of its holes."""
    groups = [f"(?P<t{number}>{'(.*?)'.join(map(re.escape, pieces))})" for number, pieces in texts.items()]
    return re.compile("|".join(groups) or r"(?!)", re.DOTALL)


def _compile_description(text: str) -> re.Pattern[str]:
    """A pattern of a whole description, with any white space between its words, before the sections of a docstring."""
    return re.compile(rf"\s*{_compile_words(text).pattern}(?=\s*\Z|\s+{TITLES})")


def _compile_words(text: str) -> re.Pattern[str]:
    """A pattern of a text with any white space between its words."""
    return re.compile(r"\s+".join(map(re.escape, text.split())))


def _compile_listed(changed: Sequence[LayerText], tools: Collection[LayerText]) -> re.Pattern[str]:
    """A pattern of the descriptions that change, by their numbers, where a prompt lists tools.

    Between a tool and its description stands no tool that is described alike, and no other description that changes.
    """
    groups = list[str]()
    for number, text in enumerate(changed):
        alike = [re.escape(other.tool) for other in tools if other.shown == text.shown and other.tool != text.tool]
        begins = [
            r"\s+".join(map(re.escape, other.shown.split()[:4])) for other in changed if other.shown != text.shown
        ]
        between = "".join([*(rf"(?!\b{name}\b)" for name in alike), *(f"(?!{begin})" for begin in begins)])
        name = rf"(?P<b{number}>\b{re.escape(text.tool)}\b(?:{between}.){{0,{LISTED}}}?)"
        groups.append(f"{name}(?P<w{number}>{_compile_words(text.shown).pattern})")
    return re.compile("|".join(groups) or r"(?!)", re.DOTALL)


def get_margin(text: str) -> int:
    """Count the spaces before each line of a text but the first."""
    lines = (line for line in text.split("\n")[1:] if line.strip())
    return min((len(line) - len(line.lstrip()) for line in lines), default=0)


def _get_tool(offered: Mapping[Any, Any]) -> str:
    """Read the name of the tool that stands beside a description; "" if there is none."""
    name = offered.get("name")
    return name if isinstance(name, str) else ""


def _rewrite_block(block: Any, swap: Callable[[str], str]) -> Any:
    if isinstance(block, str):
        return swap(block)
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return {**block, "text": swap(block["text"])}
    return block


def _list_descriptions(offered: Any) -> Iterator[tuple[str, str]]:
    """List all texts under `description` in tools as a request offers them, each behind the name beside it."""
    if isinstance(offered, Mapping):
        for key, part in offered.items():
            if key == "description" and isinstance(part, str):
                yield _get_tool(offered), part
            else:
                yield from _list_descriptions(part)
    elif isinstance(offered, list | tuple):
        for part in offered:
            yield from _list_descriptions(part)


def _get_number(match: re.Match[str]) -> int:
    assert match.lastgroup is not None, "each alternative is a group"
    return int(match.lastgroup[1:])


def _list_filled(match: re.Match[str]) -> list[str]:
    """Values in the holes of a found text; its groups follow its own and are empty for no other."""
    first = match.re.groupindex[str(match.lastgroup)] + 1
    later = [number for number in match.re.groupindex.values() if number >= first]
    return [match[number] for number in range(first, min([*later, match.re.groups + 1]))]


def _join_pieces(parts: Sequence[str | int]) -> list[str]:
    """Static pieces around holes; "" at an edge where a hole stands."""
    pieces = [""]
    for part in parts:
        if isinstance(part, str):
            pieces[-1] += part
        else:
            pieces.append("")
    return pieces


def list_message_texts(message: BaseMessage) -> Iterator[str]:
    """List the texts of a message's content, which may be a list of blocks."""
    blocks: Any = [message.content] if isinstance(message.content, str) else message.content
    for block in blocks:
        text = block if isinstance(block, str) else block.get("text")
        if isinstance(text, str):
            yield text


_MADE: ContextVar[tuple[tuple[TextLayer, str], ...]] = ContextVar("made_texts", default=())
_CARRIED: ContextVar[bool] = ContextVar("carried_context", default=False)
_submit = ThreadPoolExecutor.submit


@contextmanager
def carry_context() -> Iterator[None]:
    """Run what this context gives to a pool of threads in a copy of it, also by an event loop's `run_in_executor`.

    Python starts it in the pool's own context, in which neither a layer nor callbacks of LangChain's are known. A
    `threading.Thread` still starts without them.
    """
    ThreadPoolExecutor.submit = _submit_carried  # type: ignore[assignment, method-assign]
    token = _CARRIED.set(True)
    try:
        yield
    finally:
        _CARRIED.reset(token)


def _submit_carried(self: ThreadPoolExecutor, fn: Any, /, *args: Any, **given: Any) -> Future[Any]:
    """Submit as Python does; in a context that is carried, with a copy of it."""
    return (
        _submit(self, copy_context().run, fn, *args, **given) if _CARRIED.get() else _submit(self, fn, *args, **given)
    )


_ACTIVE: ContextVar[TextLayer | None] = ContextVar("text_layer", default=None)
_convert = BaseChatModel._convert_input


def _convert_input(self: BaseChatModel, model_input: Any) -> PromptValue:
    """LangChain's own, which every way of asking a chat model goes through, and then the layer of the context."""
    found, layer = _convert(self, model_input), _ACTIVE.get()
    if layer is None:
        return found
    layer.note_model(self)
    return ChatPromptValue(messages=layer.rewrite(found.to_messages()))


def get_node(metadata: Mapping[str, Any] | None) -> str:
    """The node of the outermost graph in which code runs, by the metadata that LangGraph gives it; "" outside one."""
    return str((metadata or {}).get("langgraph_checkpoint_ns", "")).partition("|")[0].partition(":")[0]


def get_layer() -> TextLayer | None:
    """The layer of the context; None if there is none."""
    return _ACTIVE.get()


def read_text(text: str) -> str:
    """Return a marked text, or what the layer of the context puts in its place; see `selfwire.text`."""
    layer = _ACTIVE.get()
    return text if layer is None else layer.read_marked(text)


def _wrap(ask: Any) -> Any:
    """A method of chat models, which offers tools as the layer of the context describes them, and asks its model."""
    first = next(name for name in signature(ask).parameters if name != "self")

    @wraps(ask)
    def offer(self: BaseChatModel, *args: Any, **given: Any) -> Any:
        if (layer := _ACTIVE.get()) is None:
            return ask(self, *args, **given)
        given.update({name: layer.rewrite_tools(given[name]) for name in OFFERING if name in given})
        if not layer.models:
            return ask(self, *args, **given)
        sent, *others = args or (given.pop(first),)
        if first == "input":
            sent = self._convert_input(sent).to_messages()
        chosen = layer.choose_model(self, sent[0] if first == "messages" and sent else sent)
        if chosen is self:
            return ask(self, sent, *others, **given)
        layer.note_model(chosen)
        if "model" in given:  # bound to the model
            given["model"] = get_identity(chosen).model
        return ask(chosen, sent, *others, **given)  # what a subclass does around it is done already

    return offer


def install(**below: Callable[[Any], Any]) -> None:
    """Put the layer under all chat models of this process, once; it does nothing in a context without one.

    Args:
        below: what the layer calls in place of methods of chat models, by their names, each made from the method.
    """
    is_new = BaseChatModel._convert_input is not _convert_input
    BaseChatModel._convert_input = _convert_input  # type: ignore[method-assign]
    for name in ASKING if is_new else below:
        if method := getattr(BaseChatModel, name, None):
            setattr(BaseChatModel, name, _wrap(below[name](method) if name in below else method))
