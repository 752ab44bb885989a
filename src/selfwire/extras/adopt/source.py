"""Source of a program: its files, and what a name in them stands for. Nothing is imported or run.

An expression is *traced* to the expressions that it may stand for: over assignments, imports within the program,
attributes of classes and objects, arguments and return values.
"""

import ast
import builtins
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, wraps
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any, TypeVar

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.files import FOREIGN, ProgramFiles, find_module_file
from selfwire.extras.adopt.names import (
    Argument,
    BoundMethod,
    Element,
    Import,
    Imported,
    Instance,
    Outside,
    SourceFile,
    Surroundings,
    Traced,
    find_method,
    give_first,
    is_first_argument,
    list_carried,
    list_defaults,
    list_outer,
    make_pair,
    make_tuple,
)
from selfwire.extras.adopt.syntax import (
    LISTS,
    VIEWS,
    Function,
    get_default,
    get_docstring,
    get_keywords,
    get_last_name,
    is_classmethod,
    is_complete,
    is_field,
    is_lacking,
    is_none,
    is_partialmethod,
    is_path,
    is_property,
    is_static,
    is_super,
    is_super_method,
    is_text,
    is_true,
    is_wrapped,
    list_assignments,
    list_decorators,
    list_items,
    list_parameters,
    list_positional,
    list_summands,
    make_default,
    negate,
    parse_expression,
    pick_argument,
    place_statements,
    read_key,
    read_own_assignments,
    take_apart,
)

MARKS = ("pyproject.toml", "langgraph.json", "setup.py", "setup.cfg", ".git")
"""Files that lie in the topmost folder of a project."""
COPIES = ("MappingProxyType", "OrderedDict", "ChainMap", "deepcopy", "copy", "dict", "Final")
"""Functions whose result has the items of their first argument."""
CHANGING = ("replace", "_replace", "model_copy", "evolve")
"""Functions that make an object with some other fields of another."""
VALIDATING = ("model_validate", "parse_obj", "validate_python")
"""Methods of pydantic that make objects of dicts."""
OWN_PACKAGE = ("__package__", "__name__")
"""Names by which a file names its package; `__name__` does in the file of a package itself."""
SAME_WORD = ("lower", "upper", "title", "capitalize", "strip")
"""Methods that make another spelling of a text."""
POPPING = ("pop", "popleft")
"""Methods that take an item out of a collection."""
AWAITING = ("create_task", "ensure_future", "shield", "wait_for", "run")
"""Functions of asyncio that give what a coroutine returns."""
AS_DICT = ("_asdict", "asdict", "model_dump", "vars")
"""Functions that make a dict of an object's fields."""
PARTIALS = ("partial", "partialmethod", "to_thread", "submit", "run_in_executor", "map")
"""Functions that pass arguments to another, which they are given first, or behind what runs it."""
OPERATORS = {ast.Add: "__add__", ast.BitOr: "__or__", ast.Mod: "__mod__"}
"""Methods of a class by which its objects are put together."""
OPPOSITES = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
"""Comparisons by those that are true where they are false."""
TRUE_BASES = ("object", "ABC", "BaseModel", "Generic", "NamedTuple", "Enum")
"""Base classes of others whose objects are true; a dict or a text of a class of its own may be empty."""
PLAIN_BASES = (*TRUE_BASES, "TypedDict", "IntEnum", "StrEnum")
"""Base classes of others that give a field no value of their own, unlike `BaseSettings`, which asks the environment."""
MOST = 200
"""Most values that one expression is followed to."""
NESTED = 4
"""Calls inside calls whose arguments are told apart; deeper ones are taken together with all other calls."""
MOST_ROUNDS = 8
"""Rounds of a loop that are followed one after another."""
MANY = 8
"""Values of one name in one place from which on they are traced from the first on."""
PLAIN = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Tuple)
"""Expressions that make texts and collections, and no object of a class."""
TOOL_MAKERS = ("tool", "Tool", "StructuredTool", "from_function")
"""Functions and classes that make a tool of a function, whose docstring describes the tool where nothing else does."""
CHOOSING = ("filter", "islice", "sample", "choices")
"""Functions that take some elements of a collection."""
MOVING = ("sorted", "reversed", "set", "frozenset", "cycle", *CHOOSING)
"""Functions that give the elements of a collection in other places."""
PATIENCE = 10_000
"""Steps after which one expression is followed no further; after each that needed more, the next have half as many."""
LEAST_PATIENCE = 200
"""Steps that each expression may take at first; ordinary ones need fewer than a hundred."""
SHARE = 40_000
"""Steps of expressions that needed more after which each may take half of that, and so on, so that reading ends."""
PLAIN_DECORATORS = {"staticmethod", "classmethod", "cache", "lru_cache"}
"""Decorators of functions that nothing but the calls of the function runs."""
DEEPEST = 60
"""Most expressions inside each other that are followed."""
Found = TypeVar("Found")


def list_different(program: "Program", opener: Any, node: Any, at: Surroundings) -> list[Traced]:
    """List the different values to which an expression is opened."""
    found = dict[Any, Traced]()
    for value in opener(program, node, at):
        found[value.node, value.at.key, value.call] = value
        if len(found) > MOST:
            break
    return program.take_most([*found.values()], Traced(node, at))


def list_taken(made: Any) -> list[ast.expr]:
    """List the collections whose elements another is made of."""
    if isinstance(made, ast.Call):
        return made.args if get_last_name(made.func) in LISTS else []
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Add):
        return [made.left, made.right]
    return [part.value for part in getattr(made, "elts", ()) if isinstance(part, ast.Starred)]


def list_class_assignments(of: ast.ClassDef) -> list[tuple[Any, ast.Attribute, ast.expr]]:
    """List what the classmethods of a class assign to attributes, each with its method."""
    assigned = [
        (method, *pair)
        for method in filter(is_classmethod, of.body)
        for part in ast.walk(method)
        for pair in list_assignments(part)
    ]
    return [(method, target, value) for method, target, value in assigned if isinstance(target, ast.Attribute)]


def get_moved(call: ast.Call) -> ast.expr | None:
    """Get the collection of `items.reverse()`, `items.sort()` or `shuffle(items)`."""
    if get_last_name(call.func) == "shuffle":
        return call.args[0] if call.args else None
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def end_circles(empty: Found) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """Make a function of a program, an expression and its surroundings, or the like, return `empty` inside itself.

    A name may be bound to something made of itself, as in `graph = graph.compile()`. What is found is kept.
    """

    def guard(find: Callable[..., Found]) -> Callable[..., Found]:
        @wraps(find)
        def guarded(program: Any, *about: Any) -> Found:
            found: Found = program.find(find, about, (find, *about), program.asked, empty)
            return found

        return guarded

    return guard


