"""Graphs of a program: nodes and edges, as calls of builders, decorators and makers of agents show them.

It gets the value that is the program's graph, and hands nodes, edges and interrupts to `reader` and `edge_patch`.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from selfwire.extras.adopt.code import Code, is_partial
from selfwire.extras.adopt.inventory import ProgramEdge, ProgramInterrupt, ProgramNode, Subgraph
from selfwire.extras.adopt.kinds import (
    BUILDERS,
    Strings,
    find_given_name,
    find_kinds,
    find_literals,
    find_strings,
    open_starred,
    tell_kind,
    unite_strings,
)
from selfwire.extras.adopt.makers import AgentDraft, MakerReader, ToolDraft
from selfwire.extras.adopt.names import (
    BoundMethod,
    Instance,
    Surroundings,
    Traced,
    list_carried,
    list_defaults,
    list_outer,
)
from selfwire.extras.adopt.source import Program
from selfwire.extras.adopt.syntax import (
    Function,
    get_argument,
    get_keywords,
    get_last_name,
    is_complete,
    is_static,
    is_super_method,
    is_text,
    list_items,
    list_parameters,
    list_positional,
    show_path,
)

START, END = "__start__", "__end__"
DEEPEST = 12
"""Subgraphs inside subgraphs after which reading gives up."""


@dataclass(eq=False)
class NodeDraft:
    """A node while the program is read.

    Attributes:
        code: what it runs; None if that is not known.
        place: of what it runs, or of the call that adds it, as fields of `Placed`.
    """

    name: str
    kind: str
    target: str
    place: dict[str, Any]
    graph: str
    code: Code | None = None
    action: Code | None = None
    agent: AgentDraft | None = None
    tools: list[ToolDraft] = field(default_factory=list)
    function: Any = None


class Action(NamedTuple):
    """The target of a node."""

    kind: str
    target: str
    found: Traced
    code: Code | None = None


class ConditionalCall(NamedTuple):
    """The arguments of a call that adds a conditional edge.

    Attributes:
        sources: the nodes from which it leads.
        path: the source of its router.
        mapping: the source of its `path_map`; None if it has none.
        router: the function; None if the program does not show it.
    """

    sources: tuple[str, ...]
    path: ast.expr
    mapping: ast.expr | None
    router: Traced | None


class GraphReader:
    """Reads the graphs that a program's graph is made of."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.makers = MakerReader(program)
        self.reader = self.makers.reader
        self.nodes: list[NodeDraft] = []
        self.edges: list[ProgramEdge] = []
        self.interrupts: list[ProgramInterrupt] = []
        self.subgraphs: list[Subgraph] = []
        self.signals: dict[str, str] = {}
        self.mapping_keys: dict[str, str] = {}
        self.read: dict[Any, str] = {}
        self.routers: list[tuple[str, Code]] = []
        self.read_builders: list[Traced] = []

    def note(self, node: Any, at: Surroundings, reason: str, way_out: str) -> None:
        """Note a thing that cannot be read."""
        self.reader.texts.note(node, at, reason, way_out)

    def read_graph(self, found: Traced, name: str) -> None:
        """Read a graph or an agent, with all its subgraphs; `name` is "" for the program's own."""
        node = found.node
        if (node, found.at) in self.read or name.count("/") > DEEPEST:
            return
        self.read[node, found.at] = name
        if isinstance(node, Function):
            self._read_entrypoint(found, name)
        elif isinstance(node, Instance) or get_last_name(node.func) in BUILDERS:
            self._read_builder(found, name)
        else:
            self._read_agent_graph(found, name)

    # builders

    def _read_builder(self, builder: Traced, graph: str) -> None:
        first = len(self.nodes)
        self.read_builders.append(builder)
        self._read_settings(builder)
        self._read_reducers(builder)
        for method, read in READERS.items():
            for call, at in self.list_calls(builder, method):
                for where in self.unroll(call, at):
                    read(self, call, where, graph)
        made = builder.node.call if isinstance(builder.node, Instance) else builder.node
        if len(self.nodes) == first and made is not None and not self.reader.texts.opaque:
            way_out = "call add_node on the builder where it is made, or in a function that is called with it by name"
            self.note(
                made,
                getattr(builder.node, "made_in", None) or builder.at,
                f"no call shows the nodes of {ast.unparse(made)}",
                way_out,
            )
        skipped = self._list_skipped(builder) - {draft.name for draft in self.nodes[first:]}
        self.edges = [edge for edge in self.edges if edge.graph != graph or edge.source not in skipped]
        for call, at in self.list_calls(builder, "compile"):
            self._read_pauses(call, at, graph)
        for draft in self.nodes[first:]:
            self._read_node_code(draft)

    def read_around(self, at: Surroundings) -> None:
        """Read the function that builds a graph, so that what it passes on is known."""
        for here in list_outer(at):
            if isinstance(here.owner, Function) and here.outer is not None:
                self.reader.get_code(here.owner, here.outer)

    def _read_settings(self, builder: Traced) -> None:
        """Read the fields of the class of settings: those that are marked as prompts, and all by their defaults."""
        for found in self._list_settings(builder):
            inside = self.program.enter(found.node, found.at)
            for statement in found.node.body:
                if isinstance(statement, ast.AnnAssign) and is_marked_prompt(statement):
                    self.reader.ask(statement.value, inside, None, role="system")

    def _read_reducers(self, builder: Traced) -> None:
        """Read what functions of the program make of the fields of the state whose reducers they are."""
        given = [(part, at) for call, at in self._list_makings(builder) for part in call.args[:1]]
        found = [value for part, at in given for value in self.program.trace(part, at)]
        states = [value for value in found if isinstance(value.node, ast.ClassDef)]
        for of in (of for state in states for of in self.program.list_mro(state)):
            inside = self.program.enter(of.node, of.at)
            for name, annotation in inside.names.annotated.items():
                parts = getattr(getattr(annotation, "slice", None), "elts", [])[1:]
                for reducer in (value for part in parts for value in self.program.trace(part, inside)):
                    if isinstance(reducer.node, Function):
                        self.reader.texts.writes.setdefault(name, []).append(reducer)

    def _list_settings(self, made: Traced) -> Iterator[Traced]:
        """Find the classes of settings of a builder or an agent, and their base classes in the program."""
        pending = [
            found
            for call, at in self._list_makings(made)
            for keyword in call.keywords
            if keyword.arg in ("context_schema", "config_schema")
            for found in self.program.trace(keyword.value, at)
        ]
        while pending:
            found = pending.pop()
            if isinstance(found.node, ast.ClassDef):
                yield found
                pending += self.program.list_bases(found)

    def _list_makings(self, made: Traced) -> Iterator[tuple[ast.Call, Surroundings]]:
        """List the call that makes a builder or an agent, of a subclass those of `super().__init__` too."""
        if not isinstance(made.node, Instance):
            yield made.node, made.at
            return
        if made.node.call is not None:
            yield made.node.call, made.node.made_in or made.at
        for call in self.program.calls.get("__init__", ()):
            if call.at.outer is not None and call.at.outer.owner is made.node.of:
                yield call.node, call.at

    def find_context_fields(self) -> dict[Any, str]:
        """Find the literals that are defaults of fields of the context, and the names of these fields."""
        fields = dict[Any, str]()
        for settings in self.list_schemas():
            inside = self.program.enter(settings.node, settings.at)
            for statement in settings.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    for literal in self._list_defaults(statement.value, inside):
                        fields.setdefault(literal, statement.target.id)
        return fields

    def list_schemas(self) -> Iterator[Traced]:
        """List the classes that graphs and agents take as their context or config."""
        for found in [*self.read_builders, *(agent.at for agent in self.makers.agents.values())]:
            yield from self._list_settings(found) if isinstance(found.node, ast.Call | Instance) else ()

    def _list_defaults(self, value: Any, at: Surroundings) -> Iterator[Any]:
        """Find the literals that the default of a field may be."""
        if isinstance(value, ast.Call):
            named = {keyword.arg: keyword.value for keyword in value.keywords}
            default = named.get("default", named.get("default_factory"))
            value = default.body if isinstance(default, ast.Lambda) else default
        if value is not None:
            yield from (found.node for found in self.program.trace(value, at))

    def list_calls(self, builder: Traced, method: str) -> Iterator[tuple[ast.Call, Surroundings]]:
        """Find the calls of a builder's method, in the order of the source."""
        found = []
        own = [*self.program.get_member(builder, method)] if isinstance(builder.node, Instance) else []
        for call in self.program.calls.get(method, ()):
            owner = call.node.func
            is_own = isinstance(owner, ast.Attribute) and not self.program.is_overridden(call.at)
            if own and not is_super_method(call.node):
                continue  # the method of the program's class calls that of StateGraph
            for at in self._list_entries(call, builder) if is_own else ():
                if self._is_builder(owner.value, at, builder):
                    found.append((call.node, at))
                    for passed in (at, *(value.at for values in at.given.values() for value in values)):
                        self.read_around(passed)
        yield from sorted(found, key=lambda pair: (pair[0].end_lineno or 0, pair[0].end_col_offset or 0))

    def _list_entries(self, call: Traced, builder: Traced, depth: int = 0) -> list[Surroundings]:
        """List the surroundings of a builder's call; one for each call of a function with the builder."""
        function, outer = call.at.owner, call.at.outer
        made_in = getattr(builder.node, "made_in", None) or builder.at
        if function is made_in.owner:
            return [made_in]
        if not call.at.given and (decorated := self.program.list_decorations(call.at)):
            return [inside for _, inside in decorated]
        name = getattr(function, "name", "")
        partials = (part.node.args[:1] for part in self.program.calls.get("partial", ()))
        is_handed = any(get_last_name(part) == name for parts in partials for part in parts)  # which other calls make
        if not takes_argument(call) or is_handed or outer is None or call.at.given or depth > DEEPEST:
            return [call.at]
        parameters = list_positional(function)
        is_method = isinstance(outer.owner, ast.ClassDef) and not is_static(function)
        entries = list[Surroundings]()
        for made in self._list_callers(function, outer, builder):
            rounds = [
                inner for at in self._list_entries(made, builder, depth + 1) for inner in self.unroll(made.node, at)
            ]
            for at in rounds:
                called = self.program.find_called(function, made.node, at)
                if not called and name != "__init__":
                    continue  # a round of a loop over objects of several classes
                given = self.program.list_passed(function, made.node, at, skip_first=is_method)
                if is_complete(made.node):
                    given = {**list_defaults(call.at.file.read_names(function), outer), **given}
                if name == "__init__":
                    given[parameters[0]] = [builder]
                elif is_method:
                    given[parameters[0]] = [found.node.owner for found in called if isinstance(found.node, BoundMethod)]
                entries.append(Surroundings(call.at.file, function, outer, given))
        return entries or [call.at]

    def _list_callers(self, function: Any, outer: Surroundings, builder: Traced) -> list[Traced]:
        """List the calls of a function with a builder, in the order of the source."""
        name = getattr(function, "name", "")
        live = filter(self.program.is_live, self.program.calls.get(name, ()))
        calls = [made for made in live if self.program.find_called(function, made.node, made.at)]
        if name == "__init__" and isinstance(builder.node, Instance) and builder.node.call is not None:
            is_own = builder.node.of in (outer.owner, *(below.node for below in self.program.list_below(outer.owner)))
            calls = [Traced(builder.node.call, builder.node.made_in or builder.at)] if is_own else []
        return sorted(calls, key=lambda made: (made.node.end_lineno, made.node.end_col_offset))

    def _is_builder(self, node: ast.expr, at: Surroundings, builder: Traced) -> bool:
        values = [value for _, value in find_kinds(self.program, node, at)]
        if isinstance(made := builder.node, Instance):  # in a method of its class it is `self`, which no call shows
            known = [value.node for value in values if isinstance(value.node, Instance)]
            return any(found.of is made.of and found.call in (made.call, None) for found in known)
        found = [value.at for value in values if value.node is builder.node]
        own = builder.at.given.items()  # a loop around adds names to them
        return any(not inner.given or all(inner.given.get(name) == value for name, value in own) for inner in found)

    def unroll(self, call: ast.expr, at: Surroundings) -> list[Surroundings]:
        """Find the surroundings of a call for each round of the loops around it, where the source shows them.

        Rounds in which a test around the call is known to be false are left out.
        """
        rounds, tests = self._list_rounds(call, at)
        return [inner for inner in rounds if not any(self.program.is_false(test, inner) for test in tests)]

    def _list_skipped(self, builder: Traced) -> set[str]:
        """List the names of nodes in rounds of loops that a test skips, which have no edges."""
        names = set[str]()
        for call, at in self.list_calls(builder, "add_node"):
            rounds, tests = self._list_rounds(call, at)
            for inner in rounds if len(rounds) > 1 and len(call.args) > 1 else ():
                if any(self.program.is_false(test, inner) for test in tests):
                    names.update(find_strings(self.program, call.args[0], inner).values)
        return names

    def _list_rounds(self, call: ast.expr, at: Surroundings) -> tuple[list[Surroundings], list[ast.expr]]:
        """List the surroundings of a call for all rounds of the loops around it, and the tests around it."""
        loops, tests, statements = self.program.list_around(call, at.owner)
        tests += [test for statement in statements for test in self.program.list_tests_before(statement)]
        rounds = [self.program.enter_after_loops(at, call.lineno)]
        for loop in loops:
            rounds = [inner for outer in rounds for inner in self._list_carried(loop, call, outer)]
        return rounds, tests

    def _list_carried(self, loop: ast.For, call: Any, at: Surroundings) -> list[Surroundings]:
        """Find the surroundings for each round of a loop, with what the round before has left in names."""
        rounds: list[Surroundings] = []
        for inner in self.program.list_rounds([loop], at):
            given = dict(inner.given)
            for name, statement in list_carried(loop, at):
                if statement.lineno < call.lineno:
                    given[name] = self.program.trace(statement.value, inner)
                elif rounds:
                    given[name] = self.program.trace(statement.value, rounds[-1])
                else:
                    first = [value for value in at.names.bound[name] if value is not statement.value]
                    given[name] = [Traced(value, at) for value in first]
            rounds.append(Surroundings(inner.file, inner.owner, inner.outer, given))
        return rounds

    def _add_node(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        named = get_keywords(call)
        given = self._list_given(call, at, "node", "action")
        if not given:
            return
        names = Strings((), False)
        if len(given) > 1:
            names = find_strings(self.program, *given[0][:2])
            if not names.values:
                self.note(
                    call,
                    at,
                    f"the name of a node is computed: {ast.unparse(given[0].node)}",
                    "give the node a constant name",
                )
        action = given[min(1, len(given) - 1)]
        self._add_action(call, action.node, action.at, graph, names.values)
        for draft in self.nodes[-1:]:
            if "destinations" in named:
                ends = self.list_names(named["destinations"], at, keys=True)
                self._add_edge(draft.name, ends, "code", "destinations", (call, at), graph, router=draft.target)

    def _add_action(
        self, call: ast.Call, action: ast.expr, at: Surroundings, graph: str, names: tuple[str, ...]
    ) -> list[str]:
        """Add the nodes that run an action; returns their names."""
        actions = list(self._list_actions(action, at)) or [Action("unknown", ast.unparse(action), Traced(action, at))]
        known = [found for found in actions if found.kind != "unknown"] or actions[:1]
        chosen = known[0]
        if chosen.kind == "unknown":
            self.note(
                call,
                at,
                f"the source does not show what node {', '.join(names)} runs: {ast.unparse(action)}",
                "add a function of the program as the node",
            )
        given = find_given_name(self.program, chosen.found) or chosen.target or ast.unparse(action)
        own = names or (given if len(call.args) < 2 else f"{{{ast.unparse(call.args[0])}}}",)
        code = Code([], at, action)
        if not isinstance(action, ast.Name | ast.Attribute) and chosen.kind != "agent":
            code = self.reader.get_code(action, at)
        for name in own:
            draft = NodeDraft(name, chosen.kind, chosen.target, self._place(chosen.found, call, at), graph)
            draft.action, draft.function = code, chosen.found
            draft.code = chosen.code
            for extra in known[1:]:
                if extra.code is not None:
                    code.refers.append(extra.code)
            self.nodes.append(draft)
            self._read_inside(draft, chosen, call, at, graph)
        return list(own)

    def _read_inside(self, draft: NodeDraft, action: Action, call: ast.Call, at: Surroundings, graph: str) -> None:
        """Read the agent, the tools or the graph inside a node."""
        if action.kind == "agent":
            draft.agent = self.makers.read_agent(action.found)
            if draft.agent and draft.agent.maker in ("create_supervisor", "create_swarm"):
                self._read_subgraph(draft.name, "node", action.found, call, at, graph)
        elif action.kind == "subgraph":
            self._read_subgraph(draft.name, "node", action.found, call, at, graph)
        elif action.kind == "tools":
            code = draft.action or Code([], at)
            draft.tools = self.makers.read_tools(*action.found[:2], code, "run")

    def _read_subgraph(self, node: str, kind: str, found: Traced, call: Any, at: Surroundings, graph: str) -> None:
        name = self.read.get((found.node, found.at))
        is_new = name is None
        if name is None:
            own = node
            if kind == "call":
                own = get_last_name(call.func.value) or self.makers.name_by_target(found.node) or node
            name = f"{graph}/{own}" if graph else own
        place = place_of(call, at)
        self.subgraphs.append(Subgraph(name=name, node=node, kind=kind, graph=graph, **place))
        if is_new:
            self.read_graph(found, name)

    def _place(self, found: Traced, call: ast.Call, at: Surroundings) -> dict[str, Any]:
        node = found.node.of if isinstance(found.node, Instance) else found.function
        return place_of(node, found.at) if isinstance(node, ast.expr | ast.stmt) else place_of(call, at)

    def _list_actions(self, action: ast.expr, at: Surroundings) -> Iterator[Action]:
        for kind, found in find_kinds(self.program, action, at):
            node = found.node
            if kind in ("function", "partial", "tool", "graph") and isinstance(node, BoundMethod | Function):
                name = getattr(found.function, "name", "lambda")
                code = self.reader.get_found_code(found) if kind != "partial" else self._read_partial(found, action, at)
                own = "lambda" if isinstance(node, ast.Lambda) else "subgraph" if kind == "graph" else kind
                yield Action(own, name, found, code)
            elif kind in ("object", "tool") and isinstance(node, Instance):
                yield self._read_object(found)
            elif kind == "graph":
                yield Action("subgraph", self.makers.name_by_target(node), found)
            elif kind == "agent":
                draft = self.makers.read_agent(found)
                yield Action("agent", draft.name if draft else "", found, draft.code if draft else None)
            elif kind == "tools":
                yield Action("tools", "ToolNode", found)
            elif kind in ("chain", "model", "prompt"):
                yield Action(kind, self.makers.name_by_target(node), found, self.reader.get_code(node, found.at))

    def _read_partial(self, found: Traced, action: ast.expr, at: Surroundings) -> Code:
        for value in self.program.trace(action, at):
            if isinstance(value.node, ast.Call) and is_partial(value.node, value.node.args[0]):
                return self.reader.get_partial_code(found, value.node, value.at)
        return self.reader.get_found_code(found)

    def _read_object(self, found: Traced) -> Action:
        for name in ("__call__", "invoke", "ainvoke"):
            for member in self.program.get_member(found, name):
                if isinstance(member.node, BoundMethod):
                    return Action("object", found.node.of.name, found, self.reader.get_found_code(member))
        return Action("object", found.node.of.name, found)

    def list_names(self, node: ast.expr, at: Surroundings, *, keys: bool = False) -> Strings:
        """Find the names in a list, or in the values or keys of a dict, or a name alone."""
        listed, is_list = list[Traced](), False
        for found in self.program.trace(node, at):
            pairs = self.program.list_pairs(found)
            parts = [pair[0 if keys else 1] for pair in pairs] if pairs else list(self.program.iterate(found))
            is_list = is_list or bool(parts) or isinstance(found.node, ast.List | ast.Tuple | ast.Set | ast.Dict)
            listed += [part for part in parts if isinstance(part, Traced)]
        if not is_list:
            return find_strings(self.program, node, at)
        return unite_strings(find_strings(self.program, *part[:2]) for part in listed)

    def _add_edge(
        self,
        source: str,
        ends: Strings,
        kind: str,
        shown_by: str,
        where: tuple[Any, Surroundings],
        graph: str,
        router: str = "",
    ) -> None:
        edge = ProgramEdge(
            source=source,
            ends=ends.values,
            kind=kind,
            shown_by=shown_by,
            router=router,
            complete=ends.complete,
            graph=graph,
            **place_of(*where),
        )
        if not any(known == edge for known in self.edges if known.source == source):
            self.edges.append(edge)

    def _read_edge(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        given = self._list_given(call, at, "start_key", "end_key")
        if len(given) < 2:
            return
        sources, ends = self.list_names(*given[0][:2]), find_strings(self.program, *given[1][:2])
        if not sources.values or not ends.values:
            self.note(call, at, f"the ends of an edge are computed: {ast.unparse(call)}", "name the nodes by constants")
        for source in sources.values:
            self._add_edge(source, ends, "data", "edge", (call, at), graph)

    def _list_given(self, call: ast.Call, at: Surroundings, *names: str) -> list[Traced]:
        """List the positional arguments of a call, those of `*pair` too, and some that have names."""
        named = self.program.open_keywords(call, at)
        return [
            *open_starred(self.program, call.args, at),
            *(Traced(named[name], at) for name in names if name in named),
        ]

    def _read_entry(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        for part in [*call.args[:1], *(keyword.value for keyword in call.keywords)]:
            self._add_edge(START, find_strings(self.program, part, at), "data", "entry", (call, at), graph)

    def _read_finish(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        for part in [*call.args[:1], *(keyword.value for keyword in call.keywords)]:
            for source in find_strings(self.program, part, at).values:
                self._add_edge(source, Strings((END,), True), "data", "finish", (call, at), graph)

    def _read_sequence(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        names: list[str] = []
        for found in self.program.trace(call.args[0], at) if call.args else ():
            for part in self.program.iterate(found):
                pair: Any = part
                if isinstance(part, Traced) and isinstance(part.node, ast.Tuple):
                    pair = tuple(Traced(inner, part.at) for inner in part.node.elts)
                if isinstance(pair, Traced):
                    names += self._add_action(call, pair.node, pair.at, graph, ())
                elif len(pair) == 2:
                    given = find_strings(self.program, pair[0].node, pair[0].at).values
                    names += self._add_action(call, pair[1].node, pair[1].at, graph, given)
        for before, after in pairwise(names):
            self._add_edge(before, Strings((after,), True), "data", "sequence", (call, at), graph)

    # routers

    def _read_conditional(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        found = self.open_conditional(call, at)
        if found is None:
            return
        router = found.router
        ends, kind, shown_by = self._find_ends(call, found.path, found.mapping, router, at)
        name = self._name_router(found.path, router)
        where: tuple[Any, Surroundings] = (call, at)
        if router is not None:
            self.routers.append((name, self.reader.get_found_code(router)))
            where = (router.function, router.at)
        for start in found.sources:
            self._add_edge(start, ends, kind, shown_by, where, graph, router=name)

    def open_conditional(self, call: ast.Call, at: Surroundings) -> ConditionalCall | None:
        """Read the arguments of a call that adds a conditional edge; None if it has no router."""
        named, given = get_keywords(call), list(call.args)
        is_entry = get_last_name(call.func) == "set_conditional_entry_point"
        source = None if is_entry else named.get("source") or (given.pop(0) if given else None)
        path = named.get("path") or (given.pop(0) if given else None)
        mapping = named.get("path_map") or (given.pop(0) if given else None)
        if path is None:
            return None
        sources = (START,) if source is None else self.list_names(source, at).values
        routers = [self._open_router(value) for value in self.program.trace(path, at)]
        router = next((value for value in routers if isinstance(value.node, BoundMethod | Function)), None)
        return ConditionalCall(sources, path, mapping, router)

    def _open_router(self, found: Traced) -> Traced:
        """Replace an object as a router by its `__call__`."""
        members = self.program.get_member(found, "__call__") if isinstance(found.node, Instance) else iter(())
        return next(members, found)

    @staticmethod
    def _name_router(path: ast.expr, router: Traced | None) -> str:
        if router is None:
            return ast.unparse(path)
        name = getattr(router.function, "name", "lambda")
        return name if name != "__call__" else getattr(router.node.owner.node, "of", router.function).name

    def _find_ends(
        self, call: ast.Call, path: ast.expr, mapping: ast.expr | None, router: Traced | None, at: Surroundings
    ) -> tuple[Strings, str, str]:
        """Find the ends of a conditional edge, their kind and what shows them."""
        returned = self._unite_ends(self._list_router_values(router)) if router is not None else Strings((), False)
        annotated = self.list_annotated(path, router)
        if router is not None:
            name = getattr(router.function, "name", "lambda")
            for text in (*returned.values, *annotated):
                self.signals.setdefault(text, f"an end of router {name}")
        sends = "send" if router and any(map(self._is_send, self._list_router_values(router))) else ""
        if mapping is not None:
            self._note_mapping_keys(mapping, at)
            mapped = self.list_names(mapping, at)
            if mapped.values:
                return mapped, "data", sends or "mapping"
        if annotated:
            return Strings(annotated, True), "data", sends or "annotation"
        if not returned.values or not returned.complete:
            self.note(
                call,
                at,
                f"the source does not show all ends of router {ast.unparse(path)}",
                "annotate its return type with Literal[...] or give add_conditional_edges a mapping",
            )
        return returned, "code", sends or "returns"

    def list_annotated(self, path: ast.expr, router: Traced | None) -> tuple[str, ...]:
        """List the ends that the return type of a router names."""
        if get_last_name(path) == "tools_condition":
            return "tools", END
        if router is None:
            return ()
        return find_literals(self.program, getattr(router.function, "returns", None), router.at)

    def _note_mapping_keys(self, mapping: ast.expr, at: Surroundings) -> None:
        for found in self.program.trace(mapping, at):
            if isinstance(found.node, ast.Dict):
                for key, _ in list_items(found.node):
                    self.mapping_keys.setdefault(key, "a key of a router's mapping")

    def _list_router_values(self, router: Traced) -> Iterator[Traced]:
        """Find what a router returns: the elements of lists too."""
        owner = router.node.owner if isinstance(router.node, BoundMethod) else None
        for returned in self.program.list_returned(router.function, router.at, {}, None, owner):
            for found in self.program.trace(returned.node, returned.at):
                if isinstance(found.node, ast.List | ast.Tuple | ast.ListComp | ast.BinOp):
                    yield from self.makers.list_elements(found.node, found.at)
                else:
                    yield found

    @staticmethod
    def _is_send(found: Traced) -> bool:
        return isinstance(found.node, ast.Call) and get_last_name(found.node.func) == "Send"

    def _unite_ends(self, values: Iterable[Traced]) -> Strings:
        """Unite the ends that a router returns, or a command goes to; those of `Send` too."""
        read = unite_strings(map(self._read_end, values))
        return read._replace(complete=read.complete and bool(read.values))

    def _read_end(self, found: Traced) -> Strings:
        node = get_argument(found.node, 0, "node") if self._is_send(found) else found.node
        read = find_strings(self.program, node, found.at)
        return read._replace(complete=True) if isinstance(node, ast.Constant) else read  # None is no end

    # code of nodes

    def _read_node_code(self, draft: NodeDraft) -> None:
        """Read where the code of a node may lead, which graphs it asks and where it waits."""
        self.reader.read_pending()
        if draft.agent is not None:
            self._read_agent_pauses(draft.agent, draft.name, draft.graph)
        for code in draft.code.list_reached() if draft.code is not None else ():
            for jump in list(code.jumps):
                self._read_jump(draft, jump, code, "command")
            self._read_asked(draft, code, set())
            for task in code.tasks:
                self._add_task(draft, task, code)
        self._read_handoffs(draft)

    def _read_asked(self, draft: NodeDraft, code: Code, seen: set[Code]) -> None:
        """Read the graphs that a piece of code asks, and those that tools of the agents ask that it asks."""
        seen.add(code)
        for found, call in sorted(code.graphs, key=lambda known: _find_end(known[1].node)):  # as they are called
            if get_last_name(getattr(found.node, "func", None)) not in ("create_agent", "create_react_agent"):
                self._read_subgraph(draft.name, "call", found, call.node, call.at, draft.graph)
                continue
            agent = self.makers.read_agent(found)
            for tool in agent.tool_drafts if agent is not None else ():
                for pause in self._list_pauses(tool):
                    self._add_interrupt(draft.name, "interrupt", draft.graph, pause.node, pause.at)
                for inner in tool.body.list_reached() if tool.body is not None else ():
                    if inner not in seen:
                        self._read_asked(draft, inner, seen)

    def _read_jump(self, draft: NodeDraft, jump: Traced, code: Code, shown_by: str) -> None:
        name = get_last_name(jump.node.func)
        if name == "interrupt":
            self._add_interrupt(draft.name, "interrupt", draft.graph, jump.node, jump.at)
        elif name == "Command":
            self._read_command(draft, jump, code, shown_by)

    def _add_interrupt(self, node: str, kind: str, graph: str, place: ast.AST, at: Surroundings) -> None:
        found = ProgramInterrupt(node=node, kind=kind, graph=graph, **place_of(place, at))
        if found not in self.interrupts:
            self.interrupts.append(found)

    def read_tool_interrupts(self) -> None:
        """Read where a tool waits for a person that no node is known to run."""
        known = {(pause.file, pause.line) for pause in self.interrupts}
        for tool in self.makers.tools.values():
            for pause in self._list_pauses(tool):
                place = place_of(pause.node, pause.at)
                if (place["file"], place["line"]) not in known:
                    self._add_interrupt(tool.name, "interrupt in a tool", "", pause.node, pause.at)

    @staticmethod
    def _list_pauses(tool: ToolDraft) -> Iterator[Traced]:
        """List the calls by which a tool waits for a person."""
        for code in tool.body.list_reached() if tool.body is not None else ():
            yield from (jump for jump in code.jumps if get_last_name(jump.node.func) == "interrupt")

    def _read_command(self, draft: NodeDraft, jump: Traced, code: Code, shown_by: str) -> None:
        named = get_keywords(jump.node)
        declared = [edge for edge in self.edges if (edge.source, edge.graph) == (draft.name, draft.graph)]
        if "goto" not in named or any(edge.shown_by == "destinations" for edge in declared):
            return
        ends = self._find_goto(named["goto"], jump.at)
        function = code.owner
        annotated = find_literals(self.program, getattr(function, "returns", None), code.at.outer or code.at)
        if annotated:
            ends = Strings(annotated, True)
        elif not ends.values or not ends.complete:
            self.note(
                jump.node,
                jump.at,
                f"the source does not show where node {draft.name} goes: {ast.unparse(named['goto'])}",
                "annotate its function's return type with Command[Literal[...]]",
            )
        for text in ends.values:
            self.signals.setdefault(text, f"an end of node {draft.name}")
        router = getattr(function, "name", draft.target)
        is_parent = draft.graph and get_last_name(named.get("graph")) == "PARENT"
        graph, _, start = draft.graph.rpartition("/") if is_parent else (draft.graph, "", draft.name)
        self._merge_edge(start, ends, shown_by, (function, code.at), graph, router)

    def _merge_edge(
        self, source: str, ends: Strings, shown_by: str, where: tuple[Any, Surroundings], graph: str, router: str
    ) -> None:
        """Add the ends of a command or a call to those of the same node's others."""
        for number, same in enumerate(self.edges):
            if (same.source, same.graph, same.router, same.shown_by) == (source, graph, router, shown_by):
                both = tuple(dict.fromkeys((*same.ends, *ends.values)))
                self.edges[number] = same.replace(ends=both, complete=same.complete and ends.complete)
                return
        self._add_edge(source, ends, "code", shown_by, where, graph, router=router)

    def _find_goto(self, node: ast.expr, at: Surroundings) -> Strings:
        found = [*self.makers.list_elements(node, at), *self.program.trace(node, at)]
        return self._unite_ends(
            part for part in found if not isinstance(part.node, ast.List | ast.Tuple | ast.ListComp)
        )

    def _read_handoffs(self, draft: NodeDraft) -> None:
        """Read the graphs that tools of a node ask, and the ways that they open by `Command(goto=...)`."""
        tools = [*draft.tools, *(draft.agent.tool_drafts if draft.agent else [])]
        for tool in tools:
            call, at = tool.at[:2]
            if tool.kind == "handoff" and (target := get_argument(call, 0, "agent_name")) is not None:
                ends = find_strings(self.program, target, at)
                self._add_edge(draft.name, ends, "code", "handoff", (call, at), draft.graph, router=tool.name)
            elif tool.body is not None:
                for code in tool.body.list_reached():
                    self._read_asked(draft, code, set())
                    for jump in code.jumps:
                        self._read_jump(draft, jump, code, "handoff")

    # agents as graphs

    def _read_agent_graph(self, found: Traced, graph: str) -> None:
        """Read a graph that a maker of agents makes."""
        draft = self.makers.read_agent(found)
        if draft is None:
            self.note(
                found.node, found.at, "the source does not show what makes the graph", "name a graph that it shows"
            )
            return
        first = len(self.nodes)
        if draft.maker != "create_swarm":
            self._add_agent_node(draft, graph)
            self._add_edge(START, Strings((draft.name,), True), "data", "entry", found[:2], graph)
        inner = [*self._list_team(draft, graph), *(self._add_agent_node(sub, graph) for sub in draft.subagents)]
        if draft.maker == "create_supervisor" and inner:
            names = tuple(inner)
            self._add_edge(draft.name, Strings(names, True), "code", "handoff", found[:2], graph, "supervisor")
            for name in inner:
                self._add_edge(name, Strings((draft.name,), True), "data", "handoff", found[:2], graph)
        elif draft.subagents:
            ends = Strings(tuple(sub.name for sub in draft.subagents), True)
            self._add_edge(draft.name, ends, "code", "handoff", found[:2], graph, "task")
        elif draft.default:
            self._add_edge(START, Strings((draft.default,), True), "data", "entry", found[:2], graph)
        for node in self.nodes[first:]:
            self._read_node_code(node)

    def _read_agent_pauses(self, draft: AgentDraft, name: str, graph: str) -> None:
        """Read where an agent waits for a person: by its own arguments, or by those of its middleware."""
        call, at = draft.at.node, draft.at.at
        given = get_keywords(call).get("middleware") if isinstance(call, ast.Call) else None
        made = self.makers.list_elements(given, at) if given is not None else []
        for found in [draft.at, *(part for part in made if isinstance(part.node, ast.Call))]:
            for keyword in getattr(found.node, "keywords", ()):
                if keyword.arg in ("interrupt_before", "interrupt_after", "interrupt_on"):
                    self._add_interrupt(name, keyword.arg, graph, keyword.value, found.at)

    def _add_agent_node(self, draft: AgentDraft, graph: str) -> str:
        place = place_of(*draft.at[:2])
        self.nodes.append(NodeDraft(draft.name, "agent", draft.maker, place, graph, draft.code, agent=draft))
        return draft.name

    def _list_team(self, draft: AgentDraft, graph: str) -> Iterator[str]:
        """Add the agents and graphs of a supervisor or a swarm as nodes."""
        for member in draft.agents:
            for kind, found in tell_kind(self.program, member):
                if kind == "agent":
                    inner = self.makers.read_agent(found)
                    if inner is None:
                        continue
                    yield self._add_agent_node(inner, graph)
                    if inner.maker in ("create_supervisor", "create_swarm"):
                        self._read_subgraph(inner.name, "node", found, found.node, found.at, graph)
                elif kind == "graph":
                    name = self._name_graph(member) or self.makers.name_by_target(found.node)
                    self.nodes.append(NodeDraft(name, "subgraph", name, place_of(*found[:2]), graph))
                    self._read_subgraph(name, "node", found, found.node, found.at, graph)
                    yield name

    def _name_graph(self, member: Traced) -> str:
        """Find the name in `compile(name=...)`."""
        for keyword in getattr(member.node, "keywords", ()):
            if keyword.arg == "name":
                return "".join(find_strings(self.program, keyword.value, member.at).values[:1])
        return ""

    def add_runnable(self, name: str, kind: str, found: Traced) -> None:
        """Add what is no graph, such as a chain, as a single node."""
        code = self.reader.get_code(found.function, found.at)
        self.nodes.append(NodeDraft(name, kind, name, place_of(found.function, found.at), "", code))
        self._read_node_code(self.nodes[-1])

    # the functional API

    def _read_entrypoint(self, found: Traced, graph: str) -> None:
        function = found.node
        code = self.reader.get_code(function, found.at)
        draft = NodeDraft(function.name, "entrypoint", function.name, place_of(function, found.at), graph, code)
        self.nodes.append(draft)
        self._read_node_code(draft)

    def _add_task(self, draft: NodeDraft, task: Traced, code: Code) -> None:
        function = task.node
        made = [part for part in function.decorator_list if isinstance(part, ast.Call)]
        given = [self.makers.find_first(get_keywords(part).get("name"), task.at) for part in made]
        name = next(filter(None, given), function.name)
        where, graph = (code.owner, code.at), draft.graph
        self._merge_edge(draft.name, Strings((name,), True), "call", where, graph, draft.target)
        if not any(node.name == name and node.graph == graph for node in self.nodes):
            inner = self.reader.get_code(function, task.at)
            self.nodes.append(NodeDraft(name, "task", function.name, place_of(function, task.at), graph, inner))
            self._read_node_code(self.nodes[-1])

    # interrupts

    def _read_pauses(self, call: ast.Call, at: Surroundings, graph: str) -> None:
        for keyword in call.keywords:
            if keyword.arg in ("interrupt_before", "interrupt_after"):
                for name in self.list_names(keyword.value, at).values:
                    self._add_interrupt(name, keyword.arg, graph, keyword.value, at)

    def list_nodes(self) -> list[ProgramNode]:
        """The nodes that were found."""
        return [
            ProgramNode(name=draft.name, kind=draft.kind, target=draft.target, graph=draft.graph, **draft.place)
            for draft in self.nodes
        ]


READERS: dict[str, Any] = {
    "add_node": GraphReader._add_node,
    "add_sequence": GraphReader._read_sequence,
    "set_entry_point": GraphReader._read_entry,
    "set_conditional_entry_point": GraphReader._read_conditional,
    "add_edge": GraphReader._read_edge,
    "add_conditional_edges": GraphReader._read_conditional,
    "set_finish_point": GraphReader._read_finish,
}
"""How the calls of a builder's methods are read; nodes come first."""


def takes_argument(call: Traced) -> bool:
    """Whether a call names an argument of the function in which it stands, or `super()`."""
    function = call.at.owner
    parameters = list_parameters(function) if isinstance(function, Function) else []
    named = {part.id for part in ast.walk(call.node) if isinstance(part, ast.Name)}
    return bool(parameters) and bool(named & {*parameters, "super"})


def is_marked_prompt(statement: ast.AnnAssign) -> bool:
    """Whether a field of settings has a default and the metadata `langgraph_type: prompt`."""
    dicts = [node for node in ast.walk(statement) if isinstance(node, ast.Dict)]
    marks = [value for node in dicts for key, value in list_items(node) if key == "langgraph_type"]
    return statement.value is not None and any(is_text(mark) and mark.value == "prompt" for mark in marks)


def place_of(node: Any, at: Surroundings) -> dict[str, Any]:
    """The place of a node, as fields of `Placed`."""
    line = getattr(node, "lineno", 1)
    return {"file": show_path(at.file.path), "line": line, "end_line": getattr(node, "end_lineno", None) or line}


def _find_end(node: Any) -> tuple[int, int]:
    """Find where an expression ends; a call inside another one's arguments ends, and is made, before it."""
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0
