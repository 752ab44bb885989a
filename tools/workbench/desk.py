"""The operations as agents' tools, on tables that each agent has to itself while it works.

A desk is one turn of one agent: its tool loop, from the first call to the last. What it changes it sees itself,
and nobody else does: agents that work side by side never race, and the same calls always find the same tables.
A desk keeps only the calls that changed something, by their place in the loop (`solve#2.0` is the first call of
the third reply). A call is run on fresh tables after those before it; one that comes again, because a run went on
after a stop, takes the place of its first time. So a desk is rebuilt by running the calls again, and these tools
are not replayed from a journal: see `rebuilds`.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.tools.workbench.calls import OPERATIONS, Call, call
from selfwire.tools.workbench.tables import Operation, Tables

DESKS = 4096
"""Desks that are remembered; the one that was left longest ago goes first."""

_PLACE = re.compile(r"#(\d+)\.(\d+)$")


class Desks:
    """The changes that agents have made, by their turn.

    Args:
        tables: makes the tables as every request finds them.
    """

    def __init__(self, tables: Callable[[], Tables]) -> None:
        self._tables = tables
        self._changes: OrderedDict[str, dict[tuple[int, int], Call]] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, wish: Call, scope: Scope) -> str:
        """Run a call after those that the same turn has made before it.

        Raises:
            ToolError: it is refused; nothing was changed then.
        """
        found = _PLACE.search(scope.node)
        place = (int(found[1]), int(found[2])) if found else (0, 0)
        desk = scope.at(node=_PLACE.sub("", scope.node)).key
        with self._lock:
            before = {at: done for at, done in self._changes.get(desk, {}).items() if at < place}
            tables = self._tables().copy()
            for at in sorted(before):
                before[at].run(tables)
            told = wish.run(tables)
            if OPERATIONS[wish.name].changes:
                before[place] = wish
            self._changes[desk] = before
            self._changes.move_to_end(desk)
            while len(self._changes) > DESKS:
                self._changes.popitem(last=False)
        return told


class DeskTool:
    """One operation as a tool.

    Args:
        operation: what it does.
        desks: where it is done.
    """

    rebuilds = True
    """Its state is rebuilt by running its calls again, so no journal may replay them."""

    def __init__(self, operation: Operation, desks: Desks) -> None:
        self._operation, self._desks = operation, desks

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return self._operation.spec

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """What the operation tells; after a change, also the call as answers name it.

        Raises:
            ToolError: the input is refused.
        """
        wish = call(self._operation.name, arguments)
        told = self._desks.run(wish, scope)
        return f"{told}\nDone: {wish}" if self._operation.changes else told


def desk_tools(tables: Callable[[], Tables]) -> Toolbox:
    """All operations as tools that share their desks."""
    desks = Desks(tables)
    return {name: DeskTool(operation, desks) for name, operation in OPERATIONS.items()}
