"""Results of a confirming run: the nodes that sent each text, and the texts that were not reached."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from textwrap import shorten

from selfwire.core.values import FrozenModel, format_count, mask_controls
from selfwire.extras.adopt.inventory import ProgramEdge, ProgramText
from selfwire.extras.adopt.page import ENDS, Inventory, format_text


class Sent(FrozenModel):
    """The requests of a node that carried a text.

    Attributes:
        count: of its requests with the text.
        of: all requests of the node.
    """

    node: str
    count: int
    of: int


class TextCheck(FrozenModel):
    """A text of the inventory, and where it was sent.

    Attributes:
        place: file and line, as `shop.py:4`.
        unreached: why no request carried it, and what would; "" if one did.
    """

    place: str
    text: str
    sent: tuple[Sent, ...] = ()
    unreached: str = ""


class Confirmation(FrozenModel):
    """Results of some runs on canned replies.

    Attributes:
        runs: how many were made.
        requests: how many would have been sent.
        texts: as in the inventory.
        unknown: texts of requests that the inventory has not, each after the node that sent it.
        refused: what the program tried and was not let do, each after its file and line.
        failed: how runs ended early, each after file and line.
        stopped: why no further runs were made; "" if enough were.
    """

    runs: int
    requests: int
    texts: tuple[TextCheck, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    stopped: str = ""

    def __str__(self) -> str:
        """The page of `selfwire adopt --confirm`."""
        return format_confirmation(self)


class RequestLog:
    """The requests of all runs."""

    def __init__(self) -> None:
        self._found = defaultdict[int, Counter[str]](Counter)
        self._sent = Counter[str]()

    def add(self, node: str, found: Collection[int]) -> None:
        """Note which texts a request of a node carried."""
        self._sent[node] += 1
        for number in found:
            self._found[number][node] += 1

    @property
    def total(self) -> int:
        """How many requests there were."""
        return self._sent.total()

    def list_sent(self, number: int) -> tuple[Sent, ...]:
        """List the nodes that sent a text."""
        return tuple(Sent(node=node, count=n, of=self._sent[node]) for node, n in self._found[number].items())


def tell_unreached(
    text: ProgramText, inventory: Inventory, visited: Collection[str], called: Collection[str], *, calls_tools: bool
) -> str:
    """Tell why no request carried a text, and what would.

    Args:
        visited: paths of the nodes that ran.
        called: names of the tools that ran.
        calls_tools: whether those that canned replies call are run.
    """
    if text.is_past:
        return "only a client that is not LangChain's sends it, and none of those was let send"
    tools = [user.removeprefix("tool ") for user in text.used_by if user.startswith("tool ")]
    nodes = [user.removeprefix("node ") for user in text.used_by if user.startswith("node ")]
    described = {tool.name for tool in inventory.tools if tool.description.split() == text.pieces[0].split()}
    if text.role == "schema":  # an agent sends it, which only a tool may ask
        tools = [] if nodes else [tool for tool in tools if tool not in described]
    if tools and not {*tools} & {*called}:
        way = "no canned reply has called it" if calls_tools else "--call-tools runs tools"
        return f"the tool {tools[0]} was not run; {way}"
    last = {part for name in visited for part in name.split("/")}
    if len(inventory.nodes) == 1 and visited:
        last.add(inventory.nodes[0].name)  # an agent, whose own nodes are called model and tools
    missed = [name for name in nodes if name.rpartition("/")[2] not in last]
    if nodes and len(missed) == len(nodes):
        return f"the node {missed[0]} was not run; {_tell_way(missed[0], inventory.edges)}"
    if nodes:
        return f"the node {nodes[0]} ran without it; a state or setting that its code asks for would bring it"
    if tools:
        return f"the tool {tools[0]} ran without it; arguments or a state that its code asks for would bring it"
    return "no node that uses it is known; it may be left over"


def _tell_way(node: str, edges: Iterable[ProgramEdge]) -> str:
    """Tell which edges lead to a node."""
    graph, _, name = node.rpartition("/")
    ways = [edge for edge in edges if edge.graph == graph and name in edge.ends]
    if not ways:
        return "no edge to it is known"
    way = min(ways, key=lambda edge: len(edge.ends))
    source = ENDS.get(way.source, way.source)
    where = f"{way.file}:{way.line}"
    if len(way.ends) == 1 and not way.router:
        return f"it comes after {source} ({where})"
    return f"{way.router or source} decides about it ({where}), and no canned reply led there; try another --question"


def format_confirmation(found: Confirmation) -> str:
    """Format what was confirmed for people: a line for each text, then what was not reached, unknown or refused."""
    reached = sum(bool(text.sent) for text in found.texts)
    runs, requests = format_count(found.runs, "run"), format_count(found.requests, "request")
    lines = [f"imported and run on canned replies: {runs}, {requests}, none of them sent"]
    sections: Mapping[str, list[tuple[str, str]]] = {
        "sent": [(t.place, f"{_quote(t.text)}  by {_list_senders(t)}") for t in found.texts if t.sent],
        "not reached": [(t.place, f"{_quote(t.text)}  {t.unreached}") for t in found.texts if not t.sent],
        "sent, but not in the inventory": [(node or "-", _quote(text)) for node, text in found.unknown],
        "not allowed": [(place or "-", what) for place, what in found.refused],
        "ended early": [(place or "-", why) for place, why in found.failed],
    }
    for title, rows in sections.items():
        width = max((len(place) for place, _ in rows), default=0)
        lines += ["", title, *(f"  {place.ljust(width)}  {what}" for place, what in rows)] if rows else []
    end = f"{reached} of {format_count(len(found.texts), 'text')} confirmed"
    return mask_controls("\n".join([*lines, "", f"{end}; {found.stopped}" if found.stopped else end]))


def _quote(text: str) -> str:
    return repr(shorten(text, 48, placeholder="..."))


def _list_senders(text: TextCheck) -> str:
    named = (f"{sent.node or 'the graph'}, {sent.count} of {format_count(sent.of, 'request')}" for sent in text.sent)
    return "; ".join(named)


def check_texts(
    inventory: Inventory, log: RequestLog, visited: Collection[str], called: Collection[str], *, calls_tools: bool
) -> tuple[TextCheck, ...]:
    """Tell of each text of an inventory where it was sent, or why it was not."""
    checks = []
    for number, text in enumerate(inventory.texts):
        sent = log.list_sent(number)
        why = "" if sent else tell_unreached(text, inventory, visited, called, calls_tools=calls_tools)
        place = f"{text.file}:{text.line}"
        checks.append(TextCheck(place=place, text=format_text(text), sent=sent, unreached=why))
    return tuple(checks)
