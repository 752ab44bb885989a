"""Edits of a program's source that write edits of its graph into it.

Of an inserted agent these are a prompt, a node for it, and the edge split in two, or a mapping of what a router returns
that leads to it, and an edge from it; of one beside a node two edges, and a
field for its text in the state of the agent behind both; of a node that is taken out the call that adds it and one edge
go, and the other leads past it.

A new node follows the form of a node that is there, by preference the one before it: its state, its way to ask a model,
and its place in the source.
"""

import ast
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, pairwise
from textwrap import indent
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.code import ASKING
from selfwire.extras.adopt.graphs import GraphReader, NodeDraft
from selfwire.extras.adopt.kinds import SAME_MODEL, find_kinds, find_strings
from selfwire.extras.adopt.names import Import, SourceFile, Surroundings, Traced, list_outer
from selfwire.extras.adopt.reader import allow_depth, read_graphs
from selfwire.extras.adopt.source import Program
from selfwire.extras.adopt.syntax import get_keywords, get_line_offset, list_positional, show_path
from selfwire.extras.adopt.texts import quote_text
from selfwire.graphs.insertions import (
    BOTH,
    ENDS,
    IN_TAGS,
    LAST,
    MESSAGES,
    GraphEdits,
    Insertion,
    Removal,
    Specialist,
    list_chains,
)

SPLIT = ("add_edge", "set_entry_point", "set_finish_point", "add_sequence")
"""Methods of a builder whose calls are split."""
MODEL_NAME = re.compile(r"\w*(model|llm)\w*", re.IGNORECASE)
"""Names of arguments that are a model."""
CLOSED = re.compile(r"(?:(?:\s|#[^\n]*+\n)*+\))*+")
"""Closing brackets, with white space and comments before each."""
Loop = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class SourceEdit(NamedTuple):
    """A piece of a file, and what takes its place."""

    file: str
    begin: int
    end: int
    text: str


def write_at(call: Traced, begin: int, end: int, text: str) -> SourceEdit:
    """Make an edit of the file in which a call stands."""
    return SourceEdit(show_path(call.at.file.path), begin, end, text)


class NodeForm(NamedTuple):
    """How a node of the program is written, for another one like it.

    Attributes:
        file: that has the new node.
        owner: module or function in which its name is bound.
        at: offset at which it is written, after `above` and before `below`.
        margin: white space before its lines.
        top: offset of the statement of the module before which its prompt is written; None if it may stand beside it.
        annotation: of its state; "" if it has none.
        has_fields: whether fields of the state are attributes, and no items.
        model: source of its chat model; "" if none is known, so that no patch can write such a node.
        is_async: whether it waits for the model.
        name: of the function whose form it is; "" if it is that of the builder.
    """

    file: SourceFile
    owner: Any
    at: int
    above: str
    below: str
    margin: str
    top: int | None
    annotation: str
    has_fields: bool
    model: str
    is_async: bool = False
    name: str = ""


class InsertedNode(NamedTuple):
    """The source of an inserted agent.

    Attributes:
        constant: the statement that holds its prompt.
        function: the definition of its node.
    """

    name: str
    constant: str
    function: str


def list_edge_edits(target: str, edges: GraphEdits) -> list[tuple[str, list[str], list[SourceEdit]]]:
    """List the edits that write the edges of a team into the source of a graph.

    Args:
        target: the graph, as `my_app.graph:graph`.
        edges: the edits of the team.

    Returns:
        For each node of the program that gets agents behind it, and each that is taken out: file and line of the first
        edge, names of the agents or of the node, and the edits. Those that take calls out come last, without names.

    Raises:
        ConfigError: the source has no place for one; the message has file and line, and the text to put there.
    """
    with allow_depth(target):
        writer, joins = EdgeWriter(read_graphs(target), edges), {found.merge: found for found, _ in edges.specialists}
        written = list[tuple[str, list[str], list[SourceEdit]]]()
        conditional = dict[str, dict[str, list[Insertion]]]()
        for source, ends, chain in list_chains(found for found, _ in edges.inserted):
            if chain[0].is_conditional:
                conditional.setdefault(source, {})[ends[0]] = chain
                continue
            edits, place = writer.split(source, ends, chain)
            written.append((place, [joins.get(found.agent, found).agent for found in chain], edits))
        for source, chains in conditional.items():
            edits, place = writer.split_conditional(source, chains)
            written.append((place, [found.agent for chain in chains.values() for found in chain], edits))
        for removal in edges.removals:
            edits, place = writer.take_out(removal)
            written.append((place, [removal.node], edits))
        return [*written, ("", [], [*writer.drop_calls()])]