class Program(ProgramFiles):
    """A program: its files, and what the expressions in them stand for.

    Attributes:
        below: the subclasses of each class; None until they are known.
        changed_loads: calls that load files whose items code changes; None until they are known.
        live: functions that the graph can reach; None until they are known.
        traced: what expressions stand for, as far as it is known.
        assigned: what methods assign to attributes of `self`, by class and attribute.
        asked: questions that are being answered, by their depth; see `end_circles`.
        ordered: names and chains that are being traced from the first on; see `_trace_in_order`.
        listed: how often the elements of a collection are being listed.
        popped: collections out of which an element is being taken, with the depth of the expression that takes it.
        active: expressions that are being traced, by their depth.
        cut: the depths of the expressions that were met again inside themselves, one bit for each.
        cut_short: keys of what is kept as long as an expression is being followed, by its depth.
        steps: the steps since the outermost expression that is being followed was asked for.
        spent: the steps of those that were not followed to the end.
        patience: the steps that it may take.
        is_short: whether not all of it was followed.
        ended: expressions that stand for more than can be followed.
        rests: the dicts that calls pass for `**rest`; `positional` has the tuples for `*rest`.
        passed: items of dicts that `**` passes, by dict and key, and calls without the function that `partial` takes.
        settled: expressions that `take_apart` made, with the values that they are made of in their surroundings.
        taken: items of collections that are loaded from files.
        cut_from: calls that cut constants out of a text, by the constant.
        moved: collections whose elements code moves in place, and how many calls do.
        list_globbed: lists the files of `folder.glob(pattern)`.
        list_loaded: lists the keys, or the indices, of what is loaded from a YAML, JSON or TOML file.
        read_strings: reads the texts that an expression may be; () if there may be others.
        looked_at: what functions have found in files, by the function and its arguments; see `look`.
    """

    def __init__(self, roots: Sequence[Path], project: Path) -> None:
        super().__init__(roots, project)
        self.below: dict[ast.ClassDef, list[Traced]] | None = None
        self.changed_loads: set[Any] | None = None
        self.live: set[Any] | None = None
        self.traced: dict[Any, Any] = {}
        self.active: dict[Any, int] = {}
        self.asked: dict[Any, int] = {}
        self.ordered: set[Any] = set()
        self.listed: dict[Any, list[int]] = {}
        self.popped: dict[Any, int] = {}
        self.settled: set[ast.expr] = set()
        self.assigned: dict[ast.ClassDef, dict[str, list[tuple[Any, ast.expr]]]] = {}
        self.cut = 0
        self.cut_short: dict[int, list[Any]] = {}
        self.steps, self.spent, self.patience, self.is_short = 0, 0, PATIENCE, False
        self.ended: list[Traced] = []
        self.rests: dict[Any, ast.Dict] = {}
        self.positional: dict[Any, ast.Tuple] = {}
        self.taken: set[ast.expr] = set()
        self.cut_from: dict[ast.expr, Traced] = {}
        self.moved: tuple[int, set[Any]] = (0, set())
        self.passed: dict[tuple[ast.AST, Any], ast.expr] = {}
        self.looked_at: dict[Any, Any] = {}
        self.list_globbed: Callable[[ast.Call, Surroundings], list[Path]] = lambda node, at: []
        self.load_value: Callable[[ast.expr, Surroundings], Any] = lambda node, at: None
        self.list_loaded: Callable[[ast.expr, Surroundings], list[str] | range] = lambda node, at: []
        self.read_strings: Callable[[ast.expr, Surroundings], tuple[str, ...]] = lambda node, at: ()

    def look(self, find: Callable[..., Found], *where: Any) -> Found:
        """Look into files and source by a function, once for the same arguments."""
        if (find, where) not in self.looked_at:
            self.looked_at[find, where] = find(*where)
        found: Found = self.looked_at[find, where]
        return found

    def read_named_imports(self) -> None:
        """Read the files of the program that `import_module(name)` imports, and what they import."""
        seen = 0
        while seen < len(calls := self.calls.get("import_module", [])):
            for call in calls[seen:]:
                self._import_named(call.node, call.at)
                seen += 1
            self.read_imported()
        self.traced.clear()  # what was found before all files were known

    def _import_named(self, node: ast.Call, at: Surroundings) -> list[Traced]:
        """Find the modules of the program that `import_module(name)` may be; those of `.name` lie in a package."""
        given = node.args[0] if node.args else None
        names = self.read_strings(given, at) if given is not None else ()
        if isinstance(given, ast.JoinedStr) and not names:  # f"{__package__}.{name}"
            first, *rest = given.values
            if get_last_name(getattr(first, "value", None)) in OWN_PACKAGE:
                named = self.passed.setdefault((given, "name"), ast.JoinedStr(rest))
                names = tuple(name for name in self.read_strings(named, at) if name.startswith("."))
        found = list[SourceFile | None]()
        for name in names:
            module = name.lstrip(".")
            folder = self._find_package(node, at) if name != module else None
            for _ in range(len(name) - len(module) - 1 if folder else 0):
                folder = folder.parent  # type: ignore[union-attr]
            found += [self.find_module(module, folder)] if folder or name == module else []
        return [Traced(Imported(file), file.top) for file in found if file is not None]

    def _find_package(self, node: ast.Call, at: Surroundings) -> Path | None:
        """Find the folder of the package that `import_module(".name", package)` names; its own without one."""
        package = get_keywords(node).get("package", node.args[1] if len(node.args) > 1 else None)
        if package is None or get_last_name(package) in OWN_PACKAGE:
            return at.file.path.parent
        files = [self.find_module(name) for name in self.read_strings(package, at)]
        return files[0].path.parent if files and files[0] is not None else None

    # names

    def look_up(self, name: str, at: Surroundings, line: float = math.inf) -> Iterator[Traced]:
        """Find what a name is bound to at a line: expressions, definitions, arguments, files, or a name of others."""
        here = self._find_binding(name, at)
        if here is not None and len(here.names.bound.get(name, ())) > MANY:
            self._trace_in_order(name, here, line if here is at else math.inf)
        if here is None:
            stars = at.file.top.names.bound.get("*", [])
            yield from list(self._look_up_stars(name, at.file, stars)) or [Traced(Outside(name), at)]
        elif name in here.given:
            yield from self._look_up_given(name, here, line if here is at else math.inf)
        else:
            first = self._find_first_line(name, at, here, line)
            last = line if at is here and name not in self.rebound else math.inf
            for value in here.names.bound[name]:
                is_later = isinstance(value, ast.expr) and value.lineno > last and self._is_sure(value, here)
                if getattr(value, "lineno", math.inf) >= first and not is_later:
                    yield from self._open_binding(value, here)
            around = ((value, list_outer(value.at.outer)) for value in self.reassigned.get(name, ()))
            yield from (value for value, outer in around if any(here.owner is at.owner for at in outer))
            added = self._list_added(name, here)
            yield from (value for value in added if getattr(value.node, "lineno", first) >= first)
            if here is here.file.top and name in self.additions:
                for value in self._list_added_inside(name, here):  # a function may read what it has added itself
                    yield value._replace(at=at) if value.at.owner is at.owner else value
            yield from self._look_up_stars(name, here.file, here.names.stars)

    def _trace_in_order(self, name: str, here: Surroundings, line: float) -> None:
        """Trace what `text = text + more` binds to a name before a line from the first on, as the last is too deep."""
        key = (name, here.key)
        if key not in self.ordered:
            self.ordered.add(key)
            for value in here.names.bound[name]:
                if getattr(value, "lineno", math.inf) < line:
                    self.trace(value, here)
            self.ordered.discard(key)

    def _find_first_line(self, name: str, at: Surroundings, here: Surroundings, line: float) -> float:
        """Find the line from which on what binds a name matters to code at a line, or to a function behind it."""
        while at is not here and at.outer is not None:
            at, line = at.outer, getattr(at.owner, "lineno", 0)
        if line == math.inf or name in self.rebound or isinstance(here.owner, ast.Lambda):
            return 0
        bound = [
            value
            for value in here.names.bound[name]
            if isinstance(value, ast.expr | ast.stmt) and self._is_sure(value, here)
        ]
        return max((value.lineno for value in bound if (value.end_lineno or 0) < line), default=0)

    def _look_up_given(self, name: str, here: Surroundings, line: float) -> Iterator[Traced]:
        """Find what a call passes for a name, or what code before a line binds to it instead."""
        given, bound = here.given[name], here.names.bound.get(name, [])
        rebound = bound[1:]
        if not all(is_none(value.node) for value in given):  # else it may be replaced, `x = x or ...`
            is_passed = bool(bound) and isinstance(bound[0], Argument)
            rebound = [value for value in rebound if is_passed and self._is_rebound(value, name, here, line)]
            sure = [index for index, value in enumerate(rebound) if self._is_sure(value, here)]
            given, rebound = [] if sure else given, rebound[max(sure, default=0) :]
        yield from given
        for value in rebound:
            yield from self._open_binding(value, here)
        yield from self._list_added(name, here)

    def _is_sure(self, value: ast.AST, here: Surroundings) -> bool:
        """Whether a module or a function binds a name to a value, a function or a class in any case."""
        statement = value if isinstance(value, ast.stmt) else self.parents.get(value)
        return self.parents.get(statement) is here.owner

    def _is_rebound(self, value: Any, name: str, here: Surroundings, line: float) -> bool:
        """Whether an argument that is passed may be replaced by a value before a line.

        What a loop leaves in a name is told round by round; a default is taken where nothing is passed.
        """
        child = self.parents.get(value) if isinstance(value, ast.expr) else None
        if not isinstance(child, ast.Assign | ast.AnnAssign):
            return False
        is_before = (value.end_lineno or 0) < line
        while (around := self.parents.get(child)) is not None and around is not here.owner:
            if isinstance(around, ast.For) and child in around.body:
                return False
            if isinstance(around, ast.If) and child in around.body and is_lacking(around.test, name):
                return False
            is_before, child = is_before or isinstance(around, ast.While), around
        return is_before

    @staticmethod
    def _find_binding(name: str, at: Surroundings) -> Surroundings | None:
        """Find the surroundings that give or bind a name; None if none does."""
        here: Surroundings | None = at
        while here is not None and name not in here.given:
            if here.names.bound.get(name) and (here is at or not isinstance(here.owner, ast.ClassDef)):
                break
            here = here.outer
        return here

    def _list_added(self, name: str, here: Surroundings) -> list[Traced]:
        """List what a module or a function itself adds to a collection, where no test around it is false."""
        return [Traced(value, here) for value in here.names.added.get(name, ()) if self.is_reached(value, here)]

    def _list_added_inside(self, name: str, top: Surroundings) -> Iterator[Traced]:
        """Find what functions add to a collection of their module; for each function that they decorate, if they do."""
        for value in self.additions[name]:
            if value.at.file is top.file:
                known = [inside for _, inside in self.list_decorations(value.at)] or self._list_calls_of(
                    value.at.owner, value.at
                )
                yield from (Traced(value.node, at) for at in known or [value.at] if self.is_reached(value.node, at))

    @end_circles(False)
    def is_skipped(self, test: ast.expr, at: Surroundings) -> bool:
        """Whether a test is false: in all calls of the function around it, if nothing but calls runs that function."""
        owner = at.owner
        if at.given or not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef) or self._is_run_by_others(at):
            return self.is_false(test, at)
        if {getattr(part, "id", None) for part in ast.walk(test)}.isdisjoint(list_parameters(owner)):
            return False
        calls = self.calls.get(owner.name, ())
        called, known = [c for c in calls if self.find_called(owner, c.node, c.at)], self._list_calls_of(at.owner, at)
        return 0 < len(called) == len(known) and all(self.is_false(test, inside) for inside in known)

    def _is_run_by_others(self, at: Surroundings) -> bool:
        """Whether a function is handed over, named in a text, decorated, or a method of a class of others' kind."""
        owner, of = at.owner, at.outer
        if owner.name in self.handed or owner.name in self.passed_texts or {*list_decorators(owner)} - PLAIN_DECORATORS:
            return True
        is_method = of is not None and of.outer is not None and isinstance(of.owner, ast.ClassDef)
        return is_method and self._is_set_elsewhere(of.owner, of.outer)  # type: ignore[union-attr]

    def is_reached(self, node: ast.AST, at: Surroundings) -> bool:
        """Whether the tests around a node of a function, which may be one that stands in no file, may hold."""
        part = next((part for part in ast.walk(node) if part in self.parents), node)
        _, tests, statements = self.look(self.list_around, part, at.owner)
        is_skipped = any(self.is_skipped(test, at) for test in tests)
        return not is_skipped and all(self._is_passed(statement, at) for statement in statements)

    def _is_passed(self, statement: ast.stmt, at: Surroundings) -> bool:
        """Whether no statement before another in its block is known to leave the block, as `if not TESTS: return`.

        What is known of one holds for those behind it too, so each is asked once.
        """
        leaving, number = self.look(place_statements, self.parents[statement])[statement]
        known = next((n for n in range(number, 0, -1) if ("passed", leaving[n - 1], at.key) in self.traced), 0)
        is_known = True
        for part in leaving[known:number]:
            before, self.cut = self.cut, 0
            is_left = self.is_skipped(self.look(negate, part.test), at)
            is_known, self.cut = is_known and not self.cut, self.cut | before
            if is_left:
                return False
            if is_known:
                self.traced["passed", part, at.key] = (True, 0)
        return True

    def list_tests_before(self, statement: ast.stmt) -> list[ast.expr]:
        """List the tests that hold behind what may leave the block of a statement before it."""
        leaving, number = self.look(place_statements, self.parents[statement])[statement]
        return [self.look(negate, part.test) for part in leaving[:number]]

    def list_around(self, node: ast.AST, owner: Any) -> tuple[list[ast.For], list[ast.expr], list[ast.stmt]]:
        """List what is around a node of a function: loops, the outer first, tests that hold, and its statements.

        Of the statements, those are listed before which another may leave the block.
        """
        loops, tests, statements = list[ast.For](), list[ast.expr](), list[ast.stmt]()
        child: Any = node
        while child is not owner and (parent := self.parents.get(child)) is not None:
            if not isinstance(parent, ast.Module) and self.look(place_statements, parent).get(child, ((), 0))[1]:
                statements.append(child)
            if isinstance(parent, ast.For):
                loops.insert(0, parent)
            elif isinstance(parent, ast.If) and child is not parent.test:
                tests.append(parent.test if child in parent.body else self.look(negate, parent.test))
            child = parent
        return loops, tests, statements

    def list_decorations(self, at: Surroundings) -> list[tuple[Any, Surroundings]]:
        """Find the functions that a decorator, or what it returns, decorates, with its surroundings for each.

        Subclasses are what the `__init_subclass__` of a class decorates.
        """
        function, outer = at.owner, at.outer
        if not isinstance(function, ast.FunctionDef) or outer is None:
            return []
        if function.name == "__init_subclass__" and isinstance(outer.owner, ast.ClassDef):
            below = self.list_below(outer.owner)
            return [(sub.node, self._enter_init_subclass(function, outer, sub)) for sub in below]
        maker = outer.owner if isinstance(outer.owner, ast.FunctionDef) else function
        around = outer if maker is function else outer.outer
        is_method = isinstance(getattr(around, "owner", None), ast.ClassDef) and not is_static(maker)
        found = []
        known = self.decorated.get(maker.name, ())
        for decorated, decorator in sorted(known, key=lambda pair: pair[0].node.lineno):
            if isinstance(decorator, ast.Call) is not (maker is not function):
                continue
            owner = getattr(decorator.func if isinstance(decorator, ast.Call) else decorator, "value", None)
            me = give_first(maker, Traced(owner, decorated.at)) if is_method and owner is not None else {}
            own = list_positional(function)[1 if me and maker is function else 0 :][:1]
            given = {name: [decorated] for name in own}
            if isinstance(decorator, ast.Call) and around is not None:
                passed = self.list_passed(maker, decorator, decorated.at, skip_first=is_method)
                defaults = list_defaults(at.file.read_names(maker), around) if is_complete(decorator) else {}
                outer = Surroundings(at.file, maker, around, {**defaults, **passed, **me})
                me = {}
            found.append((decorated.node, Surroundings(at.file, function, outer, {**me, **given})))
        return found

    @staticmethod
    def _enter_init_subclass(function: ast.FunctionDef, at: Surroundings, sub: Traced) -> Surroundings:
        """Return the surroundings inside `__init_subclass__` for a subclass and the keywords of its definition."""
        keywords = {part.arg: [Traced(part.value, sub.at)] for part in sub.node.keywords if part.arg is not None}
        given = {**list_defaults(at.file.read_names(function), at), **keywords}
        return Surroundings(at.file, function, at, {**given, **give_first(function, sub)})

    def _list_registered(self, of: ast.ClassDef, name: str) -> Iterator[Traced]:
        """Find what functions add to a collection that is an attribute of a class."""
        for owner, value in self.registered.get(name, ()):
            owners = {self._get_own_class(found) for found in self.trace(owner, value.at)}
            if owners & {of, *(below.node for below in self.list_below(of))}:
                known = [inside for _, inside in self.list_decorations(value.at)] or self._list_makings(value.at)
                yield from (Traced(value.node, at) for at in known or [value.at] if self.is_reached(value.node, at))

    def _list_makings(self, at: Surroundings) -> list[Surroundings]:
        """List the surroundings inside an `__init__` for each call that makes an object; none for another function."""
        of = at.outer
        if at.owner.name != "__init__" or of is None or of.outer is None or not isinstance(of.owner, ast.ClassDef):
            return []
        classes = [Traced(of.owner, of.outer), *self.list_below(of.owner)]
        made = [
            Traced(Instance(found.node, call.node, call.at), found.at)
            for found in classes
            for call in self.calls.get(found.node.name, ())
            if any(value.node is found.node for value in self.trace(call.node.func, call.at))
        ]
        return [inside for me in made if (inside := self.enter_init(me, at.owner)) is not None]

    @staticmethod
    def _get_own_class(found: Traced) -> Any:
        """The class that an expression is; that of a classmethod for its first argument; None if it is none."""
        if isinstance(found.node, Argument) and is_first_argument(found.node) and is_classmethod(found.node.function):
            return found.at.outer.owner if found.at.outer else None
        return found.node if isinstance(found.node, ast.ClassDef) else None

    def _look_up_stars(self, name: str, file: SourceFile, stars: Iterable[Import]) -> Iterator[Traced]:
        """Find what `from ... import *` takes a name from, over any number of files; each of several in branches."""
        for star in stars:
            found = self._find_star(name, file, star, {file.path})
            if found is not None:
                yield from self.look_up(name, found.top)
                if star not in file.top.names.stars:
                    return

    def _find_star(self, name: str, file: SourceFile, star: Import, seen: set[Path]) -> SourceFile | None:
        """Find the file from which `from ... import *` takes a name."""
        found = self.follow_import(file, star)
        if found is None or found.file.path in seen:
            return None
        if name in found.file.top.names.bound:
            return found.file
        seen.add(found.file.path)
        inner = (self._find_star(name, found.file, part, seen) for part in found.file.top.names.bound.get("*", ()))
        return next(filter(None, inner), None)

    def _look_up_in_module(self, name: str, file: SourceFile) -> Iterator[Traced]:
        """Find what another file gets under a name: also from the module's `__getattr__`."""
        getters = file.top.names.bound.get("__getattr__", ())
        if name not in file.top.names.bound and getters and isinstance(getters[0], Function):
            given = give_first(getters[0], Traced(ast.Constant(name), file.top))
            yield from self.list_returned(getters[0], file.top, given, None, None)
        else:
            yield from self.look_up(name, file.top)

    def _open_binding(self, value: Any, at: Surroundings) -> Iterator[Traced]:
        if not isinstance(value, Import):
            yield Traced(value, at)
            yield from self._list_dispatched(value)
            return
        found = self.follow_import(at.file, value)
        if found is None:
            full = f"{value.module}.{value.name}" if value.name else value.module
            yield Traced(Outside(full), at)
        elif not found.name:
            yield Traced(Imported(found.file), found.file.top)
        elif found.file is not at.file:
            yield from self._look_up_in_module(found.name, found.file)

    def _list_dispatched(self, function: Any) -> Iterator[Traced]:
        """List the functions that `@function.register` gives `singledispatch`, one of which runs in its place.

        For a call in one of them, which has been asked for with the others, they are not listed anew.
        """
        if {"singledispatch", "singledispatchmethod"} & set(list_decorators(function)):
            others = list[Traced]()
            for found, decorator in self.decorated.get("register", ()):
                owner = getattr(decorator.func if isinstance(decorator, ast.Call) else decorator, "value", None)
                if get_last_name(owner) == function.name:
                    others.append(found)
            together = [function, *(found.node for found in others)]
            for (node, _), depth in self.active.items():
                if any(self.is_inside(node, part) for part in together):
                    self.cut |= 1 << depth
                    return
            yield from others

    # tracing

    def trace(self, node: Any, at: Surroundings, call: Any = None) -> list[Traced]:
        """Find the expressions that an expression may stand for."""
        opener = OPENERS.get(type(node))
        if opener is None:
            return [Traced(node, at, call)]
        found = self.find(list_different, (opener, node, at), (node, at.key), self.active, [])
        return found if call is None else [v if v.call is not None else v._replace(call=call) for v in found]

    def find(self, find: Any, about: tuple[Any, ...], key: Any, around: dict[Any, int], empty: Any) -> Any:
        """Find what a function finds about something; nothing inside itself, and nothing after too many steps.

        What is found is kept. What is cut short, as an expression around it was met again, is kept as long as that
        expression is followed; later it may be more.

        Args:
            around: the expressions or the questions that are being followed, with their depths.
            empty: the answer inside itself.
        """
        if key in self.traced:
            found, cut = self.traced[key]
            self.cut |= cut
            return found
        if key in around:
            self.cut |= 1 << around[key]
            return empty
        depth, before = len(self.active) + len(self.asked), self.cut
        if not depth:
            self.steps, self.is_short = 0, False
        self.steps += 1
        if self.steps > self.patience or len(self.active) > DEEPEST:
            self.cut, self.is_short = self.cut | 1, True
            return empty
        around[key], self.cut = depth, 0
        found = find(self, *about)
        del around[key]
        cut = self.cut & ((1 << depth) - 1)
        self.traced[key], self.cut = (found, cut), before | cut
        for other in self.cut_short.pop(depth, ()):
            del self.traced[other]
        if cut:
            self.cut_short.setdefault(cut.bit_length() - 1, []).append(key)
        elif not depth and self.is_short:
            self.ended.append(about[-1] if isinstance(about[-1], Traced) else Traced(*about[-2:]))
            if self.steps > self.patience:
                self.spent += self.steps
                self.patience = max(LEAST_PATIENCE >> self.spent // SHARE, self.patience // 2)
        return found

    def take_most(self, found: list[Found], of: Traced, least: int = 0) -> list[Found]:
        """Take the first values of an expression, and note it if it has more."""
        most = max(MOST, least)
        if len(found) > most and all(of.node is not other.node for other in self.ended):
            self.ended.append(of)
        return found[:most]

    def _trace_all(self, found: Iterator[Traced]) -> Iterator[Traced]:
        for value in found:
            yield from self.trace(value.node, value.at, value.call)

    def _trace_name(self, node: ast.Name, at: Surroundings) -> Iterator[Traced]:
        yield from self._trace_all(self.look_up(node.id, at, getattr(node, "lineno", math.inf)))

    def _trace_parts(self, node: Any, at: Surroundings) -> Iterator[Traced]:
        given = {name for here in (at, at.outer) if here is not None for name in here.given}

        def is_passed(part: ast.expr) -> bool:
            return any(isinstance(inner, ast.Name) and inner.id in given for inner in ast.walk(part))

        if isinstance(node, ast.IfExp):
            tests = (node.test, self.look(negate, node.test))
            pairs = zip(tests, (node.body, node.orelse), strict=True)
            parts = [part for test, part in pairs if not (is_passed(node.test) and self.is_false(test, at))]
        else:
            parts = node.values if isinstance(node, ast.BoolOp) else [node.value]
        for part in parts:
            found = self.trace(part, at)
            yield from found
            is_or = isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
            is_set = isinstance(part, ast.Attribute) and not {part.attr, None} & self.replaced  # by its object alone
            is_field = isinstance(getattr(part, "value", None) if is_set else part, ast.Name)
            if is_or and is_field and is_passed(part) and found and all(is_true(value.node) for value in found):
                return  # what a certain call passes is true

    def _trace_operation(self, node: ast.BinOp, at: Surroundings) -> Iterator[Traced]:
        """Find what an operator returns that a class of the program defines, as in `prompt + other`."""
        found, name = False, OPERATORS.get(type(node.op), "")
        for base in self.trace(node.left, at) if name else ():
            for member in self.get_member(base, name) if isinstance(base.node, Instance) else ():
                call = self.passed.setdefault((node, name), ast.Call(node.left, [node.right], []))
                if isinstance(member.node, BoundMethod):
                    found = True
                    yield from self._trace_all(self._call_bound(member.node, member, call, at))  # type: ignore[arg-type]
        if not found:
            yield Traced(node, at)

    def _trace_element(self, node: Element, at: Surroundings) -> Iterator[Traced]:
        found = False
        for value in self.trace(node.source, at):
            for part in self._take(value, node):
                found = True
                yield from self.trace(part.node, part.at, part.call or value.call)
        if not found:
            yield Traced(node, at)

    def _take(self, value: Traced, element: Element) -> Iterator[Traced]:
        """Take the elements that a loop or an unpacking gets from a value."""
        for part in self.iterate(value) if element.loop else [value]:
            for found in self._unpack(part, element.path):
                if found.node is not value.node:
                    yield found

    def _unpack(self, value: "Traced | tuple[Traced, ...]", path: Sequence[int]) -> list[Traced]:
        """Take an element of elements; a whole pair has no expression of its own."""
        if isinstance(value, tuple) and not isinstance(value, Traced):
            return self._unpack(value[path[0]], path[1:]) if path and path[0] < len(value) else []
        if not path:
            return [value]
        if isinstance(value.node, ast.Subscript) and path[0] in self.list_loaded(*value[:2]):
            return self._unpack(Traced(self._take_loaded(value.node, path[0]), value.at), path[1:])
        inner = [value] if isinstance(value.node, ast.Tuple | ast.List) else self.trace(value.node, value.at)
        known = (
            part
            for part in inner
            if isinstance(part.node, ast.Tuple | ast.List | ast.BinOp | ast.ListComp | ast.GeneratorExp)
        )
        return [
            found
            for part in known
            for element in islice(self.iterate(part), path[0], path[0] + 1)
            for found in self._unpack(element, path[1:])
        ]

    def iterate(self, value: Traced) -> Iterator["Traced | tuple[Traced, ...]"]:
        """Iterate over the elements that a value's source shows: tuples for `items`, `zip`, `pairwise`, `enumerate`."""
        yield from self._list_elements(value.node, value.at)

    @end_circles(list["Traced | tuple[Traced, ...]"]())
    def _list_elements(self, node: Any, at: Surroundings) -> "list[Traced | tuple[Traced, ...]]":
        """List the elements of a collection; none of one that is made of itself, as `parts = [*parts, part]`."""
        around = self.listed.setdefault(node, [])
        if len(around) > NESTED:  # in a loop inside its own loop
            self.cut |= sum(1 << depth for depth in around)
            return []
        around.append(len(self.active) + len(self.asked) - 1)
        most = max(MOST, len(getattr(node, "elts", ())))
        found = [*islice(self._open_elements(Traced(node, at)), most + 1)]
        around.pop()
        return self.take_most(found, Traced(node, at), most)

    def _open_elements(self, value: Traced) -> Iterator["Traced | tuple[Traced, ...]"]:
        node, at = value.node, value.at
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            for part in node.elts:
                if isinstance(part, ast.Starred):
                    inner = self._iterate_all([part.value], at)
                    yield next(inner, Traced(part.value, at))
                    yield from inner
                else:
                    yield Traced(part, at)
        elif isinstance(node, ast.BinOp):
            yield from self._iterate_operation(node, at)
        elif isinstance(node, ast.Dict | ast.DictComp):
            yield from (key for key, _ in self.list_pairs(value))
        elif isinstance(node, ast.ClassDef):
            yield from self._list_members(value)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            parts = [Traced(node.elt, inner) for inner in self.list_rounds(node.generators, at)]
            yield from self._drop_same(parts) if isinstance(node, ast.SetComp) else parts
        elif isinstance(node, ast.Call):
            yield from self._iterate_call(node, at)
        elif isinstance(node, ast.Subscript):
            yield from (value for value, _ in self._list_loaded_pairs(node, at))

    def _drop_same(self, parts: Iterable[Traced], others: Iterable[Traced] = ()) -> Iterator[Traced]:
        """Leave out texts that were among others, or among the parts before, as a set does."""
        seen = {self.read_strings(*part[:2]) for part in others}
        for part in parts:
            texts = self.read_strings(*part[:2])
            if not texts or texts not in seen:
                yield part
            seen.add(texts)

    def _iterate_operation(self, node: ast.BinOp, at: Surroundings) -> "Iterator[Traced | tuple[Traced, ...]]":
        """Iterate over the sum of two collections, or over a set without the elements of another."""
        if isinstance(node.op, ast.Add):
            yield from self._iterate_all([node.left, node.right], at)
        elif isinstance(node.op, ast.Sub):
            left, right = (self._iterate_all([side], at) for side in (node.left, node.right))
            yield from self._drop_same(*([part for part in side if isinstance(part, Traced)] for side in (left, right)))

    def _list_loaded_pairs(self, node: ast.expr, at: Surroundings) -> Iterator[tuple[Traced, Traced]]:
        """List what a loop over a collection of a loaded file takes, each with the value that it leads to."""
        for key in self.list_loaded(node, at):
            item = Traced(self._take_loaded(node, key), at)
            named = self.passed.setdefault((node, f"key {key}"), ast.Constant(key)) if isinstance(key, str) else None
            yield Traced(named, at) if named else item, item

    def _list_members(self, value: Traced) -> Iterator[Traced]:
        """List the members of an Enum."""
        if self._is_enum(value):
            inside = self.enter(value.node, value.at)
            parts = (part.value for part in value.node.body if isinstance(part, ast.Assign))
            yield from (self._open_member(part, value, inside) for part in parts)

    def _pick_members(self, value: Traced, call: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find the members of an Enum that `Prompt(value)` may be."""
        known = {key.node.value for part in call.args[:1] for key in self.list_keys(part, at)}
        members = list(self._list_members(value))
        same = [part for part in members if isinstance(part.node, ast.Constant) and part.node.value in known]
        yield from same or members

    def _is_enum(self, value: Traced) -> bool:
        return self._has_base(value, "Enum")

    def _has_base(self, value: Traced, ending: str) -> bool:
        """Whether the name of a base class of others ends so."""
        bases = (base.node.name for base in self.list_bases(value) if isinstance(base.node, Outside))
        return any(name.endswith(ending) for name in bases)

    def _open_member(self, part: Any, of: Traced, inside: Surroundings) -> Traced:
        """The value of an Enum's member, or the object that its `__init__` makes of a tuple."""
        if isinstance(part, ast.Call) and get_last_name(part.func) == "auto" and self._has_base(of, "StrEnum"):
            for target, _ in list_assignments(self.parents[part]):  # the first of `A = B = auto()` gives the value
                named = ast.copy_location(ast.Constant(get_last_name(target).lower()), part)
                return Traced(self.passed.setdefault((part, "auto"), named), inside)
        if not isinstance(part, ast.Tuple) or "__init__" not in inside.names.bound or not self._is_enum(of):
            return Traced(part, inside)
        if (part, "") not in self.passed:
            self.passed[part, ""] = ast.copy_location(ast.Call(ast.Name(of.node.name, ast.Load()), part.elts, []), part)
        return Traced(Instance(of.node, self.passed[part, ""], inside), of.at)  # type: ignore[arg-type]

    def _iterate_all(self, nodes: Sequence[ast.expr], at: Surroundings) -> "Iterator[Traced | tuple[Traced, ...]]":
        for value in (value for node in nodes for value in self.trace(node, at)):
            for part in self.iterate(value):
                is_called_so = value.call and isinstance(part, Traced) and not part.call
                yield part._replace(call=value.call) if is_called_so else part  # type: ignore[union-attr]

    def _iterate_call(self, node: ast.Call, at: Surroundings) -> Iterator["Traced | tuple[Traced, ...]"]:
        name, given = get_last_name(node.func), [part for part in node.args if not isinstance(part, ast.Starred)]
        if isinstance(node.func, ast.Attribute) and name in VIEWS and not given:
            for pair in self._list_viewed(node.func.value, at):
                yield pair[VIEWS[name]] if name != "items" else pair
        elif name in ("split", "__subclasses__") and isinstance(node.func, ast.Attribute):
            yield from self._iterate_split(node, at) if name == "split" else self._list_children(node.func.value, at)
        elif name == "from_iterable":
            inner = (part for part in self._iterate_all(given[:1], at) if isinstance(part, Traced))
            yield from (found for part in inner for found in self._iterate_all([part.node], part.at))
        elif name == "repeat":
            yield from (Traced(part, at) for part in given[:1])
        elif name in LISTS or name in CHOOSING:
            yield from self._iterate_all(
                given if name == "chain" else given[-1:] if name == "filter" else given[:1], at
            )
        elif name in ("zip", "pairwise", "enumerate") and given:
            yield from self._iterate_together(
                name, [*given, *(part.value for part in node.keywords if part.arg == "start")], at
            )
        elif name in ("glob", "rglob", "iterdir") and isinstance(node.func, ast.Attribute):
            for path in self.list_globbed(node, at):
                yield Traced(ast.Call(ast.Name("Path", ast.Load()), [ast.Constant(str(path))], []), at)
        else:
            yield from (found for found, _ in self._list_loaded_pairs(node, at))

    def _list_viewed(self, node: ast.expr, at: Surroundings) -> Iterator[tuple[Traced, Traced]]:
        """List the keys and values of the dict that a view shows, of a loaded one too."""
        for owner in self.trace(node, at):
            is_loaded = isinstance(owner.node, ast.Call | ast.Subscript)
            yield from self.list_pairs(owner) or (self._list_loaded_pairs(*owner[:2]) if is_loaded else ())

    def _iterate_together(self, name: str, given: list[ast.expr], at: Surroundings) -> Iterator[tuple[Any, ...]]:
        columns = [[*self._iterate_all([side], at)] or self._list_letters(side, at) for side in given]
        if name == "zip":
            yield from self._zip(given, columns, at)
            return
        if name == "pairwise":
            columns = [columns[0], columns[0][1:]]
        else:
            starts = [found.node for side in given[1:2] for found in self.trace(side, at)]
            known = [part.value for part in starts if isinstance(part, ast.Constant) and isinstance(part.value, int)]
            first = known[0] if len(known) == 1 else 0
            columns = [[Traced(ast.Constant(first + index), at) for index in range(len(columns[0]))], columns[0]]
        yield from zip(*columns, strict=False)

    def _zip(self, given: Sequence[ast.expr], columns: Sequence[list[Any]], at: Surroundings) -> Iterator[Any]:
        """Iterate over columns side by side; those without an end go on as long as the others.

        One that the source does not show has an element that nothing is known of beside each of the others.
        """
        if not any(columns) or any(self._is_empty(side, at) for side in given):
            return
        ends = [len(column) for column, side in zip(columns, given, strict=True) if column and self._has_end(side, at)]
        unknown = ([self._make_unknown(side, at)] for side in given)
        endless = (cycle(column or part) for column, part in zip(columns, unknown, strict=True))
        yield from islice(zip(*endless, strict=False), min(ends, default=1))

    def _make_unknown(self, side: ast.expr, at: Surroundings) -> Traced:
        """Make an element of a column that the source does not show; the column itself where it holds texts."""
        made = [found.node for found in self.trace(side, at)]
        holds = any(
            isinstance(node, ast.BinOp) or get_last_name(getattr(node, "func", None)) in ("map", "filter", "islice")
            for node in made
        )
        return Traced(side if holds else Element(side, (), True), at)

    @end_circles(True)
    def _has_end(self, node: ast.expr, at: Surroundings) -> bool:
        """Whether a collection has no other elements than those that its source shows."""
        for found in self.trace(node, at):
            made, name = found.node, get_last_name(getattr(found.node, "func", None))
            if isinstance(made, ast.ListComp | ast.SetComp | ast.GeneratorExp):
                has_tests = any(loop.ifs for loop in made.generators)
                if has_tests or any(inner is found.at for inner in self.list_rounds(made.generators, found.at)):
                    return False
            elif name in ("cycle", "repeat"):
                return False
            if not all(self._has_end(part, found.at) for part in list_taken(made)):
                return False
            if isinstance(made, Outside):
                return False
        return True

    @end_circles(True)
    def _keeps_places(self, node: ast.expr, at: Surroundings) -> bool:
        """Whether the elements of a collection stand where the source shows them."""
        for found in self.trace(node, at):
            made, name = found.node, get_last_name(getattr(found.node, "func", None))
            if name in MOVING or made in self._list_moved():
                return False
            if not all(self._keeps_places(part, found.at) for part in list_taken(made)):
                return False
        return True

    def _list_moved(self) -> set[Any]:
        """List the collections whose elements `reverse`, `sort` or `shuffle` move in place."""
        calls = [call for name in ("reverse", "sort", "shuffle") for call in self.calls.get(name, ())]
        if len(calls) != self.moved[0]:
            self.moved = (len(calls), set())  # those inside itself find none
            owners = [(get_moved(call.node), call.at) for call in calls]
            found = {value.node for part, at in owners if part is not None for value in self.trace(part, at)}
            self.moved = (len(calls), found)
        return self.moved[1]

    def _list_letters(self, node: ast.expr, at: Surroundings) -> list[Any]:
        """List the letters of a text."""
        found = self.trace(node, at)
        if len(found) != 1 or not is_text(text := found[0].node):
            return []
        letters = enumerate(text.value[:MOST])
        made = (self.passed.setdefault((text, f"letter {n}"), ast.Constant(letter)) for n, letter in letters)
        return [found[0]._replace(node=letter) for letter in made]

    def _iterate_split(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Iterate over the parts of a text, such as a path with dots; over none where it may be another."""
        texts = [found for found in self.trace(node.func.value, at) if not isinstance(found.node, Argument)]  # type: ignore[attr-defined]
        by = [part.value for part in node.args[:1] if is_text(part)]
        if len(texts) == 1 and is_text(texts[0].node) and len(by) == len(node.args):
            for index, part in enumerate(texts[0].node.value.split(by[0] if by else None)):
                made = self.passed.setdefault((texts[0].node, f"{index}{by}"), ast.Constant(part))
                self.cut_from[made] = Traced(node, at)
                yield texts[0]._replace(node=made)

    def list_pairs(self, value: Traced, key: Any = None) -> list[tuple[Traced, Traced]]:
        """List the keys and values of a dict that the source shows, those of dicts inside it too.

        Args:
            key: the only key that is asked for; others may be listed with it.
        """
        return self._list_pairs(key if isinstance(key, str) else None, value.node, value.at)

    @end_circles(list[tuple[Traced, Traced]]())
    def _list_pairs(self, key: str | None, node: Any, at: Surroundings) -> list[tuple[Traced, Traced]]:
        return [*self._open_pairs(node, at, key)]

    def _open_pairs(self, node: Any, at: Surroundings, asked: str | None) -> Iterator[tuple[Traced, Traced]]:
        if isinstance(node, ast.Dict):
            for key, part in zip(node.keys, node.values, strict=True):
                if key is not None:
                    rounds = [at] if node in self.parents else self.list_rounds_around(key, at)
                    yield from ((Traced(key, inner), Traced(part, inner)) for inner in rounds)
                else:
                    yield from (pair for inner in self.trace(part, at) for pair in self.list_pairs(inner, asked))
        elif isinstance(node, ast.DictComp):
            for inner_at in self.list_rounds(node.generators, at):
                yield Traced(node.key, inner_at), Traced(node.value, inner_at)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            for side in (node.left, node.right):
                yield from (pair for inner in self.trace(side, at) for pair in self.list_pairs(inner, asked))
        elif isinstance(node, ast.Call):
            yield from self._list_made_pairs(node, at, asked)

    def _list_made_pairs(self, node: ast.Call, at: Surroundings, key: str | None) -> Iterator[tuple[Traced, Traced]]:
        """List the pairs of `zip(keys, values)` and its like, of which a dict is made, or of an object's fields."""
        if get_last_name(node.func) in ("zip", "enumerate"):
            yield from (pair for pair in self._iterate_call(node, at) if len(pair) == 2)
        owner = node.args[0] if node.args else getattr(node.func, "value", None)
        if get_last_name(node.func) in AS_DICT and owner is not None:
            for found in self.trace(owner, at):
                yield from self._list_field_pairs(found, key)

    def _list_field_pairs(self, value: Traced, key: str | None) -> Iterator[tuple[Traced, Traced]]:
        """List the names and values of the fields of an object, or of one field."""
        fields = filter(is_field, value.node.of.body if isinstance(value.node, Instance) else ())
        for name in (part.target.id for part in fields):  # type: ignore[attr-defined]
            if key in (None, name):
                named = Traced(self.look(ast.Constant, name), value.at)
                yield from ((named, found) for found in self.get_member(value, name))

    def list_rounds(self, loops: Sequence[Any], at: Surroundings) -> list[Surroundings]:
        """Find the surroundings inside loops for each of their rounds, where the source shows them."""
        rounds = [at]
        for loop in loops:
            inside = (inner for outer in rounds for inner in self._list_loop_rounds(loop, outer))
            rounds = self.take_most([*islice(inside, MOST + 1)], Traced(loop.iter, at))
        return rounds

    def list_rounds_around(self, node: ast.expr, at: Surroundings) -> list[Surroundings]:
        """List the surroundings of an expression for each round of the loops around it."""
        loops = self.look(self.list_around, node, at.owner)[0]
        names = {part.id for loop in loops for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
        return [at] if names & at.given.keys() else self.list_rounds(loops, at)

    def enter_after_loops(self, at: Surroundings, line: int) -> Surroundings:
        """Return the surroundings at a line with what the rounds of loops before it leave in names, one by one."""
        given = dict(at.given)
        for loop in at.names.loops:
            if (loop.end_lineno or 0) >= line or not list_carried(loop, at):
                continue
            here = Surroundings(at.file, at.owner, at.outer, dict(given))
            for round_at in self.list_rounds([loop], here)[:MOST_ROUNDS]:
                if round_at is here:  # the source does not show what it iterates over
                    break
                for name, assigned in list_carried(loop, at):
                    first = [Traced(value, here) for value in at.names.bound[name] if value is not assigned.value]
                    carried = {**round_at.given, name: given.get(name, first)}
                    given[name] = self.trace(assigned.value, Surroundings(at.file, at.owner, at.outer, carried))
        return Surroundings(at.file, at.owner, at.outer, given) if given != at.given else at

    def _list_loop_rounds(self, loop: Any, at: Surroundings) -> list[Surroundings]:
        if self._is_empty(loop.iter, at):
            return []
        found = self._iterate_all([loop.iter], at)
        given = (dict(self._list_targets(loop.target, part)) for part in found)
        rounds = (Surroundings(at.file, at.owner, at.outer, {**at.given, **names}) for names in given)
        tests = getattr(loop, "ifs", ())
        known = (inner for inner in rounds if not any(self.is_false(test, inner) for test in tests))
        return self.take_most([*islice(known, MOST + 1)], Traced(loop.iter, at)) or [at]

    @end_circles(False)
    def _is_empty(self, node: ast.expr, at: Surroundings) -> bool:
        """Whether a collection is known to have no elements."""
        found = self.trace(node, at)
        return bool(found) and all(self._is_empty_value(value, node) for value in found)

    def _is_empty_value(self, value: Traced, asked: ast.expr) -> bool:
        node = value.node
        if isinstance(node, ast.Call) and (name := get_last_name(node.func)) in (*LISTS, "enumerate"):
            return bool(node.args) and all(
                not isinstance(part, ast.Starred) and self._is_empty(part, value.at)
                for part in (node.args if name == "chain" else node.args[:1])
            )
        if isinstance(node, ast.Call) and get_last_name(node.func) in VIEWS and isinstance(node.func, ast.Attribute):
            return not node.args and self._is_empty(node.func.value, value.at)
        if isinstance(node, ast.Call) and name == "zip":
            return any(not isinstance(part, ast.Starred) and self._is_empty(part, value.at) for part in node.args)
        if not isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            return False
        is_fixed = isinstance(node, ast.Tuple) or node is asked or self._is_never_filled(value)
        if isinstance(node, ast.Dict):
            return is_fixed and not node.keys
        return is_fixed and all(
            isinstance(part, ast.Starred) and self._is_empty(part.value, value.at) for part in node.elts
        )

    def _is_never_filled(self, value: Traced) -> bool:
        """Whether a literal collection has one name, and the program does nothing with it that could fill it."""
        parent = self.parents.get(value.node)
        targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
        is_once = len(value.at.names.bound.get(name, ())) == 1 and name not in value.at.names.added
        is_changed = None in (self.replaced if isinstance(value.at.owner, ast.ClassDef) else self.rebound)
        return bool(name) and is_once and not is_changed and name not in self.shared | self.rebound | self.replaced

    def is_false(self, test: ast.expr, at: Surroundings) -> bool:
        """Whether a test such as `part is not other`, or a value that is tested, is known to be false."""
        is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        inner = test.operand if isinstance(test, ast.UnaryOp) else test
        if is_not and isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            return self.is_false(inner.operand, at)
        if is_not and isinstance(inner, ast.Compare) and len(inner.ops) == 1 and type(inner.ops[0]) in OPPOSITES:
            opposite = OPPOSITES[type(inner.ops[0])]()
            return self.is_false(ast.Compare(inner.left, [opposite], inner.comparators), at)
        loaded = self.load_value(inner, at) if isinstance(inner, ast.Subscript | ast.Call) else None
        if loaded is not None:
            return bool(loaded) is is_not
        if not self._is_settled(test, at):
            return False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            found = self.trace(test.operand, at)
            return bool(found) and all(is_true(part.node) or self._is_plain_object(part) for part in found)
        if not isinstance(test, ast.Compare):
            found = self.trace(test, at)
            constants = (isinstance(part.node, ast.Constant) and not part.node.value for part in found)
            return bool(found) and (all(constants) or self._is_empty(test, at))
        if len(test.ops) > 1:
            return False
        values = [self._list_compared(side, at) for side in (test.left, test.comparators[0])]
        if any(len(nodes) != 1 or not isinstance(nodes[0], ast.Constant | Instance | Function) for nodes in values):
            return False
        left, right = (
            node.value if isinstance(node, ast.Constant) else getattr(node, "call", node) for [node] in values
        )
        same, differ = isinstance(test.ops[0], ast.Is | ast.Eq), isinstance(test.ops[0], ast.IsNot | ast.NotEq)
        return bool((same and left != right) or (differ and left == right))

    def _is_plain_object(self, found: Traced) -> bool:
        """Whether a value is an object of a class of the program that is always true."""
        if not isinstance(found.node, Instance):
            return False
        order = self.list_mro(Traced(found.node.of, found.at))
        above = [base.node for of in order for base in self.list_bases(of) if not isinstance(base.node, ast.ClassDef)]
        if not all(isinstance(base, Outside) and base.name.rpartition(".")[2] in TRUE_BASES for base in above):
            return False
        return not any(next(self.get_member(found, name), None) for name in ("__bool__", "__len__"))

    def _list_compared(self, side: ast.expr, at: Surroundings) -> list[Any]:
        """List what a side of a comparison may be; a text that a call makes of another as a constant."""
        found = [value.node for value in self.trace(side, at)]
        texts = self.read_strings(side, at) if any(isinstance(node, ast.Call) for node in found) else ()
        return [ast.Constant(text) for text in texts] or found

    @end_circles(False)
    def _is_settled(self, node: Any, at: Surroundings) -> bool:
        """Whether an expression has one value, which a call has passed or which the program binds once."""
        if isinstance(node, ast.Name):
            return self._is_settled_name(node.id, at)
        if isinstance(node, ast.Attribute):
            return self._is_settled(node.value, at) and self._is_settled_member(node, at)
        if isinstance(node, ast.Call):
            is_same = isinstance(node.func, ast.Attribute) and node.func.attr in SAME_WORD and not node.args
            made = (isinstance(found.node, Instance) for found in self.trace(node, at))
            return (is_same and self._is_settled(node.func.value, at)) or all(made)  # type: ignore[attr-defined]
        if isinstance(node, Element):
            return not node.loop and self._is_settled(node.source, at)
        if isinstance(node, ast.expr):
            parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
            return all(self._is_settled(part, at) for part in parts)
        return isinstance(node, Instance | Imported | ast.ClassDef | Function)

    def _is_settled_name(self, name: str, at: Surroundings) -> bool:
        here = self._find_binding(name, at)
        if here is None or name in self.rebound or name in here.names.added:
            return False
        if here is here.file.top and (name in self.replaced or None in self.rebound):
            return False
        found = list(self.look_up(name, at))
        if name in here.given:
            bound = here.names.bound.get(name, ())
            is_once = all(isinstance(value, Argument) or (isinstance(value, Element) and value.loop) for value in bound)
        else:
            is_once = len(found) == 1
        return is_once and all(self._is_settled(*value[:2]) for value in found)

    def _is_settled_member(self, node: ast.Attribute, at: Surroundings) -> bool:
        if {node.attr, None} & self.replaced or node.attr in self.rebound:
            return False
        for base in self.trace(node.value, at):
            owner = base.node
            is_made = not isinstance(owner, Instance) or (owner.call is not None and is_complete(owner.call))
            of = owner.of if isinstance(owner, Instance) else owner
            if not is_made or (isinstance(of, ast.ClassDef) and self._is_set_elsewhere(of, base.at)):
                return False
            members = list(self.get_member(base, node.attr))
            if len(members) > 1 or not all(self._is_settled(*member[:2]) for member in members):
                return False
        return True

    @end_circles(False)
    def _is_set_elsewhere(self, of: ast.ClassDef, at: Surroundings) -> bool:
        """Whether a base class or a decorator of others may set the fields of a class."""
        if not {"dataclass", "final", "unique"}.issuperset(list_decorators(of)):
            return True
        for base in self.list_bases(Traced(of, at)):
            if isinstance(base.node, ast.ClassDef):
                if self._is_set_elsewhere(base.node, base.at):
                    return True
            elif not isinstance(base.node, Outside) or base.node.name.rpartition(".")[2] not in PLAIN_BASES:
                return True
        return False

    def _list_targets(self, target: ast.expr, part: Any) -> Iterator[tuple[str, list[Traced]]]:
        """Find the names that a loop's target binds for one element."""
        if isinstance(target, ast.Name):
            yield target.id, [part if isinstance(part, Traced) else make_pair(part)]
        elif isinstance(target, ast.Tuple | ast.List):
            for index, inner in enumerate(target.elts):
                is_pair = not isinstance(part, Traced)  # of which an element may be another
                for found in part[index : index + 1] if is_pair else self._unpack(part, [index])[:1]:
                    yield from self._list_targets(inner, found)

    def _trace_argument(self, node: Argument, at: Surroundings) -> Iterator[Traced]:
        """Find the values that callers pass, and the default; the argument itself comes last."""
        calls = list(self._list_passed(node, at))
        for value, call in calls:
            if value is not None:
                yield from self.trace(value.node, value.at, call)
            elif node.default is not None and at.outer is not None:
                yield from self.trace(node.default, at.outer, call)
        name = getattr(node.function, "name", "")
        if name == "__init__" and at.outer is not None:
            name = getattr(at.outer.owner, "name", name)
        is_handed = not calls or name in self.handed or name.startswith("__")
        if node.default is not None and at.outer is not None and is_handed:
            yield from self.trace(node.default, at.outer)
        yield Traced(node, at)

    def _list_passed(self, argument: Argument, at: Surroundings) -> Iterator[tuple[Traced | None, ast.Call]]:
        """Find what each call passes for an argument; None where it passes nothing."""
        function = argument.function
        bound = self.parents.get(function)
        if not isinstance(function, ast.Lambda):
            name = function.name
        elif isinstance(bound, ast.Assign) and isinstance(bound.targets[0], ast.Name):
            name = bound.targets[0].id
        else:
            yield from self._list_passed_beside(argument, Traced(bound, at.outer or at))
            return
        owner = at.outer.owner if at.outer else None
        is_method = isinstance(owner, ast.ClassDef)
        names = [name]
        if isinstance(owner, ast.ClassDef) and name == "__init__":
            names = [owner.name, *(below.node.name for below in self.list_below(owner))]
        for name in names:
            for found in filter(self.is_live, self._list_callers(function, name)):
                yield from self._list_passed_by(found, argument, name, is_method=is_method)
        yield from self._list_passed_inside(argument, self.handed.get(name, ()), is_method=is_method)
        for call in self._list_wrapped_calls(function, at.outer) if at.outer else ():
            yield self._pick(function, argument.name, call.node, call.at, skip_first=is_method), call.node
        if isinstance(owner, ast.ClassDef) and name == "__init__":
            for found in self.calls.get("__init__", ()):
                if self._is_super(found, owner):
                    yield self._pick(function, argument.name, found.node, found.at, skip_first=True), found.node

    def _list_wrapped_calls(self, function: Any, at: Surroundings) -> Iterator[Traced]:
        """List the calls of a function in what its decorators put in its place."""
        for decorator in getattr(function, "decorator_list", ()):
            for made in self.list_decorated(decorator, at, Traced(function, at)):
                if isinstance(made.node, ast.FunctionDef | ast.AsyncFunctionDef) and made.node is not function:
                    inside = self.enter(made.node, made.at)
                    calls = (part for part in ast.walk(made.node) if isinstance(part, ast.Call))
                    for call in calls:
                        if any(found.node is function for found in self.trace(call.func, inside)):
                            yield Traced(call, inside)

    def _list_passed_beside(self, argument: Argument, around: Traced) -> Iterator[tuple[Traced | None, ast.Call]]:
        """Find what is passed for a lambda's argument by what the lambda is given to, as in `map`."""
        if isinstance(around.node, ast.Call) and get_last_name(around.node.func) in PARTIALS:
            yield from self._list_passed_by(around, argument, "", is_method=False)
        else:
            call = around.node if isinstance(around.node, ast.Call) else self.parents.get(around.node)  # of a keyword
            yield from self._list_passed_inside(argument, [around._replace(node=call)], is_method=False)

    def _list_passed_inside(
        self, argument: Argument, around: Iterable[Traced], *, is_method: bool
    ) -> Iterator[tuple[Traced | None, ast.Call]]:
        """Find what a function passes to one that it is given, as in `retry(lambda text: model.invoke(text))`."""
        calls = [part for part in around if isinstance(part.node, ast.Call)]
        for call, found in ((part, found) for part in calls for found in self.trace(part.node.func, part.at)):
            if isinstance(function := found.function, Function):
                is_bound = isinstance(found.node, BoundMethod)
                passed = self.list_passed(function, *call[:2], skip_first=is_bound)
                inside = Surroundings(found.at.file, function, found.at, passed)
                for inner in (call for name in passed for call in self.calls.get(name, ())):
                    if isinstance(inner.node.func, ast.Name) and self.is_inside(inner.node, function):
                        at = inside if inner.at.owner is function and inside.depth <= NESTED else inner.at
                        given = self.trace(*passed[inner.node.func.id][0][:2])
                        if any(value.function is argument.function for value in given):
                            value = self._pick(argument.function, argument.name, inner.node, at, skip_first=is_method)
                            yield value, inner.node

    def _list_passed_by(
        self, found: Traced, argument: Argument, name: str, *, is_method: bool
    ) -> Iterator[tuple[Traced | None, ast.Call]]:
        """Find what a call of a function passes, or `partial(function, ...)`, the calls of its result and the like."""
        call: ast.Call = found.node
        if get_last_name(call.func) == name or get_last_name(call.func) not in PARTIALS:
            yield self._pick(argument.function, argument.name, call, found.at, skip_first=is_method), call
            return
        is_it = [part is argument.function or (get_last_name(part) == name != "") for part in call.args[:2]]
        for number in [number for number, is_given in enumerate(is_it, 1) if is_given][:1]:
            given = call.args[number:]
            if get_last_name(call.func) == "map":  # any item of each
                item = ast.Name("any item", ast.Load())
                given = [self.passed.setdefault((part, "any"), ast.Subscript(part, item, ast.Load())) for part in given]
            made = ast.Call(call.func, given, call.keywords)
            for inner, at, passing in ((made, found.at, call), *self._list_calls_of_partial(call)):
                value = self._pick(argument.function, argument.name, inner, at, skip_first=is_method)
                if value is not None:
                    yield value, passing

    def _list_callers(self, function: Function, name: str) -> Iterator[Traced]:
        """List the calls that may be of a function of a name."""
        is_method = isinstance(self.parents.get(function), ast.ClassDef)
        for found in (call for part in dict.fromkeys((name, *PARTIALS)) for call in self.calls.get(part, ())):
            if is_super_method(found.node) and self.is_inside(found.node, function):
                continue  # a base class's method
            is_of_text = hasattr(str, name) and not is_method and isinstance(found.node.func, ast.Attribute)
            if not is_of_text or self.find_called(function, found.node, found.at):  # as in name.split("/")
                yield found

    def _list_calls_of_partial(self, partial: ast.Call) -> Iterator[tuple[ast.Call, Surroundings, ast.Call]]:
        """List the calls of the names that `name = partial(function, ...)` has, behind what the partial passes."""
        parent, skipped = self.parents.get(partial), [ast.Starred(part, ast.Load()) for part in partial.args[1:]]
        for target in parent.targets if isinstance(parent, ast.Assign) else ():
            is_member = isinstance(target, ast.Attribute) or isinstance(self.parents.get(parent), ast.ClassDef)
            for found in filter(self.is_live, self.calls.get(get_last_name(target), ())):
                call = found.node
                if isinstance(call.func, ast.Name):
                    called = self.look_up(call.func.id, found.at, call.lineno)
                    is_of_partial = any(value.node is partial for value in called)
                else:
                    is_of_partial = is_member
                if is_of_partial:
                    made = ast.Call(call.func, [*skipped, *call.args], call.keywords)
                    yield made, found.at, call

    def _is_super(self, found: Traced, owner: Any) -> bool:
        """Whether a call is `super().__init__(...)` in a subclass of a class."""
        around = found.at.outer.owner if found.at.outer else None
        return any(below.node is around for below in self.list_below(owner))

    def find_called(self, function: Any, call: ast.Call, at: Surroundings) -> list[Traced]:
        """Find a function among those that a call may call: itself, or bound to each of its owners."""
        made = self.trace(call.func, at)
        return [value for value in made if value.function is function]

    @cached_property
    def places(self) -> dict[Any, Traced]:
        """Calls by their nodes."""
        return {call.node: call for calls in self.calls.values() for call in calls}

    @cached_property
    def functions(self) -> dict[str, list[Any]]:
        """Functions of all files by their names."""
        functions = dict[str, list[Any]]()
        for node in (node for file in self.files.values() for node in file.nodes):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.setdefault(node.name, []).append(node)
        return functions

    @cached_property
    def errors(self) -> list[tuple[Traced, set[str]]]:
        """Calls that make errors, each with the names after `except` that catch it."""
        calls = (call for name, calls in self.calls.items() for call in calls if name[:1].isupper())
        return [(call, names) for call in calls if (names := self._list_error_kinds(call))]

    def _list_error_kinds(self, call: Traced) -> set[str]:
        """List the names of the class of an error that a call makes, and of its base classes; none for another call."""
        name = get_last_name(call.node.func)
        made = (found for found in self.trace(call.node.func, call.at) if isinstance(found.node, ast.ClassDef))
        order = [found for of in made for found in self.list_mro(of)]
        bases = {get_last_name(base) for found in order for base in found.node.bases} | ({name} if not order else set())
        above = {kind for base in bases for kind in getattr(getattr(builtins, base, None), "__mro__", ())}
        if not isinstance(self.parents.get(call.node), ast.Raise) and BaseException not in above:
            return set()
        checked = ["ValidationError"] if ValueError in above else []  # what pydantic makes of it
        return {
            *(found.node.name for found in order),
            *bases,
            *(kind.__name__ for kind in above),
            "Exception",
            *checked,
        }

    def is_live(self, found: Traced) -> bool:
        """Whether the code around a call can be reached from the graph, as far as that is known."""
        at: Surroundings | None = found.at
        while at is not None and isinstance(at.owner, ast.Lambda | ast.ClassDef):
            at = at.outer
        is_known = self.live is None or at is None or isinstance(at.owner, ast.Module) or at.owner in self.live
        return is_known or self._is_made(at.owner, at)  # type: ignore[union-attr]

    @end_circles(False)
    def _is_made(self, node: Any, at: Surroundings) -> bool:
        """Whether a function is the `__init__` of a class of which live code makes objects."""
        of: Any = at.outer.owner if at.outer is not None and getattr(node, "name", "") == "__init__" else None
        names = [of.name, *(below.node.name for below in self.list_below(of))] if isinstance(of, ast.ClassDef) else []
        return any(self.is_live(call) for name in names for call in self.calls.get(name, ()))

    def _trace_attribute(self, node: ast.Attribute, at: Surroundings) -> Iterator[Traced]:
        found = False
        if node.attr == "__doc__":
            yield from self._list_docstrings(node.value, at)
            return
        for base in self.trace(node.value, at):
            members = [*self.get_member(base, node.attr)]
            members += self._list_descriptions(base) if node.attr == "description" and not members else ()
            for value in members:
                found = True
                yield from self.trace(value.node, value.at, value.call or base.call)
        if not found and node.attr == "context" and get_last_name(node.value) == "runtime":
            yield from self._list_contexts()
        elif not found:
            yield Traced(node, at)

    def _list_descriptions(self, tool: Traced) -> Iterator[Traced]:
        """Find what describes a tool: what its maker is given, or the docstring of its function."""
        decorators = (part for part in getattr(tool.function, "decorator_list", ()) if isinstance(part, ast.Call))
        made = tool.node if isinstance(tool.node, ast.Call) else next(decorators, None)
        given = get_keywords(made).get("description") if made is not None else None
        if given is not None:
            yield Traced(given, tool.at)
        elif isinstance(tool.node, ast.Call):
            makers = [found.node for found in self.trace(tool.node.func, tool.at)]
            if not any(isinstance(maker, Outside) and maker.name.split(".")[-1] in TOOL_MAKERS for maker in makers):
                return
            parts = [*tool.node.args[:1], *(key.value for key in tool.node.keywords if key.arg == "func")]
            yield from (doc for part in parts for doc in self._list_docstrings(part, tool.at))
        elif "tool" in list_decorators(tool.function):
            yield from self._list_docstrings_of(tool)

    def _list_contexts(self) -> Iterator[Traced]:
        """Find the contexts of the program's graphs, for a runtime whose type does not tell which it has."""
        for name in ("StateGraph", "create_agent", "entrypoint"):
            for call in self.calls.get(name, ()):
                for schema in self.trace(get_keywords(call.node).get("context_schema"), call.at):
                    if isinstance(schema.node, ast.ClassDef):
                        yield Traced(Instance(schema.node, None), schema.at)

    def _list_docstrings(self, node: ast.expr, at: Surroundings) -> Iterator[Traced]:
        """Find the docstrings of the functions and classes that an expression may be."""
        yield from (doc for found in self.trace(node, at) for doc in self._list_docstrings_of(found))

    @staticmethod
    def _list_docstrings_of(found: Traced) -> Iterator[Traced]:
        if isinstance(owner := found.function, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (Traced(doc, found.at) for doc in [get_docstring(owner)] if doc is not None)

    def get_member(self, base: Traced, name: str) -> Iterator[Traced]:
        """Find what an attribute of a traced value is bound to."""
        yield from self._list_bound_to(name, base)

    @end_circles(list[Traced]())
    def _list_bound_to(self, name: str, base: Traced) -> list[Traced]:
        return [*self._open_member_of(base, name)]

    def _open_member_of(self, base: Traced, name: str) -> Iterator[Traced]:
        around, node = base.at.outer, base.node
        if isinstance(base.at.owner, ast.ClassDef) and around is not None and isinstance(node, ast.expr):
            of = Traced(base.at.owner, around)
            if self._is_enum(of):
                yield from self._list_methods(of, name, base)
        if is_super(node):
            for parents, me in self._list_above(base.at):
                has = [of for of in parents if name in self.enter(of.node, of.at).names.bound]
                yield from (found for of in has[:1] for found in self._list_methods(of, name, me))
        elif is_super_method(node):  # which may return the object itself
            for me, _ in filter(None, [self.find_self(base.at)]):
                yield from self.get_member(me, name)
        elif (read := MEMBERS.get(type(node))) is not None:
            yield from read(self, base, name)

    def _list_methods(self, of: Traced, name: str, me: Traced) -> Iterator[Traced]:
        """Find a method of a class, bound to an object, or what a property of it returns."""
        for value in self._get_class_member(of, name):
            if isinstance(value.node, BoundMethod):
                yield from self._bind(value, me)

    def _bind(self, value: Traced, me: Traced) -> Iterator[Traced]:
        """Bind a method to an object; of a property, find what it returns."""
        if is_partialmethod(value.node):
            yield self._bind_partial(value.node, value.at, me)
        elif is_property(value.node.function):
            yield from self.list_returned(value.node.function, value.at, {}, value.node.function, me)
        else:
            yield Traced(BoundMethod(value.node.function, me), value.at)

    def _bind_partial(self, node: ast.Call, at: Surroundings, me: Traced) -> Traced:
        """Make `partial(method, ...)` of the `partialmethod(function, ...)` of an object."""
        first = ast.Name("method of object", ast.Load())
        made = ast.Call(ast.Name("partial", ast.Load()), [first, *node.args[1:]], node.keywords)
        made = self.passed.setdefault((node, "bound"), ast.copy_location(made, node))  # type: ignore[assignment]
        self.parents[made.args[0]], self.parents[made] = made, self.parents.get(node)
        functions = [found for found in self.trace(node.args[0], at) if isinstance(found.node, Function)]
        given = {first.id: [Traced(BoundMethod(found.node, me), found.at) for found in functions]}
        return Traced(made, Surroundings(at.file, at.owner, at.outer, given))

    def find_self(self, at: Surroundings) -> tuple[Traced, Traced] | None:
        """Find the object whose method code stands in, and the class with that method; None outside methods."""
        method = find_method(at)
        if method is None or method.outer is None or not (named := list_positional(method.owner)):
            return None
        owner, around = method.outer.owner, method.outer.outer or method.outer
        me = method.given.get(named[0]) or [Traced(Instance(owner, None), around)]
        return me[0], Traced(owner, around)

    def _list_above(self, at: Surroundings) -> Iterator[tuple[list[Traced], Traced]]:
        """Find the classes in which `super()` looks, in order, with the object whose method asks."""
        if (found := self.find_self(at)) is not None:
            me, of = found
            own = Traced(me.node.of, me.at) if isinstance(me.node, Instance) else me
            order = self.list_mro(own) if isinstance(own.node, ast.ClassDef) else []
            nodes = [part.node for part in order]
            yield order[nodes.index(of.node) + 1 :] if of.node in nodes else self.list_mro(of)[1:], me

    def list_mro(self, of: Traced) -> list[Traced]:
        """List a class of the program and its base classes, in the order in which Python looks for attributes."""
        return self._list_mro(of, {})

    def _list_mro(self, of: Traced, orders: dict[Any, list[Traced]]) -> list[Traced]:
        """List the order of a class once for all classes below it; `orders` has those that are known."""
        key = (of.node, of.at.key)
        if key not in orders:
            orders[key] = []  # a class that is its own base class
            above = [base for base in self.list_bases(of) if isinstance(base.node, ast.ClassDef)]
            order = {found.node: found for base in reversed(above) for found in reversed(self._list_mro(base, orders))}
            orders[key] = [Traced(of.node, of.at), *reversed(order.values())]
        return orders[key]

    def _get_module_member(self, base: Traced, name: str) -> Iterator[Traced]:
        file: SourceFile = base.node.file
        is_package = file.path.name == "__init__.py" and name not in file.top.names.bound
        if is_package and (below := self.find_module(name, file.path.parent)):
            yield Traced(Imported(below), below.top)
        else:
            found = self._look_up_in_module(name, file)
            yield from (value for value in found if not (isinstance(value.node, Outside) and value.node.name == name))

    def _get_runtime_member(self, base: Traced, name: str) -> Iterator[Traced]:
        """Find the context of `get_runtime(Context).context`, or an argument by the name of the attribute."""
        yield from (Traced(part.value, base.at) for part in base.node.keywords if part.arg == name)
        placed = zip(self._list_places(base), base.node.args, strict=False)
        yield from (Traced(part, base.at) for place, part in placed if place == name)
        if get_last_name(base.node.func) == "SimpleNamespace":
            rest = (part.value for part in base.node.keywords if part.arg is None)
            yield from (Traced(self.make_item(part, name), base.at) for part in rest)
        if name in ("context", "configurable"):
            for part in [*base.node.args, *(keyword.value for keyword in base.node.keywords)]:
                for given in self.trace(part, base.at):
                    if isinstance(given.node, ast.ClassDef):
                        yield Traced(Instance(given.node, None), given.at)

    def _get_function_member(self, base: Traced, name: str) -> Iterator[Traced]:
        """Find what a decorator of the program assigns to an attribute of the function that it decorates."""
        for decorator in base.node.decorator_list if name in self.replaced else ():
            is_made = isinstance(decorator, ast.Call)
            for maker in self.trace(decorator.func if is_made else decorator, base.at):
                around = self.enter(maker.node, maker.at) if is_made else maker.at
                for part in getattr(maker.node, "body", ()) if is_made else [maker.node]:
                    inside = dict(self.list_decorations(self.enter(part, around))).get(base.node)
                    for target, value in (
                        pair for line in getattr(part, "body", ()) for pair in list_assignments(line)
                    ):
                        owner = get_last_name(getattr(target, "value", None))
                        if inside is not None and get_last_name(target) == name and owner in list_positional(part)[:1]:
                            yield Traced(value, inside)

    def _list_places(self, made: Traced) -> list[str]:
        """List the names of what a call gives by place, of a document and of what `namedtuple` makes."""
        if get_last_name(made.node.func) == "Document":
            return ["page_content"]
        for found in self.trace(made.node.func, made.at):
            if isinstance(found.node, ast.Call) and get_last_name(found.node.func) == "namedtuple":
                texts = [text for part in found.node.args[1:2] for text in self._list_texts(part, found.at)]
                return [name for text in texts for name in text.replace(",", " ").split()]
        return []

    def _list_texts(self, node: ast.expr, at: Surroundings) -> list[str]:
        """List the constant texts of a list, or a text alone."""
        found = self.trace(node, at)
        parts = [part for value in found for part in self.iterate(value) if isinstance(part, Traced)] or found
        return [part.node.value for part in parts if is_text(part.node)]

    def _get_field_member(self, base: Traced, name: str) -> Iterator[Traced]:
        """Find an attribute of `state["field"]` by the field's type."""
        key = read_key(base.node.slice)
        for owner in self.trace(base.node.value, base.at) if isinstance(key, str) else ():
            annotation = owner.node.annotation if isinstance(owner.node, Argument) else None
            for of in self.list_annotated(annotation, owner.at):
                names = self.enter(of.node.of, of.at).names
                for found in self.list_annotated(names.annotated.get(key), self.enter(of.node.of, of.at)):
                    yield from self.get_member(found._replace(call=None), name)

    def _get_outside_member(self, base: Traced, name: str) -> Iterator[Traced]:
        full = f"{base.node.name}.{name}"
        module = self.find_module(full)
        yield Traced(Imported(module), module.top) if module else Traced(Outside(full), base.at)

    def list_bases(self, value: Traced) -> Iterator[Traced]:
        """Find a class's base classes, of the program and of others."""
        for base in value.node.bases:
            found = self.trace(base.value if isinstance(base, ast.Subscript) else base, value.at)
            yield from (part for part in found if part.node is not value.node)  # a base class may have the same name

    def list_overriding(self, of: Traced, name: str) -> Iterator[Traced]:
        """Find the subclasses, direct or not, that have an attribute of their own and are used."""
        for below in self.list_below(of.node):
            names = self.enter(below.node, below.at).names.bound
            is_used = below.node.name in self.loaded or below.node.decorator_list  # which may register it
            if is_used and (name in names or name in self._read_assigned(below.node)):
                yield below

    def list_below(self, base: ast.ClassDef) -> list[Traced]:
        """List the subclasses of a class, direct or not."""
        if self.below is None:
            self.below = {}
            for found in self.classes:
                for parent in self.list_bases(found) if found.node.bases else ():
                    if isinstance(parent.node, ast.ClassDef):
                        self.below.setdefault(parent.node, []).append(found)
        under, pending = dict[Any, Traced](), [base]
        while pending:
            for below in self.below.get(pending.pop(), ()):
                if below.node not in under and below.node is not base:
                    under[below.node] = below
                    pending.append(below.node)
        return list(under.values())

    def _list_children(self, base: ast.expr, at: Surroundings) -> Iterator[Traced]:
        """List the classes that `Base.__subclasses__()` returns."""
        known = [found.node for found in self.trace(base, at) if isinstance(found.node, ast.ClassDef)]
        for found in self.classes if known else ():
            if any(parent.node in known for parent in self.list_bases(found)):
                yield found

    def is_overridden(self, at: Surroundings) -> bool:
        """Whether code stands in a method that all objects of the program have from a subclass instead."""
        of, name = at.outer, getattr(at.owner, "name", "")
        if of is None or not isinstance(of.owner, ast.ClassDef) or of.owner.name in self.made:
            return False
        if any(
            get_last_name(getattr(call.node.func.value, "func", None)) == "super"
            for call in self.calls.get(name, ())
            if isinstance(call.node.func, ast.Attribute)
        ):
            return False
        used = [below for below in self.list_below(of.owner) if below.node.name in self.made]
        found = [value.node for below in used for value in self._get_class_member(below, name)]
        return bool(used) and not any(isinstance(node, BoundMethod) and node.function is at.owner for node in found)

    @cached_property
    def made(self) -> set[str]:
        """Names that are called, or handed over to what may call them."""
        return self.handed | self.calls.keys()

    def _get_class_member(self, base: Traced, name: str) -> Iterator[Traced]:
        order = self.list_mro(base)
        has = [of for of in order if name in self.enter(of.node, of.at).names.bound]
        for owner in has[:1]:
            inside = self.enter(owner.node, owner.at)
            for value in inside.names.bound[name]:
                if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield Traced(BoundMethod(value, base), inside)
                    for other in self._list_dispatched(value):
                        yield Traced(BoundMethod(other.node, base), other.at)
                else:
                    yield self._open_member(value, owner, inside)
                    yield from self._list_registered(owner.node, name)
            yield from self._list_class_assigned(owner, name)
        for of in order if not has else ():
            metas = (part.value for part in of.node.keywords if part.arg == "metaclass")
            for made in (made for meta in metas for made in self.trace(meta, of.at)):
                if isinstance(made.node, ast.ClassDef):
                    yield from self.get_member(Traced(Instance(made.node, None), made.at), name)
            inside = self.enter(of.node, of.at)
            if name in inside.names.annotated:
                yield from self.list_annotated(inside.names.annotated[name], inside)
                return

    def _list_class_assigned(self, base: Traced, name: str) -> Iterator[Traced]:
        """Find what classmethods assign to an attribute of the class, such as the only object of it."""
        inside = self.enter(base.node, base.at)
        for method, target, value in self.look(list_class_assignments, base.node):
            if target.attr == name and get_last_name(target.value) in (given := give_first(method, base)):
                yield Traced(value, Surroundings(inside.file, method, inside, given))

    def _get_instance_member(self, base: Traced, name: str) -> Iterator[Traced]:
        instance: Instance = base.node
        if name == "__class__":
            yield Traced(instance.of, base.at)
            return
        if instance.call is not None and instance.made_in is not None and not self.find_init(base):
            passed = self.get_passed_field(instance, name)
            if passed is not None:
                made = list(self._list_parsed(base, name, Traced(passed, instance.made_in)))
                yield from made or [Traced(passed, instance.made_in, instance.call)]
                rounds = getattr(getattr(passed, "value", None), "generators", ())
                rest = [part.value for part in instance.call.keywords if part.arg is None]
                rows = self.trace(rest[0], instance.made_in) if getattr(passed, "value", None) in rest else ()
                is_left_out = any(not [*self.get_items(row, name)] for row in rows)
                if not is_left_out and not any(part.ifs for part in rounds):  # else the field may have its default
                    return
        owner = Traced(instance.of, base.at)
        found = False
        made_with = self._list_made_with(owner, name) if instance.call is None else ()
        own = self._list_handed_up(base, name) or self._get_class_member(owner, name)
        for value in [*made_with, *own, *self._list_assigned(owner, name, base)]:
            found = True
            is_method = isinstance(value.node, BoundMethod) or is_partialmethod(value.node)
            yield from self._bind(value, base) if is_method else [value]
        for value in self._get_class_member(owner, "__getattr__") if not found and not name.startswith("__") else ():
            if isinstance(value.node, BoundMethod) and (function := value.node.function):
                named = self.passed.setdefault((function, f"attribute {name}"), ast.Constant(name))
                given = {part: [Traced(named, value.at)] for part in list_positional(function)[1:2]}
                yield from self.list_returned(function, value.at, given, None, base)

    def _list_handed_up(self, me: Traced, name: str) -> list[Traced]:
        """List what a call passes for a field that `__init__(self, **more)` hands to `super().__init__(**more)`."""
        passed = get_keywords(me.node.call).get(name) if me.node.call is not None else None
        for init in self.find_init(me) if passed is not None and me.node.made_in is not None else ():
            rest = init.node.args.kwarg
            for call in self.calls.get("__init__", ()) if rest and name not in list_parameters(init.node) else ():
                more = [get_last_name(part.value) for part in call.node.keywords if part.arg is None]
                if call.at.owner is init.node and is_super_method(call.node) and more == [rest.arg]:
                    return [Traced(passed, me.node.made_in, me.node.call)]
        return []

    def _list_made_with(self, of: Traced, name: str) -> Iterator[Traced]:
        """List what the calls that make objects of a class without `__init__` pass for a field."""
        is_own = any(is_field(part) and part.target.id == name for part in of.node.body)
        if not is_own or self.find_init(of._replace(node=Instance(of.node, None))):
            return
        for call in filter(self.is_live, self.calls.get(of.node.name, ())):
            passed = self.get_passed_field(Instance(of.node, call.node), name)
            if passed is not None and any(found.node is of.node for found in self.trace(call.node.func, call.at)):
                yield Traced(passed, call.at)
        for call in (call for maker in CHANGING for call in self.calls.get(maker, ())):
            passed = get_keywords(call.node).get(name)
            owners = [*call.node.args[:1], getattr(call.node.func, "value", None)] if passed is not None else []
            known = (found.node for owner in owners for found in self.trace(owner, call.at))
            if any(isinstance(node, Instance) and node.of is of.node for node in known):
                yield Traced(passed, call.at)

    def _list_assigned(self, owner: Traced, name: str, me: Traced) -> Iterator[Traced]:
        """Find what the methods of a class assign to an attribute of an object."""
        for of in self.list_mro(owner):
            yield from self._list_assigned_in(of, name, me)

    def _list_assigned_in(self, of: Traced, name: str, me: Traced) -> Iterator[Traced]:
        """Find what the methods of a class itself assign to an attribute of an object."""
        inside = self.enter(of.node, of.at)
        for call in self.calls.get("__init__", ()):
            is_own = is_super_method(call.node) and call.at.outer is not None and call.at.outer.owner is of.node
            value = get_keywords(call.node).get(name) if is_own else None
            if value is not None and not self._is_taken_above(of, name):
                yield Traced(value, self.enter_init(me, call.at.owner) or call.at)
        for method, value in self._read_assigned(of.node).get(name, ()):
            made: list[Surroundings | None] = [self.enter_init(me, method)] if method.name == "__init__" else []
            if method.name == "__init_subclass__":
                given = self.list_decorations(self.enter(method, inside))
                made = [at for sub, at in given if sub is me.node.of] or [at for _, at in given]
            elif (
                method.name in ("__post_init__", "model_post_init")
                and isinstance(me.node, Instance)
                and me.node.call is not None
            ):
                made = [Surroundings(inside.file, method, inside, give_first(method, me))]
            yield from (Traced(value, at) for at in [*filter(None, made)] or self._list_around(value, method, inside))

    def _is_taken_above(self, of: Traced, name: str) -> bool:
        """Whether an `__init__` above a class has a parameter of a name, of which it may make something else."""
        above = [self.enter(base.node, base.at).names.bound.get("__init__", ()) for base in self.list_mro(of)[1:]]
        return any(name in list_parameters(init) for inits in above for init in inits if isinstance(init, Function))

    def _list_around(self, node: ast.expr, method: Any, at: Surroundings) -> list[Surroundings]:
        """List the surroundings of a node of a method; of one in a decorator those for each function it decorates."""
        parts = ast.walk(node)  # what is added to a collection is one that stands in no file
        around, inner = next((self.parents[part] for part in parts if part in self.parents), None), list[Any]()
        while around is not None and around is not method:
            inner += [around] if isinstance(around, Function) else []
            around = self.parents.get(around)
        where = self.enter(method, at)
        for function in reversed(inner):
            where = self.enter(function, where)
        decorated = [inside for _, inside in self.list_decorations(where)] if inner else []
        if decorated:
            return [inside for inside in decorated if self.is_reached(node, inside)]
        is_added = node not in self.parents
        return (self._list_calls_of(method, where) if is_added and not inner else []) or [where]

    @end_circles(list[Surroundings]())
    def _list_calls_of(self, function: Any, at: Surroundings) -> list[Surroundings]:
        """List the surroundings inside a function for each call of it; none if no call passes anything."""
        outer = at.outer
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or outer is None or at.given:
            return []
        is_method, found = isinstance(outer.owner, ast.ClassDef) and not is_static(function), list[Surroundings]()
        for call in filter(self.is_live, self.calls.get(function.name, ())):
            called = self.find_called(function, call.node, call.at)
            inside = self.enter_called(Traced(function, outer), call.node, call.at, skip_first=is_method)
            if called and inside is not None:
                passed = {
                    name: [part._replace(call=call.node) for part in parts] for name, parts in inside.given.items()
                }
                found.append(Surroundings(at.file, function, outer, passed))
        return self.take_most(found, Traced(function, at))

    def _read_assigned(self, owner: ast.ClassDef) -> dict[str, list[tuple[Any, ast.expr]]]:
        if owner not in self.assigned:
            self.assigned[owner] = read_own_assignments(owner)
        return self.assigned[owner]

    def find_init(self, me: Traced) -> list[Traced]:
        """Find the `__init__` of an object's class, or that of a base class."""
        return [
            Traced(value.node.function, value.at)
            for value in self._get_class_member(Traced(me.node.of, me.at), "__init__")
            if isinstance(value.node, BoundMethod)
        ]

    def enter_init(self, me: Traced, target: Any) -> Surroundings | None:
        """Return the surroundings inside an `__init__` with the arguments of the call that makes an object.

        It may be that of a base class, which `super().__init__(...)` calls. None if the call is not known.
        """
        call, at = me.node.call, me.node.made_in
        for init in self.find_init(me) if call is not None and at is not None else ():
            given = self.list_passed(init.node, call, at, skip_first=True)
            given = {**list_defaults(init.at.file.read_names(init.node), init.at), **given}
            inside = Surroundings(init.at.file, init.node, init.at, {**give_first(init.node, me), **given})
            if init.node is target:
                return inside
            for above in self.calls.get("__init__", ()):
                if above.at.owner is init.node and inside.depth <= NESTED:
                    for parent in self.list_bases(Traced(init.at.owner, init.at.outer or init.at)):
                        if isinstance(parent.node, ast.ClassDef):
                            made = Traced(Instance(parent.node, above.node, inside), parent.at)
                            if (found := self.enter_init(made, target)) is not None:
                                return found
        return None

    def get_passed_field(self, instance: Instance, name: str) -> ast.expr | None:
        """Get what the call that makes an object passes for a field; None if it passes nothing."""
        assert instance.call is not None
        for keyword in instance.call.keywords:
            if keyword.arg == name:
                return keyword.value
        fields = [part.target.id for part in instance.of.body if is_field(part)]  # type: ignore[attr-defined]
        if name in fields and fields.index(name) < len(instance.call.args):
            return instance.call.args[fields.index(name)]
        rest = [keyword.value for keyword in instance.call.keywords if keyword.arg is None]
        return self.make_item(rest[0], name) if rest and name in fields else None

    def make_item(self, owner: ast.expr, key: Any) -> ast.expr:
        """The expression of an item that `**owner` passes, or that is taken from a loaded file."""
        if (owner, key) not in self.passed:
            made = ast.copy_location(ast.Subscript(owner, ast.Constant(key), ast.Load()), owner)
            self.passed[owner, key], self.parents[made] = made, self.parents.get(owner)
        return self.passed[owner, key]

    def _get_argument_member(self, base: Traced, name: str) -> Iterator[Traced]:
        argument: Argument = base.node
        owner = base.at.outer.owner if base.at.outer else None
        if isinstance(owner, ast.ClassDef) and is_first_argument(argument) and base.at.outer is not None:
            of = Traced(owner, base.at.outer.outer or base.at)
            if not is_static(argument.function):
                is_class = is_classmethod(argument.function)
                for own in [of, *self.list_overriding(of, name)]:
                    yield from self.get_member(own if is_class else Traced(Instance(own.node, None), own.at), name)
                return
        for annotated in self.list_annotated(argument.annotation, base.at):
            if name == "context" and annotated.call is not None:
                yield Traced(annotated.node, annotated.at)
            elif name != "context":
                yield from self.get_member(annotated._replace(call=None), name)

    def list_annotated(self, annotation: ast.expr | None, at: Surroundings) -> Iterator[Traced]:
        """Find the objects that an annotation allows; those of a generic's arguments have `call` set."""
        where = at.outer or at
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = parse_expression(annotation.value)
        if isinstance(annotation, ast.Subscript):
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            for part in parts:
                for found in self.list_annotated(part, at):
                    yield found._replace(call=annotation)
        elif isinstance(annotation, ast.BinOp):
            yield from self.list_annotated(annotation.left, at)
            yield from self.list_annotated(annotation.right, at)
        elif annotation is not None:
            for found in self.trace(annotation, where):
                if isinstance(found.node, ast.ClassDef):
                    yield Traced(Instance(found.node, None), found.at)

    def _trace_subscript(self, node: ast.Subscript, at: Surroundings) -> Iterator[Traced]:
        found = False
        for named in self._list_named(self._list_namespaces(node.value, at), node.slice, at):
            found = True
            yield named
        keys = self.list_keys(node.slice, at) or [Traced(None, at)]
        for base in self._list_owners(node.value, node.slice, at):
            for made in self._list_got(base, node, at):
                found = True
                yield from self.trace(made.node, made.at, made.call or base.call)
            for key in keys:
                value = None if key.node is None else read_key(key.node)
                for part in self._list_sliced(base, node.slice) or self.get_items(base, value):
                    found = True
                    yield from self.trace(part.node, part.at, base.call or key.call)
                if base.node in self.taken and base.node is not node.value and value is not None:
                    found = True
                    yield Traced(self._take_loaded(base.node, value), base.at, base.call or key.call)
        if not found:
            yield Traced(node, at)

    def _list_owners(self, node: ast.expr, key: ast.expr, at: Surroundings) -> list[Traced]:
        """Find the collections of which an item is taken; what the same function has put there is that of this call."""
        found = dict[Any, Traced]()
        for base in self.trace(node, at):
            is_put = isinstance(base.node, ast.Dict) and base.node not in self.parents and len(base.node.keys) == 1
            if is_put and base.at.owner is at.owner and ast.unparse(base.node.keys[0]) == ast.unparse(key):
                base = Traced(base.node, at)
            found.setdefault((base.node, base.at.key, base.call), base)
        return list(found.values())

    def _list_got(self, base: Traced, node: ast.Subscript, at: Surroundings) -> Iterator[Traced]:
        """Find what `__getitem__` of an object returns, or the class itself that stands with the types of a generic."""
        if isinstance(base.node, ast.ClassDef) and not self._is_enum(base):
            yield base
        for name in ("__getitem__", "__missing__") if isinstance(base.node, Instance | Argument) else ():
            for member in self.get_member(base, name):
                if isinstance(member.node, BoundMethod) and member.node.function is not at.owner:
                    call = self.passed.setdefault((node, "item"), ast.Call(node.value, [node.slice], []))
                    yield from self._call_bound(member.node, member, call, at)  # type: ignore[arg-type]

    def _take_loaded(self, owner: ast.expr, key: Any) -> ast.expr:
        """The expression of an item of a collection that is loaded from a file."""
        item = self.make_item(owner, key)
        self.taken.add(item)
        return item

    def list_keys(self, node: ast.expr, at: Surroundings) -> list[Traced]:
        """List the constants that a key may be; none if there may be others, as in a field of the state."""
        if isinstance(node, ast.Slice):
            return []
        if read_key(node) is not None:
            return [Traced(node, at)]
        if isinstance(node, ast.Tuple):
            return self._list_tuple_keys(node, at)
        if isinstance(node, ast.Attribute) and node.attr == "value" and (members := self.list_keys(node.value, at)):
            return members
        bound = self.look_up(node.id, at) if isinstance(node, ast.Name) else [Traced(node, at)]
        if any(map(self._is_open, bound)):
            return []
        found = [part for value in self.trace(node, at) for part in self._read_key(value)]
        keys = {(v.node.value, v.call): v for v in found if isinstance(v.node, ast.Constant)}
        return [*keys.values()] if all(isinstance(value.node, ast.Constant | Argument) for value in found) else []

    def _list_tuple_keys(self, node: ast.Tuple, at: Surroundings) -> list[Traced]:
        """List the keys of several parts, as in `PROMPTS[step, language]`; a part that is not known is None."""
        parts = [self.list_keys(part, at) or [Traced(None, at)] for part in node.elts]
        chosen = self.take_most([*islice(product(*parts), MOST + 1)], Traced(node, at))
        keys = [(tuple(part.node and read_key(part.node) for part in key), key) for key in chosen]
        calls = ((value, next((part.call for part in key if part.call is not None), None)) for value, key in keys)
        return [Traced(ast.Constant(value), at, call) for value, call in calls]  # type: ignore[arg-type]

    def _read_key(self, value: Traced) -> list[Traced]:
        """Read a key that is made of others, such as `name.upper()`."""
        if isinstance(value.node, ast.Constant | Argument) or not isinstance(value.node, ast.expr):
            return [value]
        return [Traced(ast.Constant(text), value.at, value.call) for text in self.read_strings(*value[:2])] or [value]

    def _is_open(self, value: Traced) -> bool:
        """Whether an expression reads a field of the state or of settings, whose default is not its only value."""
        if isinstance(value.node, ast.Call):
            return get_last_name(value.node.func) == "get"
        if isinstance(value.node, ast.Subscript):
            return any(map(self._is_spread, self.trace(value.node.value, value.at)))
        for base in self.trace(value.node.value, value.at) if isinstance(value.node, ast.Attribute) else ():
            around = base.at.outer.owner if base.at.outer else None
            if isinstance(base.node, Argument):
                if not (isinstance(around, ast.ClassDef) and is_first_argument(base.node)):
                    return True
            elif isinstance(base.node, Instance):
                of = Traced(base.node.of, base.at)
                if base.node.call is None or self._has_base(of, "BaseSettings"):  # which the environment sets
                    return True
        return False

    def _is_spread(self, value: Traced) -> bool:
        """Whether a dict has items of another that the source does not show, as `{**DEFAULTS, **given}`."""
        node = value.node
        pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
        for part in (part for key, part in pairs if key is None):
            known = (isinstance(found.node, ast.Dict | ast.DictComp) for found in self.trace(part, value.at))
            if self._is_open(Traced(part, value.at)) or not all(known):
                return True
        return False

    def _list_sliced(self, base: Traced, part: ast.expr) -> list[Traced]:
        """Cut a literal list, if its bounds are numbers; of a comprehension or `sorted(...)` any part may be meant."""
        is_ordered = isinstance(base.node, ast.Call) and get_last_name(base.node.func) in LISTS
        if isinstance(part, ast.Slice) and (is_ordered or isinstance(base.node, ast.ListComp)):
            return [base]
        if isinstance(part, ast.Slice) and isinstance(base.node, ast.BinOp):
            parts = [inner for inner in self.iterate(base) if isinstance(inner, Traced) and inner.at == base.at]
            base = base._replace(node=make_tuple(parts)) if parts else base
        if not isinstance(part, ast.Slice) or not isinstance(base.node, ast.List | ast.Tuple):
            return []
        bounds = [None if bound is None else read_key(bound) for bound in (part.lower, part.upper, part.step)]
        is_known = all(
            bound is None or isinstance(key, int)
            for bound, key in zip((part.lower, part.upper, part.step), bounds, strict=True)
        )
        return [Traced(ast.List(base.node.elts[slice(*bounds)] if is_known else base.node.elts, ast.Load()), base.at)]

    def get_items(self, base: Traced, key: Any) -> Iterator[Traced]:
        """Find the values that a dict or list has under a key; all, where the key is not known."""
        node = base.node
        is_sum = isinstance(node, ast.List | ast.Tuple) and any(isinstance(part, ast.Starred) for part in node.elts)
        is_made = isinstance(node, ast.Call) and get_last_name(node.func) in (*LISTS, *CHOOSING)
        is_made |= isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        if is_sum or isinstance(node, ast.ListComp) or (is_made and not isinstance(key, str)):
            parts = [part for part in self.iterate(base) if isinstance(part, Traced)]
            is_placed = isinstance(key, int) and self._has_end(node, base.at) and self._keeps_places(node, base.at)
            yield from parts[key:][:1] if is_placed else parts
            return
        if isinstance(node, ast.List | ast.Tuple):
            key = key if key is None or self._keeps_places(node, base.at) else None
            if key is None or (isinstance(key, int) and -len(node.elts) <= key < len(node.elts)):
                yield from (Traced(part, base.at) for part in (node.elts if key is None else [node.elts[key]]))
            return
        if isinstance(node, ast.ClassDef):
            yield from self._list_members(base) if key is None else self._get_class_member(base, str(key))
        known = [pair for pair in self.list_pairs(base, key) if key is None or self._is_key(pair[0], key)]
        own = {part for part in getattr(node, "keys", ()) if isinstance(part, ast.Constant)}  # the last counts
        last = [number for number, pair in enumerate(known) if isinstance(node, ast.BinOp) or pair[0].node in own]
        yield from (value for _, value in known[last[-1] if last and key is not None else 0 :])

    def _is_key(self, found: Traced, key: Any) -> bool:
        if isinstance(key, tuple) and isinstance(found.node, ast.Tuple):
            pairs = zip(found.node.elts, key, strict=False)
            return all(part is None or self._is_key(Traced(node, found.at), part) for node, part in pairs)
        if isinstance(found.node, ast.Constant):
            return bool(found.node.value == key)
        if isinstance(found.node, ast.Attribute) and found.node.attr in ("stem", "name"):
            paths = [path.node.args[0].value for path in self.trace(found.node.value, found.at) if is_path(path.node)]
            if paths:
                return key in [getattr(Path(path), found.node.attr) for path in paths]
        if names := self.read_strings(found.node, found.at):
            return key in names
        values = self.trace(found.node, found.at)
        return all(not isinstance(value.node, ast.Constant) or value.node.value == key for value in values)

    def _trace_chain(self, node: ast.Call, at: Surroundings) -> None:
        """Trace the calls of a long chain, `made.first().second()`, from the first on, as the last is too deep."""
        chain: list[ast.expr] = [node]
        while isinstance(chain[-1], ast.Call) and isinstance(chain[-1].func, ast.Attribute):
            chain.append(chain[-1].func.value)
        key = ("chain", chain[-1], at.key)
        if len(chain) > MANY and key not in self.ordered:
            self.ordered.add(key)
            for call in reversed(chain[1:]):
                self.trace(call, at)
            self.ordered.discard(key)

    def _trace_call(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        self._trace_chain(node, at)
        found = False
        default = get_default(node) if get_last_name(node.func) in ("field", "Field") else None
        if default is not None:
            yield from self._trace_default(default, at)
            return
        for called in self.trace(node.func, at):
            for value in self._call(called, node, at):
                found = True
                yield from self.trace(value.node, value.at, value.call)
        for value in self._list_set(node, at):
            found = True
            yield from self.trace(value.node, value.at, value.call)
        found_default = False
        if not found and get_last_name(node.func) == "get" and isinstance(node.func, ast.Attribute) and node.args:
            for value in self._get_from_dict(node, at):
                found_default = True
                yield value
        if found or found_default:
            return
        copied = self._list_copied(node, at) or self._list_awaited(node, at)
        copied = copied or [*self._list_changed(node, at), *self._list_validated(node, at)]
        named = list(self._trace_named(node, at)) if get_last_name(node.func) == "getattr" else []
        yield from copied or named or [Traced(node, at)]

    def _list_set(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find what `variable.get()` of a `ContextVar` returns: what `set` gives it, and its defaults."""
        if get_last_name(node.func) != "get" or "ContextVar" not in self.calls:
            return
        for made in self.trace(getattr(node.func, "value", None), at):
            if isinstance(made.node, ast.Call) and get_last_name(made.node.func) == "ContextVar":
                for call in filter(self.is_live, self.calls.get("set", ())):
                    owner = getattr(call.node.func, "value", None)
                    if any(found.node is made.node for found in self.trace(owner, call.at)):
                        yield from (Traced(part, call.at, call.node) for part in call.node.args[:1])
                yield from (Traced(part.value, made.at) for part in made.node.keywords if part.arg == "default")
                yield from (Traced(part, at) for part in node.args[:1])

    def _trace_named(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find what `getattr(owner, name)` may be; parts of a name that are computed may be anything."""
        if len(node.args) > 1:
            yield from self._list_named(self.trace(node.args[0], at), node.args[1], at)
        for default in node.args[2:]:
            yield from self.trace(default, at)

    def _list_namespaces(self, node: ast.expr, at: Surroundings) -> list[Traced]:
        """Find the classes and modules of which `vars(owner)`, `owner.__dict__` or `globals()` has the names."""
        name, owner = get_last_name(getattr(node, "func", node)), getattr(node, "value", None)
        if isinstance(node, ast.Call) and name == "globals":
            return [Traced(Imported(at.file), at.file.top)]
        if isinstance(node, ast.Call):
            owner = node.args[0] if name == "vars" and node.args else None
        found = self.trace(owner, at) if owner is not None and name in ("vars", "__dict__") else []
        return [value for value in found if isinstance(value.node, Imported | ast.ClassDef)]

    def _list_named(self, owners: Sequence[Traced], name: ast.expr, at: Surroundings) -> Iterator[Traced]:
        """Find what classes, objects and modules have under a name, which may be computed."""
        patterns = filter(None, (self._make_name_pattern(found) for found in self.trace(name, at) if owners))
        known = re.compile("|".join(patterns) or "(?!)")
        for base in owners:
            owner = base.node.of if isinstance(base.node, Instance) else base.node
            names: Any = ()
            if isinstance(owner, Imported):
                names = owner.file.top.names.bound
            elif isinstance(owner, ast.ClassDef):
                names = (inside := self.enter(owner, base.at).names).bound | inside.annotated
            for member in filter(known.fullmatch, names):
                for found in self.get_member(base, member):
                    yield from self.trace(found.node, found.at, found.call)

    def _list_copied(self, node: ast.Call, at: Surroundings) -> list[Traced]:
        """Find what a copy is made of."""
        name = get_last_name(node.func)
        if name == "copy" and isinstance(node.func, ast.Attribute) and not node.args:
            return self.trace(node.func.value, at)
        if name == "next" and node.args:
            return self._list_next(node, at)
        if name == "import_module":
            return self._import_named(node, at)
        if name in POPPING and isinstance(node.func, ast.Attribute):
            return self._list_popped(node, node.func.value, at)
        if name == "type" and len(node.args) == 1:
            of = self.passed.setdefault((node, "class"), ast.Attribute(node.args[0], "__class__", ast.Load()))
            return [found for found in self.trace(of, at) if isinstance(found.node, ast.ClassDef)]
        if name == "defaultdict" and node.args:
            made = self.passed.setdefault((node, "default"), make_default(node.args[0]))
            return [Traced(made, at), *(value for part in node.args[1:] for value in self.trace(part, at))]
        if name in ("dict", "OrderedDict", "SubAgent", "CompiledSubAgent"):
            return self._list_made_dicts(node, at)
        return [value for part in node.args for value in self.trace(part, at)] if name in COPIES else []

    def _list_made_dicts(self, node: ast.Call, at: Surroundings) -> list[Traced]:
        """Find the dicts that `dict(given, key=value)` makes, or a TypedDict that is called so."""
        found = [self._make_dict(value) for part in node.args for value in self.trace(part, at)]
        keys: list[ast.expr | None] = [ast.Constant(part.arg) if part.arg else None for part in node.keywords]
        if keys:
            made = ast.copy_location(ast.Dict(keys, [part.value for part in node.keywords]), node)
            self.parents[made] = self.parents.get(node)
            found.append(Traced(made, at))
        return found

    def _list_awaited(self, node: ast.Call, at: Surroundings) -> list[Traced]:
        """Find what functions of asyncio give of coroutines: `gather` a list, a task what its coroutine returns."""
        name = get_last_name(node.func)
        if name == "result" and isinstance(node.func, ast.Attribute):  # of a task, as a text has none
            made = self.trace(node.func.value, at)
            return [found for found in made if is_text(found.node) or isinstance(found.node, ast.JoinedStr | ast.BinOp)]
        first = {"to_thread": 0, "run_in_executor": 1}.get(name)  # the function that it runs
        if (name not in (*AWAITING, "gather") and first is None) or not self._is_of_asyncio(node.func, at):
            return []
        if first is not None:
            runs = [ast.Call(part, node.args[first + 1 :], node.keywords) for part in node.args[first : first + 1]]
            calls = [self.passed.setdefault((node, name), ast.copy_location(call, node)) for call in runs]
            return [found for part in calls for found in self.trace(part, at) if found.node is not part]
        if name != "gather":
            return self.trace(node.args[0], at) if node.args else []
        gathered = self.passed.setdefault((node, name), ast.copy_location(ast.List(node.args, ast.Load()), node))
        return [Traced(gathered, at)]

    def _is_of_asyncio(self, func: ast.expr, at: Surroundings) -> bool:
        """Whether a function is one of `asyncio`, or a method of what one of these makes, as of a group of tasks."""
        owners = self.trace(func.value, at) if isinstance(func, ast.Attribute) else []
        makers = (found for owner in owners for found in self.trace(getattr(owner.node, "func", None), owner.at))
        names = (found.node.name for found in (*self.trace(func, at), *makers) if isinstance(found.node, Outside))
        return any("asyncio" in name.split(".") for name in names)

    def _list_next(self, node: ast.Call, at: Surroundings) -> list[Traced]:
        """Find the element that `next(part for part in parts if ...)` may be, or the first of another collection."""
        made = self.trace(node.args[0], at)
        is_searched = any(
            isinstance(found.node, ast.GeneratorExp) or get_last_name(getattr(found.node, "func", None)) == "cycle"
            for found in made
        ) or not self._keeps_places(node.args[0], at)
        parts = [part for part in self._iterate_all(node.args[:1], at) if isinstance(part, Traced)]
        chosen = [*(parts if is_searched else parts[:1]), *(Traced(part, at) for part in node.args[1:])]
        return [*self._trace_all(iter(chosen))] if parts else []

    def _list_popped(self, node: ast.Call, owner: ast.expr, at: Surroundings) -> list[Traced]:
        """Find what `items.pop()` may take out of a list or a deque, or by its key out of a dict."""
        if node.args and any(is_text(key.node) for key in self.trace(node.args[0], at)):
            item = self.passed.setdefault((node, "item"), ast.Subscript(owner, node.args[0], ast.Load()))
            found = [value for value in self.trace(item, at) if value.node is not item]
            return [*found, *(value for part in node.args[1:] if found for value in self.trace(part, at))]
        owners = self.trace(owner, at)
        if node.args and any(map(self.list_pairs, owners)):
            return [value for value in self._get_from_dict(node, at) if value.node is not node]
        around = [self.popped[found.node] for found in owners if found.node in self.popped]
        if around:  # what is taken out of a stack goes into what is put back
            self.cut |= sum(1 << depth for depth in {*around})
            return []
        own = dict.fromkeys((found.node for found in owners), self.active.get((node, at.key), 0))
        self.popped |= own
        parts = (part for part in self._iterate_all([owner], at) if isinstance(part, Traced))
        try:
            return [*self._trace_all(parts)]
        finally:
            for value in own:
                del self.popped[value]

    def _make_dict(self, value: Traced) -> Traced:
        """Make a dict of a list of pairs; another value stays."""
        if not isinstance(value.node, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp):
            return value
        loop = ast.comprehension(ast.parse("key, value", mode="eval").body, value.node, [], 0)
        key, part = loop.target.elts  # type: ignore[attr-defined]
        return value._replace(node=self.passed.setdefault((value.node, "dict"), ast.DictComp(key, part, [loop])))

    def _list_changed(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find the objects with some other fields that `replace(owner, field=value)` and its like make."""
        owner = node.args[0] if node.args else getattr(node.func, "value", None)
        new = get_keywords(node)
        if get_last_name(node.func) not in CHANGING or not new or owner is None:
            return
        if isinstance(update := new.get("update"), ast.Dict):
            new = dict(list_items(update))
        for found in self.trace(owner, at):
            if isinstance(found.node, Instance):
                names = [part.target.id for part in found.node.of.body if is_field(part)]  # type: ignore[attr-defined]
                given = {f"{name} of object": self._settle(Traced(new[name], at)) for name in names if name in new}
                for name in (name for name in names if name not in new):
                    kept = [value for part in self.get_member(found, name) for value in self._settle(part)]
                    given[f"{name} of object"] = kept
                fields = [ast.keyword(name, ast.Name(f"{name} of object", ast.Load())) for name in names]
                made = self.passed.setdefault((node, found.node.of.name), ast.Call(node.func, [], fields))
                where = Surroundings(at.file, at.owner, at.outer, given)
                yield Traced(Instance(found.node.of, made, where), found.at)  # type: ignore[arg-type]

    def _settle(self, value: Traced) -> list[Traced]:
        """Find what a value is made of, so that a chain of changes of an object is not nested ever deeper."""
        settled = []
        for found in self.trace(*value[:2]):
            node, parts = found.node, dict[str, list[Traced]]()
            elements = [*self.iterate(found)] if isinstance(node, ast.BinOp | ast.Tuple | ast.List) else []
            if elements or isinstance(node, ast.Tuple | ast.List):
                settled_parts = [self._settle(part) for part in elements if isinstance(part, Traced)]
                parts = {f"item {number}": part for number, part in enumerate(settled_parts)}
                names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in parts]
                made: ast.expr = ast.copy_location(ast.Tuple(names, ast.Load()), node)
            elif isinstance(node, ast.Dict) and (pairs := self.list_pairs(found)):
                parts = {f"item {number}": self._settle(part) for number, (_, part) in enumerate(pairs)}
                parts |= {f"key {number}": self._settle(key) for number, (key, _) in enumerate(pairs)}
                keys: list[ast.expr | None] = [
                    key.node if is_text(key.node) else ast.Name(f"key {number}", ast.Load())
                    for number, (key, _) in enumerate(pairs)
                ]
                names = [ast.Name(f"item {number}", ast.Load()) for number in range(len(pairs))]
                made = ast.copy_location(ast.Dict(keys, names), node)
            elif isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call) and node not in self.settled:
                taken = dict[str, ast.expr]()
                made = take_apart(node, taken)
                parts = {name: self._settle(Traced(part, found.at)) for name, part in taken.items() if part is not node}
            if parts:
                kept = self.passed.setdefault((node, f"{len(parts)} items"), made)
                self.settled.add(kept)
                at = Surroundings(found.at.file, found.at.owner, found.at.outer, parts)
                at.depth = max(part.at.depth for values in parts.values() for part in values)
                found = found._replace(node=kept, at=at)
            settled.append(found)
        return settled or [value]

    def _list_validated(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find the objects that `Model.model_validate(values)` or `TypeAdapter(type).validate_python(values)` makes."""
        if get_last_name(node.func) not in VALIDATING or not isinstance(node.func, ast.Attribute) or not node.args:
            return
        for kind in self.trace(node.func.value, at):
            if isinstance(kind.node, ast.ClassDef):
                yield from self._list_made_of(node.func.value, Traced(node.args[0], at), at)
            elif isinstance(kind.node, ast.Call) and kind.node.args:
                yield from self._list_made_of(kind.node.args[0], Traced(node.args[0], at), at)

    def _list_made_of(self, kind: ast.expr, value: Traced, at: Surroundings) -> Iterator[Traced]:
        """Find the objects of a class, or the dict or list of them, that are made of the values of a dict."""
        held, made = "", kind
        if isinstance(kind, ast.Subscript):
            held, made = get_last_name(kind.value).lower(), kind.slice
            made = made.elts[-1] if isinstance(made, ast.Tuple) else made
        forms = {
            "": "{}(**values)",
            "dict": "{{key: {}(**part) for key, part in values.items()}}",
            "list": "[{}(**part) for part in values]",
        }
        if held in forms:
            key = (value.node, kind)
            if key not in self.passed:
                text = forms[held].format(ast.unparse(made))
                self.passed[key] = ast.parse(text, mode="eval").body
            given = {**at.given, "values": [value]}
            yield from self.trace(self.passed[key], Surroundings(at.file, at.owner, at.outer, given))

    def _list_parsed(self, base: Traced, name: str, value: Traced) -> Iterator[Traced]:
        """Find the objects that pydantic makes of a dict for a field whose type is a model, or holds one."""
        kind = self.enter(base.node.of, base.at).names.annotated.get(name)
        held = kind.slice if isinstance(kind, ast.Subscript) else kind
        held = held.elts[-1] if isinstance(held, ast.Tuple) else held
        if kind is None or not self._has_base(Traced(base.node.of, base.at), "BaseModel"):
            return
        known = self.trace(value.node, value.at)
        parts = [part for found in known for _, part in self.list_pairs(found)] or known
        if any(isinstance(found.node, Instance) for part in parts for found in self.trace(*part[:2])):
            return  # they are made already
        for found in self.trace(held, base.at):
            if isinstance(found.node, ast.ClassDef):
                yield from self._list_made_of(kind, value, base.at)

    def _make_name_pattern(self, found: Traced) -> str:
        """Make the pattern of the names that a text, an f-string or a sum may be; "" for another expression."""
        if is_text(found.node) or not isinstance(found.node, ast.JoinedStr | ast.BinOp):
            return re.escape(found.node.value) if is_text(found.node) else ""
        texts = []
        for part in list_summands(found.node):
            value = part.value if isinstance(part, ast.FormattedValue) else part
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
                value = value.func.value  # name.upper()
            known = [inner.node for inner in self.trace(value, found.at) if not isinstance(inner.node, Argument)]
            shown = [re.escape(inner.value) for inner in known if is_text(inner)]
            texts.append(f"(?i:{'|'.join(shown)})" if shown and len(shown) == len(known) else r"\w*")
        return "".join(texts) if set(texts) - {r"\w*"} else ""

    def _trace_default(self, value: ast.expr, at: Surroundings) -> Iterator[Traced]:
        for found in self.trace(value, at):
            if isinstance(found.node, Function):
                for returned in self.list_returned(found.node, found.at, {}, None, None):
                    yield from self.trace(returned.node, returned.at)
            else:
                yield found

    def _get_from_dict(self, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        assert isinstance(node.func, ast.Attribute)
        keys = self.list_keys(node.args[0], at) or [Traced(None, at)]
        known, missed = False, any(isinstance(found.node, Argument) for found in self.trace(node.args[0], at))
        for base in self._list_owners(node.func.value, node.args[0], at):
            for key in keys:
                items = list(self.get_items(base, None if key.node is None else read_key(key.node)))
                missed = missed or key.node is None or not items
                for part in items:
                    known = True
                    yield from self.trace(part.node, part.at, base.call or key.call)
        is_dict = not isinstance(node.args[0], ast.Tuple) or any(map(self.list_pairs, self.trace(node.func.value, at)))
        is_of_dict = known or (keys[0].node is not None and is_dict)  # else a store's, whose second argument is a key
        has_default = len(node.args) > 1 and is_of_dict and (missed or not known)
        if has_default:
            yield from self.trace(node.args[1], at)
        is_shown = all(isinstance(base.node, ast.Dict | ast.DictComp) for base in self.trace(node.func.value, at))
        if not known and not (has_default and is_shown):  # it may be another value than the default
            yield Traced(node, at)

    def _call(self, called: Traced, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find what a call of a function or class of the program returns."""
        target = called.node
        if isinstance(target, BoundMethod):
            yield from self._call_bound(target, called, node, at)
        elif isinstance(target, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from self._call_function(called, node, at, None)
        elif isinstance(target, ast.Call) and get_last_name(target.func) == "partial" and target.args:
            yield from self._call_partial(target, called, node, at)
        elif isinstance(target, Instance):
            for member in self.get_member(called, "__call__"):
                if isinstance(member.node, BoundMethod):
                    yield from self._call_bound(member.node, member, node, at)
        elif isinstance(target, ast.ClassDef) and self._is_enum(called):
            yield from self._pick_members(called, node, at)
        elif isinstance(target, ast.ClassDef) and any(self._has_base(of, "TypedDict") for of in self.list_mro(called)):
            yield from self._list_made_dicts(node, at)
        elif isinstance(target, ast.ClassDef):
            yield Traced(Instance(target, node, at) if at.depth < NESTED else Instance(target, None), called.at)

    def _list_replacing(self, function: Traced, call: ast.Call) -> list[Traced]:
        """List what a call of a function calls: what its decorators put in its place, and itself.

        What takes other arguments has them of the call, so that the function itself is not called by it.
        """
        made = [] if any(self.is_inside(call, owner) for owner in self._list_makers(function)) else [function]
        for decorator in reversed(getattr(function.node, "decorator_list", ()) if made else ()):
            made = [new for value in made for new in self.list_decorated(decorator, function.at, value)] or made
        others = [value for value in made if value.node is not function.node]
        own = list_parameters(function.node)
        is_taking = any(
            isinstance(value.node, ast.FunctionDef)
            and value.node.args.vararg is None
            and list_parameters(value.node) != own
            for value in others
        )
        return others if is_taking else [function, *others]

    def _list_makers(self, function: Traced) -> Iterator[Any]:
        """List the functions and classes of the program that decorate a function."""
        for decorator in getattr(function.node, "decorator_list", ()):
            for found in self.trace(decorator.func if isinstance(decorator, ast.Call) else decorator, function.at):
                yield found.function

    def list_decorated(self, decorator: ast.expr, at: Surroundings, function: Traced) -> Iterator[Traced]:
        """Find the functions and objects by which a decorator of the program replaces a function."""
        for maker in self.trace(decorator, at):
            node = maker.node
            if isinstance(node, ast.ClassDef):
                call = self.passed.setdefault(
                    (decorator, "made"), ast.Call(decorator, [ast.Name("decorated", ast.Load())], [])
                )
                where = Surroundings(at.file, at.owner, at.outer, {**at.given, "decorated": [function]})
                yield Traced(Instance(node, call, where), maker.at)  # type: ignore[arg-type]
                continue
            members = self.get_member(maker, "__call__") if isinstance(node, Instance) else [maker]
            for value in (value for member in members for value in self._return_decorated(member, function)):
                if isinstance(value.node, ast.FunctionDef | ast.AsyncFunctionDef | Instance):
                    yield value

    def _return_decorated(self, maker: Traced, function: Traced) -> Iterator[Traced]:
        """Find what a function or a method that is a decorator returns for a function."""
        made, owner = maker.node if isinstance(maker.node, BoundMethod) else (maker.node, None)
        if isinstance(made, ast.FunctionDef):
            is_method = owner is not None and not is_static(made)
            given = {name: [function] for name in list_positional(made)[is_method:][:1]}
            yield from self._trace_all(self.list_returned(made, maker.at, given, None, owner))

    def is_inside(self, node: Any, owner: Any) -> bool:
        """Whether a node is another or stands in it, as in a function."""
        while node is not None and node is not owner:
            node = self.parents.get(node)
        return node is not None

    def _collect_positional(self, function: Function, call: ast.Call, *, skip_first: bool) -> ast.Tuple:
        """The tuple that a call passes for `*rest`."""
        if (function, call) not in self.positional:
            own = max(0, len(list_positional(function)) - skip_first)
            self.positional[function, call] = ast.Tuple(call.args[own:], ast.Load())
        return self.positional[function, call]

    def _collect_rest(self, function: Function, call: ast.Call) -> ast.Dict:
        """The dict that a call passes for `**rest`."""
        if (function, call) not in self.rests:
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            own = {argument.arg for argument in arguments}
            rest = [keyword for keyword in call.keywords if keyword.arg not in own]
            keys: list[ast.expr | None] = [ast.Constant(part.arg) if part.arg else None for part in rest]
            self.rests[function, call] = ast.Dict(keys, [part.value for part in rest])
        return self.rests[function, call]

    def enter_called(
        self, function: Traced, call: ast.Call, at: Surroundings, *, skip_first: bool = False
    ) -> Surroundings | None:
        """Return the surroundings inside a function with the arguments of a call; None if it passes none."""
        given = self.list_passed(function.node, call, at, skip_first=skip_first)
        if is_complete(call):
            given = {**list_defaults(function.at.file.read_names(function.node), function.at), **given}
        inside = Surroundings(function.at.file, function.node, function.at, given)
        return inside if given and inside.depth <= NESTED else None

    def enter_partial(self, found: Traced, call: ast.Call, at: Surroundings) -> Surroundings | None:
        """Return the surroundings inside a function or a method with what `partial(function, ...)` passes."""
        function, owner = found.node if isinstance(found.node, BoundMethod) else (found.node, None)
        passed = self.passed.setdefault((call, ""), ast.Call(call.func, call.args[1:], call.keywords))
        own = give_first(function, owner) if owner is not None and not is_static(function) else {}
        given = self.list_passed(function, passed, at, skip_first=bool(own))  # type: ignore[arg-type]
        inside = Surroundings(found.at.file, function, found.at, {**own, **given})
        return inside if given and inside.depth <= NESTED else None

    def _call_partial(self, target: ast.Call, called: Traced, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        """Find what `partial(function, ...)(...)` returns."""
        first = ast.Call(target.func, target.args[1:], target.keywords)
        skipped: list[ast.expr] = [ast.Starred(part, ast.Load()) for part in first.args]
        second = ast.Call(node.func, [*skipped, *node.args], node.keywords)
        for inner in self.trace(target.args[0], called.at):
            function, owner = inner.node if isinstance(inner.node, BoundMethod) else (inner.node, None)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                skipped_first = owner is not None and not is_static(function)
                given = self.list_passed(function, first, called.at, skip_first=skipped_first)
                for name, values in self.list_passed(function, second, at, skip_first=skipped_first).items():
                    is_rest = function.args.kwarg is not None and name == function.args.kwarg.arg
                    given[name] = [*given[name], *values] if is_rest else values
                yield from self.list_returned(function, inner.at, given, node, owner)

    def _call_bound(self, target: BoundMethod, called: Traced, node: ast.Call, at: Surroundings) -> Iterator[Traced]:
        function, owner = target
        if is_classmethod(function) and function.name.startswith(("from_", "load", "create", "default", "make")):
            made_of = owner.node.of if isinstance(owner.node, Instance) else owner.node
            passed = self.list_passed(function, node, at, skip_first=True)
            returned = [*self._trace_all(self.list_returned(function, called.at, passed, node, owner))]
            made = [found for found in returned if isinstance(found.node, Instance) and self._is_known(found.node)]
            others = [found for found in returned if not isinstance(found.node, Instance) and not is_none(found.node)]
            yield from (*made, *others)
            if not made and not (others and all(isinstance(found.node, PLAIN) for found in returned)):
                yield Traced(Instance(made_of, None), owner.at)  # an object of which no more is known
            return
        yield from self._call_function(called._replace(node=function), node, at, owner)

    def _call_function(
        self, called: Traced, node: ast.Call, at: Surroundings, owner: Traced | None
    ) -> Iterator[Traced]:
        """Find what a call of a function, or of a method of an object, returns, and what its decorators make of it."""
        if {"contextmanager", "asynccontextmanager"} & set(list_decorators(called.node)):
            yield from self._enter_context(called, node, at, owner)
        skip_first = owner is not None and not is_static(called.node)
        for made in [] if is_wrapped(called.node) else self._list_replacing(called, node):
            if isinstance(made.node, Instance):
                yield from self._call(made, node, at) if owner is None else ()
            elif made.node is called.node or not skip_first or list_positional(made.node):
                given = self.list_passed(made.node, node, at, skip_first=skip_first)
                yield from self.list_returned(made.node, made.at, given, node, owner)

    def _enter_context(
        self, called: Traced, node: ast.Call, at: Surroundings, owner: Traced | None
    ) -> Iterator[Traced]:
        """Find what a function that `@contextmanager` decorates yields to `with`."""
        given = self.list_passed(called.node, node, at, skip_first=owner is not None and not is_static(called.node))
        for found in self.list_returned(called.node, called.at, given, node, owner):
            yield from (part for part in self.iterate(found) if isinstance(part, Traced))

    def _is_known(self, made: Instance) -> bool:
        """Whether the source shows all that an object is made of, a file or a dict with known keys by `**` too."""
        if made.call is not None and is_complete(made.call):
            return True
        rest = [part.value for part in made.call.keywords if part.arg is None] if made.call else []
        if not rest or made.made_in is None:
            return False
        pairs = (pair for found in self.trace(rest[0], made.made_in) for pair in self.list_pairs(found))
        keys = [found.node for key, _ in pairs for found in self.trace(*key[:2])]
        return bool(self.list_loaded(rest[0], made.made_in)) or (bool(keys) and all(map(is_text, keys)))

    def list_passed(
        self, function: Function, node: ast.Call, at: Surroundings, *, skip_first: bool = False
    ) -> dict[str, list[Traced]]:
        """List what a call passes for each argument of a function."""
        named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        named += filter(None, (function.args.vararg, function.args.kwarg))
        given = {}
        for argument in named:
            value = self._pick(function, argument.arg, node, at, skip_first=skip_first)
            if value is not None:
                given[argument.arg] = [value]
        return given

    def _pick(
        self, function: Function, name: str, call: ast.Call, at: Surroundings, *, skip_first: bool
    ) -> Traced | None:
        """Find what a call passes for an argument, by `*` of a tuple and `**` of a dict too."""
        value = pick_argument(function, name, call.args, call.keywords, skip_first=skip_first)
        if value is not None:
            return Traced(value, at)
        if not is_complete(call) and (found := self._pick_starred(function, name, call, at, skip_first=skip_first)):
            return found
        if function.args.vararg is not None and name == function.args.vararg.arg:
            return Traced(self._collect_positional(function, call, skip_first=skip_first), at)
        if function.args.kwarg is not None and name == function.args.kwarg.arg:
            return Traced(self._collect_rest(function, call), at)
        rest = self.open_keywords(call, at).get(name)
        return Traced(rest, at) if rest is not None else None

    def open_keywords(self, call: ast.Call, at: Surroundings) -> dict[str, ast.expr]:
        """Get the keyword arguments of a call by name, those too that `**` of a dict or of a file passes."""
        named = get_keywords(call)
        for rest in (keyword.value for keyword in call.keywords if keyword.arg is None):
            pairs = (pair for found in self.trace(rest, at) for pair in self.list_pairs(found))
            for key in (*self.list_loaded(rest, at), *(key.node.value for key, _ in pairs if is_text(key.node))):
                if key not in named:
                    named[key] = self.make_item(rest, key)
        return named

    def _pick_starred(
        self, function: Function, name: str, call: ast.Call, at: Surroundings, *, skip_first: bool
    ) -> Traced | None:
        """Find what a call passes for an argument by place, where `*` of a literal tuple comes before it."""
        named, given = list_positional(function)[1 if skip_first else 0 :], list[Traced]()
        for part in call.args if name in named else ():
            if not isinstance(part, ast.Starred):
                given.append(Traced(part, at))
                continue
            found = self.trace(part.value, at) if part in self.parents else []
            if len(found) != 1 or not isinstance(found[0].node, ast.Tuple):
                break
            given += [Traced(inner, found[0].at) for inner in found[0].node.elts]
        index = named.index(name) if name in named else len(given)
        return given[index] if index < len(given) and not isinstance(given[index].node, ast.Starred) else None

    def list_returned(
        self,
        function: Function,
        at: Surroundings,
        given: dict[str, list[Traced]],
        call: Any,
        owner: Traced | None,
    ) -> Iterator[Traced]:
        """Find what a function returns, for certain arguments."""
        names = at.file.read_names(function)
        own = give_first(function, owner) if owner is not None and not is_static(function) else {}
        given = {**own, **given}
        if isinstance(call, ast.Call) and is_complete(call):
            given = {**list_defaults(names, at), **given}
        for passed in (given, own, {}):  # of what is nested too deeply, the object is still known
            inside = Surroundings(at.file, function, at, passed) if passed else self.enter(function, at)
            if inside.depth <= NESTED:
                break
        for value in (value for value in names.returned if self.is_reached(value, inside)):
            yield Traced(value, self.enter_after_loops(inside, value.lineno) if given else inside)


OPENERS: dict[type, Any] = {
    ast.Name: Program._trace_name,
    ast.Attribute: Program._trace_attribute,
    ast.Subscript: Program._trace_subscript,
    ast.Call: Program._trace_call,
    ast.IfExp: Program._trace_parts,
    ast.BoolOp: Program._trace_parts,
    ast.BinOp: Program._trace_operation,
    ast.NamedExpr: Program._trace_parts,
    ast.Await: Program._trace_parts,
    ast.Starred: Program._trace_parts,
    Element: Program._trace_element,
    Argument: Program._trace_argument,
}
"""How an expression is opened, by its kind; the others stand for themselves."""
MEMBERS: dict[type, Any] = {
    Imported: Program._get_module_member,
    Outside: Program._get_outside_member,
    ast.ClassDef: Program._get_class_member,
    Instance: Program._get_instance_member,
    Argument: Program._get_argument_member,
    ast.Call: Program._get_runtime_member,
    ast.Subscript: Program._get_field_member,
    ast.FunctionDef: Program._get_function_member,
    ast.AsyncFunctionDef: Program._get_function_member,
}
"""How an attribute is found, by the kind of what has it."""


def open_program(module: str) -> tuple[Program, SourceFile]:
    """Find and read the program of a module, `my_app.graph`, or of a file, `my_app/graph.py`.

    Raises:
        ConfigError: there is no such file, or one of the program's is no valid Python.
    """
    path = Path(module) if module.endswith(".py") else _find_named(module)
    if path is None or not path.is_file():
        looked = f"{module} is looked for as {module.replace('.', '/')}.py" if not module.endswith(".py") else module
        if module.endswith(".ipynb"):
            way_out = f"write its code to a file by jupyter nbconvert --to script {module}, and name that"
            raise ConfigError(f"{module} is a notebook, which is not read: {way_out}")
        raise ConfigError(
            f"there is no file of {module!r}: {looked} below {Path.cwd()}; go to the program's folder, or name the "
            "file as my_app/graph.py:graph"
        )
    path = path.resolve()
    top = path.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    project = _find_project(top)
    between = [folder for folder in (path.parent, *path.parent.parents) if folder.is_relative_to(project)]
    parts = path.relative_to(top).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    named = [part for folder in between for part in _list_dependencies(folder)]
    program = Program([top, path.parent, *between, project / "src", *named], project)
    file = program.read_file(path, name)
    program.read_imported()
    return program, file


def _list_dependencies(folder: Path) -> Iterator[Path]:
    """List the folders that a `langgraph.json` has as dependencies, and where their packages are found."""
    try:
        named = json.loads((folder / "langgraph.json").read_text("utf-8"))["dependencies"]
        for part in (folder / name for name in named if name.startswith(".")):
            yield from (part, part / "src", *([part.parent] if (part / "__init__.py").is_file() else ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # there is none, or none that LangGraph takes


def _find_named(module: str) -> Path | None:
    outside = re.compile("|".join(map(re.escape, (*FOREIGN, sys.prefix, sys.base_prefix))))
    folders = [Path.cwd(), Path.cwd() / "src", *(Path(part) for part in sys.path if part and not outside.search(part))]
    found = (find_module_file(folder, module.split(".")) for folder in folders)
    return next((path for path in found if path is not None), None)


def _find_project(top: Path) -> Path:
    """Find the topmost folder of a project: the one with its configuration, else the working directory or `top`."""
    here = Path.cwd().resolve()
    for folder in (top, *top.parents):
        if any((folder / mark).exists() for mark in MARKS):
            return folder
        if folder == here:
            return folder
    return top
