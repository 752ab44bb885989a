"""SQL for agents: reads a SQLite file, which cannot be changed."""

import asyncio
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.scope import Scope
from selfwire.tools.search import get_text, make_text_schema
from selfwire.tools.worker_pool import WorkerPool, ask_for_agent

LONGEST = 4000
"""Most characters of a statement."""


class SqlTool:
    """A tool that runs a SELECT statement on a SQLite file, read-only, in a process of its own.

    Args:
        path: the file; its tables and columns are part of the tool's description.

    Raises:
        ConfigError: there is no such file, or it is not a database.
    """

    def __init__(self, path: Path | str, name: str = "sql") -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise ConfigError(f"there is no file {str(path)!r}; give the path of a SQLite file")
        try:
            tables = self._ask()
        except ToolError as error:
            raise ConfigError(f"{path} cannot be read as a SQLite file: {error}") from None
        self.spec = ToolSpec(
            name=name,
            description=f"Run one SELECT statement on a SQLite database and return its rows. Tables:\n{tables}",
            parameters=make_text_schema("statement", "The statement, in SQLite's SQL."),
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run a statement and return the rows as JSON lines; ToolError if it is no SELECT, or takes too long."""
        statement = get_text(arguments, "statement", self.spec.name, "statement")
        if len(statement) > LONGEST:
            raise ToolError(f"the statement has {len(statement)} characters; at most {LONGEST} are read")
        return await asyncio.to_thread(self._ask, statement=statement)

    def _ask(self, **asked: str) -> str:
        return ask_for_agent(_get_pool(), {"path": str(self.path), **asked}, "statement", "ask for less")


@cache
def _get_pool() -> WorkerPool:
    return WorkerPool("selfwire.tools.sql_worker", seconds=5, patience=60)