class EdgeWriter:
    """Writes nodes and edges into the source of a program."""

    def __init__(self, graphs: GraphReader, edges: GraphEdits) -> None:
        self.graphs, self.program = graphs, graphs.program
        self.removals = {removal.node: removal for removal in edges.removals}
        self.dropped = list[Traced]()
        self.nodes = {draft.name: draft for draft in graphs.nodes if not draft.graph}
        self.prompts = edges.prompts
        self.joins = {found.merge: found for found, _ in edges.specialists}
        self.taken = list_words(self.program)
        self.names = {agent: self._find_name(agent) for agent in self.prompts}
        chains = list_chains(found for found, _ in edges.inserted if not found.is_conditional)
        self.behind = {source: self.names[chain[-1].agent] for source, _, chain in chains}

    def split(self, source: str, ends: Sequence[str], chain: Sequence[Insertion]) -> tuple[list[SourceEdit], str]:
        """Split the edges from a node; returns the edits, and file and line of the first edge."""
        calls = [call for end in ends if (call := self._find_call(source, end)) is not None]
        form = self._find_form([source, *ends], calls)
        made = [self._write_node(found, form) for found in chain]
        names, beside = [node.name for node in made], [self.joins[f.agent] for f in chain if f.agent in self.joins]
        nodes = [*made, *(self._write_specialist(found, form) for found in beside)]
        edits, links = list[SourceEdit | None](), [link for found in beside for link in self._link_specialist(found)]
        if form.model and len(calls) == len(ends) and self._can_join(beside, form, calls):
            edits += self._place_nodes(form, nodes)
            edits += self._import_nodes(form, [node.name for node in nodes], calls[0].at.file)
            for call, end in zip(calls, ends, strict=True):
                past = self._find_target(end) if end in self.removals else ""
                edits.append(_split_call(call, source, names, is_first=call is calls[0], past=past, links=links))
        written = [edit for edit in edits if edit is not None]
        if not edits or len(written) < len(edits):
            raise self._make_refusal(source, ends, made, calls, nodes[len(made) :], links)
        return written, f"{show_path(calls[0].at.file.path)}:{calls[0].node.end_lineno}"

    def split_conditional(self, source: str, chains: Mapping[str, Sequence[Insertion]]) -> tuple[list[SourceEdit], str]:
        """Lead some ends of a router to new nodes; returns the edits, and file and line of the call that has it."""
        call = self._find_conditional(source)
        form = self._find_form([source, *chains], [call] if call else [])
        made = {end: [self._write_node(found, form) for found in chain] for end, chain in chains.items()}
        nodes = [node for nodes in made.values() for node in nodes]
        mapped = {end: f'"{nodes[0].name}"' for end, nodes in made.items()}
        edits = self._write_mapping(call, mapped) if call and form.model else []
        calls = list[str]()
        for end, added in made.items():
            names = [*(f'"{node.name}"' for node in added), self._quote_known(end)]
            calls += [f"add_node({name}, {node.name})" for name, node in zip(names, added, strict=False)]
            calls += [f"add_edge({before}, {after})" for before, after in pairwise(names)]
        if not (call and edits):
            place = f"{show_path(call.at.file.path)}:{call.node.lineno}" if call else self._show_node(source)
            leads = ", ".join(f"{name} in place of {_quote_end(end)}" for end, name in mapped.items())
            parts = [part for node in nodes for part in (node.constant, node.function)]
            text = "\n\n\n".join([*parts, "\n".join(f"builder.{each}" for each in calls)])
            raise ConfigError(
                f"{place} has the conditional edge of {source} in a form that a patch cannot change, or shows no "
                "model that a new node could ask; write this yourself, and have its path_map lead to "
                f"{leads}:\n{text}"
            )
        edits += self._place_nodes(form, nodes)
        edits += self._import_nodes(form, [node.name for node in nodes], call.at.file)
        edits.append(_write_calls(call, calls, _get_method(call.node), is_kept=True))
        return edits, f"{show_path(call.at.file.path)}:{call.node.end_lineno}"

    def _find_conditional(self, source: str) -> Traced | None:
        """Find the only call of the builder that adds a conditional edge from a node, and from no other."""

        def leads(call: ast.Call, at: Surroundings) -> bool:
            known = self.graphs.open_conditional(call, at)
            return known is not None and known.sources == (source,)

        return self._find_only(["add_conditional_edges"], leads)

    def _write_mapping(self, call: Traced, mapped: Mapping[str, str]) -> list[SourceEdit]:
        """Lead ends of a conditional edge elsewhere, by the source of each; [] where its mapping has another form."""
        known = self.graphs.open_conditional(call.node, call.at)
        assert known is not None, "it was found by its source"
        mapping, edits, left = known.mapping, list[SourceEdit](), {*mapped}
        parts = {ast.Dict: "values", ast.List: "elts"}.get(type(mapping))
        values: list[ast.expr] = getattr(mapping, parts) if parts else []
        shown = [(part, find_strings(self.program, part, call.at).values) for part in values]
        if None in getattr(mapping, "keys", ()) or any(isinstance(part, ast.Starred) for part in values):
            return []  # a mapping inside the mapping
        if any(len(names) > 1 and left & {*names} for _, names in shown):
            return []
        ends = [(part, names[0] if names else "") for part, names in shown]
        left.difference_update(end for _, end in ends)
        if isinstance(mapping, ast.Dict):
            edits += [_replace(part, call, mapped[end]) for part, end in ends if end in mapped]
        elif isinstance(mapping, ast.List):
            pairs = [f"{text}: {mapped.get(end, text)}" for part, end in ends for text in [_show(call, part)]]
            edits.append(_replace(mapping, call, f"{{{', '.join(pairs)}}}"))
        elif mapping is None:
            annotated = self.graphs.list_annotated(known.path, known.router)
            left.difference_update(annotated)
            pairs = [f"{name}: {mapped.get(end, name)}" for end in annotated for name in [self._quote_known(end)]]
            given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
            at = max(_find_closed(call, part, call.node) for part in given)
            named = "path_map=" if call.node.keywords else ""
            edits.append(write_at(call, at, at, f", {named}{{{', '.join(pairs)}}}"))
        return [] if left else edits

    def _quote_known(self, end: str) -> str:
        """Write the name of a node, as END where the program knows this name."""
        return _quote_end(end) if end not in ENDS or ENDS[end] in self.taken else f'"{end}"'

    def take_out(self, removal: Removal) -> tuple[list[SourceEdit], str]:
        """Take a node out; returns the edits, and file and line of the first edge that leads past it."""
        entering = {source: call for source in removal.after if (call := self._find_call(source, removal.node))}
        leaving = self._find_call(removal.node, removal.before)
        edits = list[SourceEdit | None]()
        owners = {id(call.at.owner) for call in (*entering.values(), leaving) if call is not None}
        is_known = len(entering) == len(removal.after) and len(owners) == 1
        if leaving is not None and is_known:
            target = self._find_target(removal.node)
            listed = [call for call in (*entering.values(), leaving) if _get_method(call.node) == "add_sequence"]
            is_next = {*removal.after, removal.before} & self.removals.keys()
            added = self._find_node_call(removal.node)
            if listed:
                edits.append(_drop_element(listed[0], removal.node))
            elif added is None:
                edits.append(None)
            else:
                self.dropped += [added, leaving]
            if listed and (is_next or len(entering) > 1 or listed[0].node is not listed[-1].node):
                edits.append(None)
            for source, call in entering.items():
                if listed == [call]:
                    last = self.behind.get(source, source)
                    edits.append(_replace(_list_ends(leaving.node)[0], leaving, _quote_end(last)))
                if not (source in self.removals or source in self.behind or call in listed):
                    edits.append(_replace(_list_ends(call.node)[-1], call, target))
        written = [edit for edit in edits if edit is not None]
        if leaving is not None and is_known and len(written) == len(edits):
            first = entering[removal.after[0]]
            return written, f"{show_path(first.at.file.path)}:{first.node.end_lineno}"
        before = _quote_end(removal.before)
        calls = [f"builder.add_edge({_quote_end(source)}, {before})" for source in removal.after]
        raise ConfigError(
            f"{self._show_node(removal.node)} has the node {removal.node!r}, which is taken out, or its edges in a "
            f"form that a patch cannot change; take it out of the builder yourself, and put {' and '.join(calls)} there"
        )

    def _find_target(self, node: str) -> str:
        """Find the source of the node to which the way leads past nodes that are taken out."""
        removal = self.removals[node]
        if removal.before in self.removals:
            return self._find_target(removal.before)
        leaving = self._find_call(node, removal.before)
        if leaving is None or _get_method(leaving.node) == "add_sequence":
            return _quote_end(removal.before)
        if _get_method(leaving.node) == "set_finish_point":
            return "END" if re.search(r"\bEND\b", leaving.at.file.text) else f'"{removal.before}"'
        return _show(leaving, _list_ends(leaving.node)[1])

    def _find_node_call(self, node: str) -> Traced | None:
        """Find the only call of the builder that adds a node."""

        def adds(call: ast.Call, at: Surroundings) -> bool:
            named = get_keywords(call)
            given = [*call.args, *(named[key] for key in ("node", "action") if key in named)]
            if len(given) == 1:
                return ast.unparse(given[0]).rpartition(".")[2] == node
            return bool(given) and find_strings(self.program, given[0], at).values == (node,)

        return self._find_only(["add_node"], adds)

    def drop_calls(self) -> Iterator[SourceEdit]:
        """Take calls of the builder out: whole lines where nothing of a statement is left, else links of chains."""
        dropped, done = {call.node for call in self.dropped}, set[ast.AST]()
        for call in self.dropped:
            text, links, statement = call.at.file.text, set[ast.AST](), call.node
            begin, end = find_span(call, call.node.func.value)[1], find_span(call, call.node)[1]
            while isinstance(statement, ast.Call | ast.Attribute):
                statement = self.program.parents[statement]
            owner = statement.value if isinstance(statement, ast.Expr) else None
            while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
                links.add(owner)
                owner = owner.func.value
            first, last = find_span(call, statement)
            line, stop = text.rfind("\n", 0, first) + 1, text.find("\n", last) + 1 or len(text)
            is_alone = not text[line:first].strip() and text[last:stop].strip()[:1] in ("", "#")
            if is_alone and isinstance(owner, ast.Name | ast.Attribute) and links <= dropped:
                begin, end = (line, stop) if statement not in done else (line, line)
                done.add(statement)
            yield write_at(call, begin, end, "")

    # the edge

    def _find_call(self, source: str, end: str) -> Traced | None:
        """Find the only call of the builder that makes an edge, and no other by a loop or a function around it."""
        return self._find_only(SPLIT, lambda call, at: self._makes(call, at, source, end))

    def _find_only(self, methods: Sequence[str], fits: Callable[[ast.Call, Surroundings], bool]) -> Traced | None:
        """Find the only call of some methods of the builder that fits, and is made once."""
        calls = list[Traced]()
        for builder in self.graphs.read_builders[:1]:
            calls += [Traced(*call) for method in methods for call in self.graphs.list_calls(builder, method)]
        found = [call for call in calls if fits(call.node, call.at) and not self._is_repeated(call.node, call.at)]
        nodes = [call.node for call in calls]
        return found[0] if len(found) == 1 and nodes.count(found[0].node) == 1 else None

    def _makes(self, call: ast.Call, at: Surroundings, source: str, end: str) -> bool:
        place = (show_path(at.file.path), call.lineno, call.end_lineno)
        edges = [
            (edge.source, edge.ends)
            for edge in self.graphs.edges
            if not edge.graph and edge.kind == "data" and (edge.file, edge.line, edge.end_line) == place
        ]
        if (source, (end,)) not in edges:
            return False
        method = _get_method(call)
        if method == "add_sequence":
            return True
        texts = [find_strings(self.program, part, at).values for part in _list_ends(call)]
        wanted = {"add_edge": [source, end], "set_entry_point": [end], "set_finish_point": [source]}[method]
        return texts == [(text,) for text in wanted]

    def _is_repeated(self, call: ast.AST, at: Surroundings) -> bool:
        node: Any = call
        while (node := self.program.parents.get(node)) is not None and node is not at.owner:
            if isinstance(node, Loop):
                return True
        return False

    # the node

    def _find_form(self, near: Sequence[str], calls: Sequence[Traced]) -> NodeForm:
        """Find the form of new nodes: that of one near, of any other, of the builder, or one without a model."""
        names = dict.fromkeys([*near, *self.nodes])
        forms = [form for name in names if name in self.nodes for form in self._read_function(self.nodes[name])]
        known = next((form for form in forms if form.model and calls and self._is_seen(form, calls[0].at)), None)
        plain = NodeForm(next(iter(self.program.files.values())), None, 0, "", "", "", None, "", False, "")
        return known or (self._read_builder(calls[0]) if calls else None) or next(iter(forms), plain)

    def _is_seen(self, form: NodeForm, at: Surroundings) -> bool:
        """Whether the name of a node is seen from where the builder is."""
        if form.file is not at.file:
            return form.owner is form.file.tree and self._find_import(form, at.file) is not None
        return any(here.owner is form.owner for here in list_outer(at))

    def _find_import(self, form: NodeForm, file: SourceFile) -> ast.ImportFrom | None:
        """Find the statement of another file that imports a function."""
        for node in file.nodes:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    bound = Import(node.module or "", alias.name, node.level)
                    followed = self.program.follow_import(file, bound) if alias.name == form.name else None
                    if followed is not None and followed.file is form.file:
                        return node
        return None

    def _read_function(self, draft: NodeDraft) -> Iterator[NodeForm]:
        function = draft.function.node if draft.function is not None else None
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        at, file = draft.function.at, draft.function.at.file
        if isinstance(at.owner, ast.ClassDef) or not list_positional(function):
            return
        state = [*function.args.posonlyargs, *function.args.args][0]
        inside = self.program.enter(function, at)
        is_inner = at.owner is not file.tree
        end = _get_offset(file.text, function.end_lineno or 0, function.end_col_offset or 0)
        reads = [node for node in ast.walk(function) if isinstance(node, ast.Attribute | ast.Subscript)]
        items = [isinstance(node, ast.Subscript) for node in reads if _is_named(node.value, state.arg)]
        annotation = ast.unparse(state.annotation) if state.annotation is not None else ""
        is_whole = annotation.strip("'").rpartition(".")[2] == self._show_schema().rpartition(".")[2]
        yield NodeForm(
            file=file,
            owner=at.owner,
            at=end,
            above="\n\n" if is_inner else "\n\n\n",
            below="",
            margin=" " * function.col_offset,
            top=self._find_top(function, file) if is_inner else None,
            annotation=annotation if is_whole else "",  # without one it gets the whole state
            has_fields=bool(items) and not any(items),
            model=self._find_model(function, inside),
            is_async=isinstance(function, ast.AsyncFunctionDef),
            name=function.name,
        )

    def _show_schema(self) -> str:
        """Show the state of the graph as its builder names it."""
        schemas = [_get_schema(builder.node) for builder in self.graphs.read_builders[:1]]
        return "".join(ast.unparse(schema) for schema in schemas if schema is not None)

    def _find_top(self, node: ast.AST, file: SourceFile) -> int:
        """Find where the statement of a module begins that has a node."""
        while (parent := self.program.parents.get(node)) is not file.tree and parent is not None:
            node = parent
        decorators = getattr(node, "decorator_list", [])
        line = min([node.lineno, *(part.lineno for part in decorators)])  # type: ignore[attr-defined]
        return _get_offset(file.text, line, 0)

    def _read_builder(self, call: Traced) -> NodeForm | None:
        """Read the form for a new node before the statement that makes the builder, with a model that is seen there."""
        made = self.graphs.read_builders[0]
        file, at, statement = made.at.file, made.at, made.node
        if file is not call.at.file or at.owner is not call.at.owner:
            return None
        while not isinstance(statement, ast.stmt):
            statement = self.program.parents[statement]
        names = self._list_model_names(at) or self._list_model_names(file.top)
        begin = _get_offset(file.text, statement.lineno, 0)
        is_inner = at.owner is not file.tree or bool(statement.col_offset)
        return NodeForm(
            file=file,
            owner=at.owner,
            at=begin,
            above="",
            below="\n\n" if is_inner else "\n\n\n",
            margin=" " * statement.col_offset,
            top=self._find_top(statement, file) if is_inner else None,
            annotation=self._show_schema(),
            has_fields=self._has_fields(_get_schema(made.node), at),
            model=names[0] if len(names) == 1 else "",
        )

    def _list_model_names(self, at: Surroundings) -> list[str]:
        """List the names of chat models, but not of what is made of them."""
        bound = {name: values for name, values in at.names.bound.items() if not any(map(_is_changed, values))}
        return [name for name in bound if self._is_model(ast.Name(name, ast.Load()), at)]

    def _has_fields(self, schema: ast.expr | None, at: Surroundings) -> bool:
        """Whether a state is a dataclass or a model of Pydantic's, which the program itself defines."""
        for found in self.program.trace(schema, at) if schema is not None else ():
            if isinstance(found.node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in found.node.bases}
                made = {ast.unparse(part).partition("(")[0].rpartition(".")[2] for part in found.node.decorator_list}
                return "BaseModel" in bases or "dataclass" in made
        return False

    # the model

    def _find_model(self, function: ast.FunctionDef | ast.AsyncFunctionDef, inside: Surroundings) -> str:
        """Find the chat model that a function asks, in words that hold outside the function."""
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
                for found in self._list_models(node.func.value, inside):
                    return ast.get_source_segment(inside.file.text, found) or ast.unparse(found)
        return ""

    def _list_models(self, node: Any, at: Surroundings) -> Iterator[ast.expr]:
        """List the expressions of chat models behind one, without what is bound to them and without local names."""
        if isinstance(node, ast.BinOp):
            yield from self._list_models(node.right, at)
            yield from self._list_models(node.left, at)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_MODEL:
            yield from self._list_models(node.func.value, at)
        elif isinstance(node, ast.Name):
            yield from self._list_named_models(node, at)
        elif isinstance(node, ast.expr) and self._is_model(node, at):
            own = at.names.bound if at.outer is not None else {}
            if not any(isinstance(part, ast.Name) and part.id in own for part in ast.walk(node)):
                yield node

    def _list_named_models(self, node: ast.Name, at: Surroundings) -> Iterator[ast.expr]:
        """List the name itself, or the models behind it where it is local or made of one."""
        here = next((here for here in list_outer(at) if node.id in here.names.bound), None)
        if here is None:
            return
        values = here.names.bound[node.id]
        changed = [value for value in values if _is_changed(value)]
        if changed or (here is at and at.outer is not None):
            for value in changed or [value for value in values if isinstance(value, ast.expr)]:
                yield from self._list_models(value, here)
        elif self._is_model(node, at):
            yield node

    def _is_model(self, node: ast.expr, at: Surroundings) -> bool:
        kinds = {kind for kind, _ in find_kinds(self.program, node, at)}
        is_argument = kinds <= {"argument"} and isinstance(node, ast.Name) and MODEL_NAME.fullmatch(node.id)
        return "model" in kinds or bool(is_argument)

    # writing

    def _find_name(self, agent: str) -> str:
        """Find a name for the function of an agent that the program does not use."""
        names = list_names(agent.replace("-", "_"), "agent")
        name = next(name for name in names if not {name, name.upper()} & self.taken)
        self.taken |= {name, name.upper()}
        return name

    def _can_join(self, beside: Sequence[Specialist], form: NodeForm, calls: Sequence[Traced]) -> bool:
        """Whether the state can get a field in a subclass at the top of a file, and edges by calls of their own."""
        is_whole = bool(form.annotation) and not form.has_fields and form.annotation in form.file.top.names.bound
        return not beside or (is_whole and _get_method(calls[0].node) != "add_sequence")

    def _link_specialist(self, found: Specialist) -> Iterator[str]:
        """Write the calls that add a specialist beside a node, and lead to it and from it."""
        name, source = self.names[found.agent], found.after
        while source in self.removals and source not in self.behind:
            [source] = self.removals[source].after
        before = _quote_end(self.behind.get(source, source))
        before = before if before != "START" or "START" in self.taken else f'"{source}"'
        yield f'add_node("{name}", {name})'
        yield f'add_edge({before}, "{name}")'
        yield f'add_edge("{name}", "{self.names[found.merge]}")'

    def _write_specialist(self, found: Specialist, form: NodeForm) -> InsertedNode:
        """Write the prompt and the function of a specialist, which asks as `insertions` does."""
        name = self.names[found.agent]
        body, given = list[str](), f'[*state["{MESSAGES}"], ("user", {name.upper()})]'
        if found.field != MESSAGES:
            tags = {"task" if field == found.question else field: field for field in found.reads}
            asked = [f'"<{tag}>", state["{field}"], "</{tag}>", ""' for tag, field in tags.items()]
            body, given = [f"asked = [{', '.join(asked)}, {name.upper()}]"], '"\\n".join(asked)'
        asking = f"({_ask(form)}({given}))" if form.is_async else f"{_ask(form)}({given})"
        body.append(f'return {{"{found.channel}": {asking}.text}}')
        literal = quote_text(f"{self.prompts[found.agent]}\n\n{BOTH}")
        return InsertedNode(name, f"{name.upper()} = {literal}", _define(form, name, body))

    def _write_node(self, found: Insertion, form: NodeForm) -> InsertedNode:
        """Write the prompt and the function of an inserted agent, which asks as `insertions` does."""
        name, prompt, joined = self.names[found.agent], self.prompts[found.agent], self.joins.get(found.agent)

        def read(field: str) -> str:
            return f"state.{field}" if form.has_fields else f'state["{field}"]'

        more = f'"<more>", {read(joined.channel)}, "</more>", "", ' if joined else ""
        if found.field == MESSAGES:
            rule = LAST
            said = f'"\\n".join([{more}{name.upper()}])' if joined else name.upper()
            body = [
                f"messages = {read(MESSAGES)}",
                f'reply = {_ask(form)}([*messages, ("user", {said})])',
                'return {"messages": [reply.model_copy(update={"id": messages[-1].id})]}',
            ]
        else:
            rule = IN_TAGS
            tags = {"task": found.question, "text": found.field}
            asked = [f'"<{tag}>", {read(name)}, "</{tag}>", ""' for tag, name in tags.items() if name]
            body = [
                f"asked = [{', '.join(asked)}, {more}{name.upper()}]",
                f'reply = {_ask(form)}("\\n".join(asked))',
                f'return {{"{found.field}": reply.text}}',
            ]
        constant = f"{name.upper()} = {quote_text(f'{prompt}{chr(10)}{chr(10)}{rule}')}"
        if not joined:
            return InsertedNode(name, constant, _define(form, name, body))
        state = f"{name.title().replace('_', '')}State"
        extended = f"class {state}({form.annotation}):\n    {joined.channel}: str"
        return InsertedNode(name, f"{constant}\n\n\n{extended}", _define(form, name, body, state))

    @staticmethod
    def _place_nodes(form: NodeForm, made: Sequence[InsertedNode]) -> Iterator[SourceEdit]:
        """Place new nodes beside the one whose form they have, and their prompts where a module may hold them."""
        file, constants = show_path(form.file.path), [node.constant for node in made]
        beside = [[node.function] if form.top is not None else [node.constant, node.function] for node in made]
        written = (form.above or form.below).join(part for parts in beside for part in parts)
        if form.top is not None:
            yield SourceEdit(file, form.top, form.top, "".join(f"{constant}\n\n\n" for constant in constants))
        yield SourceEdit(file, form.at, form.at, f"{form.above}{written}{form.below}")

    def _import_nodes(self, form: NodeForm, names: Sequence[str], file: SourceFile) -> Iterator[SourceEdit]:
        """Import new nodes into another file beside the function whose form they have, in the order of names."""
        found = self._find_import(form, file) if file is not form.file else None
        if found is None:
            return
        begins = [_get_offset(file.text, alias.lineno, alias.col_offset) for alias in found.names]
        ends = [_get_offset(file.text, alias.end_lineno or 0, alias.end_col_offset or 0) for alias in found.names]
        gaps = [file.text[end:begin] for end, begin in zip(ends, begins[1:], strict=False)] or [", "]
        for name in sorted(names):
            before = len([alias for alias in found.names if not alias.name[0].islower() or alias.name < name])
            at, gap = (ends[before - 1], gaps[min(before, len(gaps)) - 1]) if before else (begins[0], gaps[0])
            yield SourceEdit(show_path(file.path), at, at, f"{gap}{name}" if before else f"{name}{gap}")

    def _show_node(self, name: str) -> str:
        """Show the place of a node; that of the program for none."""
        place = self.nodes[name].place if name in self.nodes else {"file": show_path(next(iter(self.program.files)))}
        return f"{place['file']}:{place.get('line', 1)}"

    def _make_refusal(
        self,
        source: str,
        ends: Sequence[str],
        made: Sequence[InsertedNode],
        calls: Sequence[Traced],
        beside: Sequence[InsertedNode],
        links: Sequence[str],
    ) -> ConfigError:
        """Make the error for an edge that cannot be split, with the text to put there."""
        shown = [edge for edge in self.graphs.edges if not edge.graph]
        edges = [edge for edge in shown if edge.source == source and {*edge.ends} & {*ends}]
        places = [
            *(f"{show_path(call.at.file.path)}:{call.node.end_lineno}" for call in calls),
            *(f"{edge.file}:{edge.end_line}" for edge in edges),
            *(self._show_node(name) for name in self.nodes if name in (source, *ends)),
            *map(show_path, self.program.files),
        ]
        names = [_quote_end(source), *(f'"{node.name}"' for node in made)]
        lines = [
            *(f'builder.add_node("{node.name}", {node.name})' for node in made),
            *(f"builder.add_edge({before}, {after})" for before, after in pairwise(names)),
            *(f"builder.add_edge({names[-1]}, {_quote_end(end)})" for end in ends),
            *(f"builder.{link}" for link in links),
        ]
        split = f"{ENDS.get(source, source)} -> {' and '.join(ENDS.get(end, end) for end in ends)}"
        text = "\n\n\n".join(
            [*(part for node in (*made, *beside) for part in (node.constant, node.function)), "\n".join(lines)]
        )
        if shown and not edges and all(edge.complete and edge.ends for edge in shown):
            return ConfigError(f"the source of the graph has no edge {split} any more; evolve the graph anew")
        return ConfigError(
            f"{places[0]} has the edge {split} in a form that a patch cannot split, or shows no model that a new node "
            f"could ask; write this yourself, in place of that edge:\n{text}"
        )


