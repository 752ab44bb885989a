"""Values of an inventory: the nodes, edges, tools, models and texts of a program, each with its file and line."""

import re

from selfwire.core.values import FrozenJson, FrozenModel

SHORTEST = 12
"""Letters of the static pieces of a text from which on it is known inside a message."""
WORD = re.compile(r"[^\W\d_]{3}")
ADDRESS = re.compile(r"\w+://\S*")
"""A text that a program fetches from or puts into answers, and no prompt."""
KINDS = frozenset({"constant", "template", "f-string", "file", "default", "marked"})
ROLES = frozenset({"system", "user", ""})


class Placed(FrozenModel):
    """A thing of a program with its place.

    Attributes:
        file: path, relative to the working directory if it lies there.
        line: of its first line, from 1.
        end_line: of its last line.
    """

    file: str
    line: int
    end_line: int


class ProgramNode(Placed):
    """A node of a graph.

    Attributes:
        kind: function, lambda, partial, object, chain, tools, agent, subgraph, entrypoint, task or unknown.
        target: name of the function or class that it runs; file and line are those of the target.
        graph: the subgraph that has it; "" for the graph itself.
    """

    name: str
    kind: str
    target: str
    graph: str = ""


class ProgramEdge(Placed):
    """A way from a node to others.

    Attributes:
        ends: the nodes where it may lead; more than one where something decides.
        kind: data, if the builder holds its possible ends; code, if only a function's source shows them.
        shown_by: edge, entry, finish, sequence, mapping, annotation, returns, destinations, command, send, call or
            handoff.
        router: the function that decides; "" if none does.
        complete: whether all possible ends are known.
    """

    source: str
    ends: tuple[str, ...]
    kind: str
    shown_by: str
    router: str = ""
    complete: bool = True
    graph: str = ""


class ProgramInterrupt(Placed):
    """A place where the program waits for a person."""

    node: str
    kind: str
    graph: str = ""


class Subgraph(Placed):
    """A graph inside a node.

    Attributes:
        node: the node that has it, or whose function calls it.
        kind: node, if it was added as one; call, if a node's function invokes it.
    """

    name: str
    node: str
    kind: str
    graph: str = ""


class ProgramAgent(Placed):
    """An agent made by a function of LangChain or LangGraph, such as `create_agent`."""

    name: str
    maker: str
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


class ProgramTool(Placed):
    """A tool that a model may call.

    Attributes:
        kind: decorated, class, StructuredTool, function, schema or handoff.
        description: the text that a model reads; "" if the source does not show it.
        is_offered: whether a model may be given it; False where the source shows a `ToolNode` alone, which runs it.
    """

    name: str
    kind: str
    description: str
    is_offered: bool


class ProgramModel(Placed):
    """A chat model.

    Attributes:
        maker: the class or function that makes it, such as `ChatOpenAI`.
        names: the names of models that it may have; () if the source does not show them.
    """

    maker: str
    names: tuple[str, ...] = ()


class ProgramValue(Placed):
    """A default of a class of settings that is no prompt.

    Attributes:
        owner: the class.
        name: of the field.
        default: as Python writes it; "" if there is none.
        choices: values that the type allows, as Python writes them; () where it does not say.
        spelled: for a field of the context that the program reads, whose default is a number, a switch or one of some
            words: how Python writes each value by what people read; None for other fields, which are not evolved.
        column, end_column, first, last: where the default stands, from 0 and from line 1.
    """

    owner: str
    name: str
    default: str
    choices: tuple[str, ...] = ()
    spelled: FrozenJson | None = None
    column: int = 0
    end_column: int = 0
    first: int = 0
    last: int = 0


class ProgramText(Placed):
    """A text that can reach a model, where it stands in the source.

    Attributes:
        kind: constant, template, f-string, file, document, docstring, default, marked, tool description, field
            description, or field value, which is a default or an example.
        name: of the constant, field or key that holds it; "" if none does.
        role: system, user, assistant, tool result, schema or ""; how it reaches a model, where that is known.
        pieces: its static pieces in order; between two of them is a hole.
        holes: the expressions or names between the pieces.
        used_by: nodes, agents and tools, as `node plan`.
        signal: why it must not be changed, as the program compares with it; "" if nothing does.
        keeps: words of it that the program compares with.
        is_past: whether only a client that is not LangChain's sends it, so that no layer sees it.
        is_whole: whether it is a message wherever it is used, as far as the source shows, and no part of one.
        marker: its name in a call of `selfwire.text`; "" if it stands in none.
        is_marked: whether only that call puts another text in its place, as no model of LangChain's is known to get it.
        context_field: field of the graph's context whose default it is; "" if it is none's.
        column: of its first character, from 0.
        end_column: after its last character.
    """

    kind: str
    name: str
    role: str
    pieces: tuple[str, ...]
    holes: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    signal: str = ""
    keeps: tuple[str, ...] = ()
    is_past: bool = False
    marker: str = ""
    is_marked: bool = False
    is_whole: bool = False
    context_field: str = ""
    column: int = 0
    end_column: int = 0

    @property
    def is_short(self) -> bool:
        """Whether it is too short to be told from other texts inside a message."""
        return sum(map(len, self.pieces)) < SHORTEST

    @property
    def hindrance(self) -> str:
        """Why it is not evolved though it may be a prompt; "" if it is, is none or must not change."""
        if self.is_past:
            return "sent past LangChain"
        is_known = self.is_whole and self.role == "system" and len(self.pieces) == 1 and WORD.search(self.pieces[0])
        is_prompt = self.kind in KINDS and self.role in ROLES and not self.signal
        if is_prompt and ADDRESS.fullmatch("".join(self.pieces).strip()):
            return "an address"
        if not is_prompt or not self.is_short or is_known or not "".join(self.pieces).strip():
            return ""
        return f"fewer than {SHORTEST} letters, and not known as a whole system message"


class Opaque(Placed):
    """A thing that cannot be read from the source.

    Attributes:
        reason: why it cannot.
        way_out: what would open it.
    """

    reason: str
    way_out: str
