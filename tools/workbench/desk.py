"""The operations as tools, on private copies of the tables.

A desk belongs to one turn of one agent: its tool loop, from the first call to the last. The agent sees its own changes
and nobody else does, so agents that work side by side never race, and the same calls always find the same tables. A
desk stores only the calls that changed something, by their place in the loop (`solve#2.0` is the first call of the
third reply). A call runs on fresh tables after the calls before it. If it comes again, because a run was resumed, it
replaces its first time. So a desk is rebuilt by running its calls again, and no journal replays these tools: see
`rebuilds`.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.tools.workbench.calls import OPERATIONS, Call, make_call
from selfwire.tools.workbench.tables import Operation, Tables

DESKS = 4096
"""Most desks in memory; the least recently used one goes first."""

_PLACE = re.compile(r"#(\d+)\.(\d+)$")


class Desks:
    """The changes of agents, by turn.

    Args:
        tables: makes the tables at the start of every request.
    """

    def __init__(self, tables: Callable[[], Tables]) -> None:
        self._tables = tables
        self._changes: OrderedDict[str, dict[tuple[int, int], Call]] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, call: Call, scope: Scope) -> str:
        """Run a call after the earlier ones of the same turn.

        Raises:
            ToolError: it is refused; then nothing has changed.
        """
        found = _PLACE.search(scope.node)
        place = (int(found[1]), int(found[2])) if found else (0, 0)
        desk = scope.at(node=_PLACE.sub("", scope.node)).key
        with self._lock:
            before = {at: done for at, done in self._changes.get(desk, {}).items() if at < place}
            tables = self._tables().copy()
            for at in sorted(before):
                before[at].run(tables)
            result = call.run(tables)
            if OPERATIONS[call.name].changes:
                before[place] = call
            self._changes[desk] = before
            self._changes.move_to_end(desk)
            while len(self._changes) > DESKS:
                self._changes.popitem(last=False)
        return result


class DeskTool:
    """One operation as a tool.

    Args:
        operation: the operation.
        desks: where it runs.
    """

    rebuilds = True
    """Its state is rebuilt by running its calls again, so a journal must not replay them."""

    def __init__(self, operation: Operation, desks: Desks) -> None:
        self._operation, self._desks = operation, desks

    @property
    def spec(self) -> ToolSpec:
        """Name, description and parameters for the model."""
        return self._operation.spec

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """The operation's result; after a change, also the call in the form that answers list.

        Raises:
            ToolError: the input is refused.
        """
        call = make_call(self._operation.name, arguments)
        result = self._desks.run(call, scope)
        return f"{result}\nDone: {call}" if self._operation.changes else result


def make_desk_tools(tables: Callable[[], Tables]) -> Toolbox:
    """All operations as tools that share their desks."""
    desks = Desks(tables)
    return {name: DeskTool(operation, desks) for name, operation in OPERATIONS.items()}