def list_words(program: Program) -> set[str]:
    """List all words in the files of a program, which may be names."""
    return {word for file in program.files.values() for word in re.findall(r"\w+", file.text)}


def list_names(wanted: str, prefix: str) -> Iterator[str]:
    """List names of Python like one that is wanted, the best first; `prefix` is for one that Python does not allow."""
    stem = re.sub(r"\W+", "_", wanted)
    stem = stem if stem.isidentifier() and not keyword.iskeyword(stem) else f"{prefix}_{stem}"
    return (stem if number == 1 else f"{stem}_{number}" for number in count(1))


def _quote_end(node: str) -> str:
    return ENDS.get(node, f'"{node}"')


def _get_schema(made: ast.Call) -> ast.expr | None:
    """Get the state in a call of `StateGraph`."""
    return get_keywords(made).get("state_schema") or next(iter(made.args), None)


def _is_changed(value: Any) -> bool:
    """Whether a value is made of a model, as by `bind_tools` or `|`."""
    owner = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.BinOp) or (isinstance(owner, ast.Attribute) and owner.attr in SAME_MODEL)


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _get_offset(text: str, line: int, column: int) -> int:
    """The offset of a place of Python's parser: a line from 1, and a column in bytes."""
    begin = get_line_offset(text, line)
    return begin + len(text[begin : begin + column].encode()[:column].decode())


