import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.tools import sql
from selfwire.tools.sql import SqlTool
from selfwire.tools.worker_pool import WorkerPool

COUNTING = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "the sales%20?.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE sales (day TEXT, amount INTEGER, note BLOB)")
        rows = [(f"day {number}", number, b"x" * number) for number in range(100)]
        database.executemany("INSERT INTO sales VALUES (?, ?, ?)", rows)
        database.execute("CREATE VIEW big AS SELECT * FROM sales WHERE amount > 90")
        database.commit()
    return path


async def ask(file: Path, statement: str) -> str:
    tool: Tool = SqlTool(file)
    return await tool.run({"statement": statement}, scope=Scope())


async def test_rows_are_read_and_the_tables_are_told(file: Path) -> None:
    description = SqlTool(file).spec.description
    assert "sales(day TEXT, amount INTEGER, note BLOB)" in description
    assert "big(day TEXT, amount INTEGER, note BLOB)" in description
    assert await ask(file, "SELECT day, amount AS n, note FROM sales WHERE amount = 7") == (
        '["day", "n", "note"]\n["day 7", 7, "<7 bytes>"]'
    )
    assert await ask(file, "SELECT count(*) FROM big") == '["count(*)"]\n[9]'
    assert await ask(file, "SELECT * FROM sales WHERE amount < 0") == "No row matches."
    assert (await ask(file, "SELECT * FROM sales")).endswith("Only the first 50 rows are shown.")
    assert "[cut off]" in await ask(file, "SELECT hex(zeroblob(5000))")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE sales", "not authorized|authorization"),
        ("INSERT INTO sales VALUES ('', 1, '')", "not authorized"),
        ("UPDATE sales SET amount = 0", "not authorized"),
        ("ATTACH '/etc/passwd' AS other", "not authorized"),
        ("PRAGMA query_only = 0", "not authorized"),
        ("VACUUM INTO '/tmp/copy'", "authorization denied|not authorized"),
        ("BEGIN EXCLUSIVE", "not authorized"),
        ("SELECT load_extension('/tmp/x.so')", "not authorized"),
        ("SELECT 1; DROP TABLE sales", "one statement"),
        ("SELEC 1", "syntax error"),
        ("SELECT a FROM nowhere", "no such table"),
        ("SELECT zeroblob(1000000000)", "too big"),
        ("SELECT '" + "x" * 4000 + "'", "at most 4000 are read"),
        ("", "needs an object"),
        ("\0", "null|syntax|unrecognized|one statement"),
    ],
)
def test_all_but_reading_is_refused_and_the_file_stays(file: Path, statement: str, message: str) -> None:
    before = file.read_bytes()
    with pytest.raises(ToolError, match=message):
        asyncio.run(ask(file, statement))
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="processor time is not bounded there")
@pytest.mark.parametrize(
    "statement", [f"{COUNTING} SELECT count(*) FROM c", f"{COUNTING} SELECT hex(randomblob(1000000)) FROM c ORDER BY 1"]
)
async def test_what_runs_for_ever_or_holds_too_much_is_stopped(
    file: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = WorkerPool("selfwire.tools.sql_worker", seconds=1, patience=60)
    monkeypatch.setattr(sql, "_get_pool", lambda: pool)
    with pytest.raises(ToolError, match=r"more than 1 seconds to compute|disk I/O error|memory"):
        await ask(file, statement)
    assert await ask(file, "SELECT 1") == '["1"]\n[1]'


def test_a_file_with_a_write_ahead_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("CREATE TABLE t (a)")
        database.commit()
    path.chmod(0o400)
    assert "t(a)" in SqlTool(path).spec.description
    assert [one.name for one in tmp_path.iterdir()] == ["log.sqlite"]


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(ConfigError, match="cannot be read as a SQLite file"):
        SqlTool(tmp_path / "text")
    with pytest.raises(ConfigError, match="there is no file"):
        SqlTool(tmp_path / "nothing")
