"""The operations as tools, on private copies of the tables.

A desk is the copy of an agent's turn (its tool loop), so that only this agent sees its changes. A desk stores the calls
that changed tables, by their place in the loop (`solve#2.0` is the first call of the third reply). A call runs on fresh
tables after the earlier calls; if a resumed run repeats a call, the repetition replaces it. A desk is thus rebuilt by
running its calls again, so no journal replays these tools: see `rebuilds`.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.tools.workbench.calls import OperationCall, make_call
from selfwire.tools.workbench.operations import OPERATIONS
from selfwire.tools.workbench.tables import Operation, Tables

DESKS = 4096
"""Most desks in memory; the least recently used desk is dropped first."""

_PLACE = re.compile(r"#(\d+)\.(\d+)$")


class Desks:
    """The desks of all agents' turns; `tables` makes the tables at the start of every task."""

    def __init__(self, tables: Callable[[], Tables]) -> None:
        self._tables = tables
        self._changes: OrderedDict[str, dict[tuple[int, int], OperationCall]] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, call: OperationCall, scope: Scope) -> str:
        """Run a call after the earlier calls of the same turn; after a ToolError nothing has changed."""
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
    """An operation as a tool."""

    rebuilds = True
    """Whether the state is rebuilt by running calls again, so that a journal must not replay them."""

    def __init__(self, operation: Operation, desks: Desks) -> None:
        self._operation, self._desks = operation, desks

    @property
    def spec(self) -> ToolSpec:
        """Name, description and parameters for the model."""
        return self._operation.spec

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run the operation; after a change the result shows the call as answers list it. May raise ToolError."""
        call = make_call(self._operation.name, arguments)
        result = self._desks.run(call, scope)
        return f"{result}\nDone: {call}" if self._operation.changes else result


def make_desk_tools(tables: Callable[[], Tables]) -> Toolbox:
    """Make tools of all operations, which share their desks."""
    desks = Desks(tables)
    return {name: DeskTool(operation, desks) for name, operation in OPERATIONS.items()}