def _split_call(
    call: Traced, source: str, names: Sequence[str], *, is_first: bool, past: str = "", links: Sequence[str] = ()
) -> SourceEdit | None:
    """Write the calls that take the place of one that makes an edge; None if it has another form.

    Args:
        names: of the new nodes, in order, which the first of the edges from a node adds.
        past: source of its end, where that is another one than it was; else "".
        links: further calls that the first of the edges adds.
    """
    method, quoted = _get_method(call.node), [f'"{name}"' for name in names]
    if method == "add_sequence":
        return _split_sequence(call, source, names) if is_first else None
    given = [_show(call, part) for part in _list_ends(call.node)]
    given[-1] = past or given[-1]
    entering = f"{method}({quoted[0]})" if method == "set_entry_point" else f"add_edge({given[0]}, {quoted[0]})"
    leaving = f"{method}({quoted[-1]})" if method == "set_finish_point" else f"add_edge({quoted[-1]}, {given[-1]})"
    added = [f"add_node({quote}, {name})" for quote, name in zip(quoted, names, strict=True)]
    between = [*added, entering, *(f"add_edge({a}, {b})" for a, b in pairwise(quoted)), *links]
    return _write_calls(call, [*(between if is_first else ()), leaving], method)


def _write_calls(call: Traced, parts: Sequence[str], method: str, *, is_kept: bool = False) -> SourceEdit:
    """Write calls of the builder in place of one of `method`, or behind it if that is kept."""
    node, text, owner = call.node, call.at.file.text, call.node.func.value
    begin, end = find_span(call, owner)
    stop = _get_offset(text, node.end_lineno, node.end_col_offset)
    is_alias = end == find_span(call, node.func)[1]  # of the method, as `edge` after `edge = builder.add_edge`
    name, before = (owner.id, ".") if is_alias else (text[begin:end], text[end : text.index(method, end)])
    margin, below = text[text.rfind("\n", 0, begin) + 1 : begin], text[stop:].partition("\n")[0].strip()
    is_alone = not margin.strip() and below[:1] in ("", "#")
    if is_alone and isinstance(owner, ast.Name | ast.Attribute) and before == ".":
        lines = []
        for part in parts:
            is_named = is_alias and part.startswith(f"{method}(")
            lines.append(f"{text[begin:end]}{part[len(method) :]}" if is_named else f"{name}.{part}")
        written = f"\n{margin}".join(lines)
        return write_at(call, stop, stop, f"\n{margin}{written}") if is_kept else write_at(call, begin, stop, written)
    written = "".join(f"{before}{part}" for part in parts)
    if is_kept:
        return write_at(call, stop, stop, written)
    begin, written = (begin, f"{name}{written}") if is_alias else (end, written)
    return write_at(call, begin, stop, written)


