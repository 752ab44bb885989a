"""Edits of a program's source that have the model of a prompt be another one, where its literal says the name.

A model is made by a call, such as `ChatOpenAI(model="...")`, or is a text that an agent gets in its place. Its name is
written anew where no other prompt, node, router or tool asks the same model. Where others do, a copy of the statement
that makes it stands below it, and the prompt's node or agent names the copy.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.code import walk_code
from selfwire.extras.adopt.edge_patch import SourceEdit, find_span, list_names, list_words, write_at
from selfwire.extras.adopt.kinds import find_kinds
from selfwire.extras.adopt.layer import list_texts
from selfwire.extras.adopt.makers import MODELS
from selfwire.extras.adopt.names import Surroundings, Traced
from selfwire.extras.adopt.reader import allow_depth, list_users, read_graphs
from selfwire.extras.adopt.syntax import get_keywords, get_last_name, is_text, show_path
from selfwire.graphs.insertions import GraphEdits
from selfwire.models.text_layer import LayerText

NAMING = (ast.Name, ast.Attribute, ast.Call)
"""Expressions that may be a model."""


class ModelEdit(NamedTuple):
    """The edit that has a prompt ask another model.

    Attributes:
        prompt: its name.
        place: file and line where the name of the model stands.
        edits: of the source; the same for prompts that share a model and its new name.
        field: of the graph's context whose default it is; "" if it is none's.
        name: of the model, as it is written there.
    """

    prompt: str
    place: str
    edits: tuple[SourceEdit, ...]
    field: str
    name: str


def list_model_edits(target: str, models: Mapping[str, str], edges: GraphEdits = GraphEdits()) -> list[ModelEdit]:
    """List the edits that have prompts ask other models.

    Args:
        target: the graph, as `my_app.graph:graph`.
        models: "provider:model" by the names of prompts.
        edges: the edits of the team to the edges of the graph.

    Raises:
        ConfigError: the source does not show by one literal which model a prompt asks, or others ask it by a name that
            cannot be told apart; the message has the line where the model is made, and what to write.
    """
    with allow_depth(target):
        return [*ModelFinder(target, models, edges).list_edits()] if models else []


class ModelFinder:
    """Finds where the models of prompts are made."""

    def __init__(self, target: str, models: Mapping[str, str], edges: GraphEdits) -> None:
        self.target, self.models, self.graphs = target, models, read_graphs(target)
        gone = {name for removal in edges.removals for name in removal.agents}
        self.prompts = [text for text in list_texts(target) if text.is_prompt and text.name not in gone]
        self.beside = {f"node {found.beside}": found.agent for found, _ in edges.specialists}
        self.behind = {f"node {found.after}" for found, _ in edges.inserted}
        self.made, self.read = dict[Any, Traced](), set[ast.AST]()
        self.named = list[tuple[ast.Name, Surroundings, frozenset[str], frozenset[Any]]]()
        self.asked = self._list_asked({f"node {removal.node}" for removal in edges.removals})
        self.fields = self.graphs.find_context_fields()

    def list_edits(self) -> Iterator[ModelEdit]:
        """List the edits, and refuse what cannot be written."""
        if gone := sorted(self.models.keys() - {text.name for text in self.prompts}):
            raise ConfigError(
                f"the source of {self.target!r} has no prompt {gone[0]!r} any more; evolve the graph anew"
            )
        for text in self.prompts:
            if model := self.models.get(text.name):
                made = self._list_made(text)
                if len(made) != 1:
                    which = ", ".join(sorted({self._show_place(node) for node in made})) or "no line of it"
                    raise ConfigError(
                        f"{text.place} {text.name!r} asks {model}, and the source does not show by one literal what it "
                        f"has asked before ({which}); choose {model} there by hand"
                    )
                yield self._write(text, made[0], model)

    def _list_asked(self, gone: Collection[str]) -> dict[str, dict[Any, None]]:
        """List the models that nodes, routers, agents and tools name, by what makes them."""
        asked = dict[str, dict[Any, None]]()
        users, order = list_users(self.graphs)
        agents = {draft.code: draft for draft in self.graphs.makers.list_agents()}
        for code, labels in users.items():
            walked = walk_code(code, self.graphs.program)
            parts: list[tuple[ast.AST, Surroundings]] = [(part, at) for part, at in walked if isinstance(part, NAMING)]
            if code in agents and (model := agents[code].model) is not None:
                parts.append((model, agents[code].at.at))
            self.read |= {node for node, _ in parts}
            found = dict[Any, None]()
            for node, at in parts:
                made = dict.fromkeys(self._find_made(node, at))
                found |= made
                if isinstance(node, ast.Name) and made:
                    self.named.append((node, at, frozenset(labels), frozenset(made)))
            for label in {*labels} - {*gone}:
                asked.setdefault(label, {}).update(found)
        return {label: asked[label] for label in order if label in asked}

    def _find_made(self, node: Any, at: Surroundings) -> Iterator[Any]:
        """Find what makes the models that an expression may be."""
        program = self.graphs.program
        for kind, found in find_kinds(program, node, at):
            if kind == "model" or (is_text(found.node) and found.node in self.graphs.makers.models):
                self.made.setdefault(found.node, found)
                yield found.node

    def _list_elsewhere(self, made: Any) -> Iterator[str]:
        """List the lines where a model is named for another use than that of nodes, agents and tools that are read."""
        program = self.graphs.program
        for file in program.files.values():
            for node in file.nodes:
                if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node in self.read:
                    continue
                at, statement = program.find_surroundings(node, file.top), program.parents.get(node)
                if made not in self._find_made(node, at):
                    continue
                while isinstance(statement, ast.expr | ast.keyword):
                    statement = program.parents.get(statement)
                value = getattr(statement, "value", None) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
                if value is None or made not in self._find_made(value, at):  # else it is the same model by another name
                    yield f"{show_path(file.path)}:{node.lineno}"

    def _list_made(self, text: LayerText) -> Sequence[Any]:
        """List the models with which a prompt may be sent: those of its agent, else those of all that use it."""
        agents = [user for user in text.users if user.startswith("agent ")]
        users = agents if len(agents) == 1 else text.users
        return [*dict.fromkeys(node for user in users for node in self.asked.get(user, ()))]

    def _write(self, text: LayerText, made: Any, model: str) -> ModelEdit:
        """Write the name of another model where the model of a prompt is made.

        Raises:
            ConfigError: others ask it too, or its name is no literal there.
        """
        same = [other for other in self.prompts if self.models.get(other.name) == model]
        users = {user for other in same if made in self._list_made(other) for user in other.users}
        others = [f"prompt {o.name!r}" for o in self.prompts if o not in same and made in self._list_made(o)]
        others += [label for label, found in self.asked.items() if made in found and label not in users]
        others += [f"agent {self.beside[label]!r}" for label in self.beside if made in self.asked.get(label, ())]
        others += self._list_elsewhere(made)
        found = self.made[made]
        value, named = self._find_name(found), get_keywords(made) if isinstance(made, ast.Call) else {}
        maker = "" if is_text(made) else get_last_name(made.func)
        has_provider = not maker or (maker == "init_chat_model" and "model_provider" not in named)
        name = model if has_provider else model.partition(":")[2]
        place = self._show_place(made)
        if others and value is not None and (split := self._copy(text, found, value, name)):
            return ModelEdit(text.name, place, split, "", name)
        if others:
            raise ConfigError(
                f"{place} makes the model that {text.name!r} asks, and {others[0]} asks it too; give {text.name!r} one "
                f"of its own: {_show_copy(made, name)}"
            )
        if value is None or not is_text(value.node):
            raise ConfigError(
                f"{place} makes the model that {text.name!r} asks, and its name is no literal; write {name!r}"
            )
        edit = write_at(value, *find_span(value, value.node), _quote(value, name))
        return ModelEdit(text.name, self._show_place(value.node, value), (edit,), self.fields.get(value.node, ""), name)

    def _copy(self, text: LayerText, made: Traced, value: Traced, name: str) -> tuple[SourceEdit, ...]:
        """Write a copy of the statement that makes a model, which a prompt's node or agent alone asks.

        Returns:
            () if the statement is no `NAME = ...` of a module, or others ask the model by the same words, as does an
            agent that is inserted behind the node.
        """
        statement, file = self.graphs.program.parents.get(made.node), made.at.file
        is_inside = any(part is value.node for part in ast.walk(made.node))
        if not isinstance(statement, ast.Assign) or statement not in file.tree.body or not is_inside:
            return ()
        target, agents = statement.targets[0], [user for user in text.users if user.startswith("agent ")]
        own = {*(agents if len(agents) == 1 else text.users)}
        used = [found for found in self.named if made.node in found[3] and own & found[2]]
        shared = [other for other in self.prompts if other is not text and own & {*other.users}]
        joined = any(label in self.beside or label in self.behind for label in text.users)
        joined |= any(agents and made.node in self.asked.get(label, ()) for label in self.behind)
        is_apart = len(own) == 1 and not shared and not joined and bool(used)
        if not is_apart or len(statement.targets) > 1 or not isinstance(target, ast.Name):
            return ()
        wanted, users = (target.id, file, frozenset({made.node})), {*text.users}
        if not all((node.id, at.file, models) == wanted and labels <= users for node, at, labels, models in used):
            return ()
        words = list_words(self.graphs.program)
        copied = next(name for name in list_names(f"{text.name}_{target.id}", "model") if name not in words)
        begin, end = find_span(made, statement)
        first, last = (offset - begin for offset in find_span(value, value.node))
        source = file.text[begin:end]
        written = copied + source[len(target.id) : first] + _quote(value, name) + source[last:]
        line = (file.text.find("\n", end) + 1) or len(file.text)
        asked = (Traced(node, at) for node, at, _, _ in used)
        names = dict.fromkeys(write_at(found, *find_span(found, found.node), copied) for found in asked)
        return write_at(made, line, line, f"{written}\n"), *names

    def _find_name(self, made: Traced) -> Traced | None:
        """Find the literal that is the name of a model, in the call that makes it or as the default of a setting."""
        if is_text(made.node):
            is_direct = isinstance(self.graphs.program.parents.get(made.node), ast.Call | ast.keyword)
            return made if is_direct or made.node in self.fields else None
        given = _list_names(made.node)
        if len(given) != 1:
            return None
        if is_text(given[0]):
            return Traced(given[0], made.at)
        traced = self.graphs.program.trace(given[0], made.at)
        return traced[0] if len(traced) == 1 and traced[0].node in self.fields else None

    def _show_place(self, node: Any, found: Traced | None = None) -> str:
        found = found or self.made[node]
        return f"{show_path(found.at.file.path)}:{node.lineno}"


def _list_names(call: ast.Call) -> list[ast.expr]:
    """List what a call that makes a model takes as its name."""
    given = [keyword.value for keyword in call.keywords if keyword.arg in MODELS]
    return given or (call.args[:1] if get_last_name(call.func) == "init_chat_model" else [])


def _show_copy(made: Any, name: str) -> str:
    """Show the call that makes a model, with another name in it."""
    if is_text(made):
        return repr(name)
    call, value = deepcopy(made), ast.Constant(name)
    for keyword in call.keywords:
        keyword.value = value if keyword.arg in MODELS else keyword.value
    rest = next((keyword for keyword in call.keywords if keyword.arg is None), None)
    if not _list_names(made) and rest is not None:  # which may have the name
        rest.value = ast.Dict([None, ast.Constant("model")], [rest.value, value])
    elif not _list_names(made):
        call.keywords.append(ast.keyword("model", value))
    elif value not in [keyword.value for keyword in call.keywords]:
        call.args[0] = value
    return ast.unparse(call)


def _quote(old: Traced, name: str) -> str:
    """Write a name in the quotes of the literal whose place it takes."""
    return repr(name) if old.at.file.text[find_span(old, old.node)[0]] == "'" else f'"{name}"'