def _ask(form: NodeForm) -> str:
    """Write how the chat model is asked."""
    model = form.model or "model"
    return f"await {model}.ainvoke" if form.is_async else f"{model}.invoke"


def _define(form: NodeForm, name: str, body: Sequence[str], annotation: str = "") -> str:
    """Write the function of a node."""
    define, annotation = "async def" if form.is_async else "def", annotation or form.annotation
    state = f"state: {annotation}" if annotation else "state"
    return indent("\n".join([f"{define} {name}({state}) -> dict:", *(f"    {line}" for line in body)]), form.margin)


def _get_method(call: Any) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _list_ends(call: ast.Call) -> list[ast.expr]:
    """List the arguments of a call that makes an edge, in order."""
    named = get_keywords(call)
    return [*call.args, *(named[key] for key in ("start_key", "end_key", "key") if key in named)]


def _show(call: Traced, part: ast.expr) -> str:
    return ast.get_source_segment(call.at.file.text, part) or ast.unparse(part)


def find_span(call: Traced, part: Any) -> tuple[int, int]:
    """Find where a part of a call begins and ends in its file."""
    text = call.at.file.text
    return _get_offset(text, part.lineno, part.col_offset), _get_offset(text, part.end_lineno, part.end_col_offset)


def _find_closed(call: Traced, part: ast.expr, around: ast.expr) -> int:
    """Find the end of a part, with brackets around it, of a call or a list."""
    text, (_, end) = call.at.file.text, find_span(call, around)
    closed = CLOSED.match(text, find_span(call, part)[1], end - 1)
    assert closed is not None, "it matches nothing too"
    return closed.end()


def _replace(part: ast.expr, call: Traced, new: str) -> SourceEdit:
    return write_at(call, *find_span(call, part), new)


def _drop_element(call: Traced, node: str) -> SourceEdit | None:
    """Take a node out of the list of `add_sequence`; None if it is in another form."""
    parts = _list_elements(call)
    for number, (name, part) in enumerate(parts):
        if name == node and len(parts) > 1:
            around, text = call.node.args[0], call.at.file.text
            end, line = _find_closed(call, part, around), text.rfind("\n", 0, find_span(call, part)[0]) + 1
            own = re.compile(r"[ \t]*,[ \t]*(?:#[^\n]*)?\n").match(text, end)
            if own and not text[line : find_span(call, part)[0]].strip():  # on a line of its own, with its comment
                return write_at(call, line, own.end(), "")
            begin = _find_closed(call, parts[number - 1][1], around) if number else find_span(call, around)[0] + 1
            comma = None if number else re.compile(r"\s*,[ \t]*").match(text, end)
            if number or comma:
                return write_at(call, begin, comma.end() if comma else end, "")
    return None


def _list_elements(call: Traced) -> list[tuple[str, ast.expr]]:
    """List the elements of the list of `add_sequence`, each with the name of its node."""
    listed = call.node.args[0] if call.node.args else None
    found = list[tuple[str, ast.expr]]()
    for part in listed.elts if isinstance(listed, ast.List | ast.Tuple) else ():
        named = part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part
        shown = str(named.value) if isinstance(named, ast.Constant) else ast.unparse(named).rpartition(".")[2]
        found.append((shown, part))
    return found


def _split_sequence(call: Traced, source: str, names: Sequence[str]) -> SourceEdit | None:
    """Write new nodes behind one in the list of `add_sequence`."""
    for name, part in _list_elements(call):
        if name == source:
            end = _find_closed(call, part, call.node.args[0])
            written = "".join(f', ("{new}", {new})' for new in names)
            return write_at(call, end, end, written)
    return None
