"""Files that somebody else wrote or damaged: a library, a journal, weights, exports and cached embeddings."""

import json
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage
from selfwire.core.errors import JournalError, LibraryError, SelfwireError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology
from selfwire.evolvers.router.weights import unpack_weights
from selfwire.extras.offline.model import OfflineChat
from selfwire.models.embeddings import CachedEmbedder, HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store import files
from selfwire.store.files import read_team, write_team
from selfwire.store.journal import Journal
from selfwire.store.library import Library, open_library
from tests.chaos import DAMAGES
from tests.store.spoiled import execute

DEEP = "[" * 5000 + "]" * 5000
TEXTS = ("null", "1", '"x"', "[]", "{}", "NaN", "1e999", '{"schema": 1}', "no JSON", "", DEEP, '"\\ud800"')
VALUES: tuple[Any, ...] = (None, -1, 1e308, "", "\x1b[31m", [1], {"a": 1}, "../../x", "\ud800", 10**400, float("nan"))
Use = Callable[[Library], Awaitable[object]]
USES: tuple[Use, ...] = (
    lambda library: library.names(),
    lambda library: library.history("n"),
    lambda library: library.load("n"),
    lambda library: library.load("n@t"),
    lambda library: library.rollback("n", "r.1"),
)


def place(value: Any) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside a JSON value."""
    yield ()
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for rest in place(one):
            yield (key, *rest)


def put(value: Any, way: tuple[str | int, ...], other: Any) -> Any:
    if not way:
        return other
    copy = value.copy()
    copy[way[0]] = put(value[way[0]], way[1:], other)
    return copy


def damaged(text: str, rng: random.Random) -> str:
    """A JSON text with another value somewhere, or another text."""
    if rng.random() < 0.2:
        return rng.choice(TEXTS)
    value = json.loads(text)
    return json.dumps(put(value, rng.choice([*place(value)]), rng.choice(VALUES)))


def workflows() -> tuple[Team, Team]:
    a, b = Agent(id="a", prompt="p"), Agent(id="b", prompt="q")
    one = Team(method="hiva", agents=(a,), topology=Topology(nodes=(Node(id="a", agent="a"),), entry="a", sink="a"))
    nodes = (Node(id="a", agent="a"), Node(id="b", agent="b"))
    both = Topology(nodes=nodes, edges=(Edge(source="a", target="b"),), entry="a", sink="b")
    memory = {"router": {"weights": files.put_blob(b"weights")}, "x": [1]}
    two = Team(method="hiva", agents=(a, b), topology=both, memory=memory).with_lineage(one, ())
    return one, two


async def test_a_library_with_a_damaged_entry_is_refused_in_words(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        for step, team in enumerate(workflows(), 1):
            await library.save("n", team, run="r", step=step)
        await library.tag("n", "r.1", "t")
        await library.rollback("n", "r.1")
        await library.rollback("n", "r.2")
    file, rng, refused = tmp_path / "library.sqlite", random.Random(14), 0
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        rows = connection.execute("SELECT prefix, key, value FROM store").fetchall()
        replace = "UPDATE store SET value = ? WHERE prefix = ? AND key = ?"
        for _ in range(DAMAGES):
            prefix, key, text = rng.choice(rows)
            connection.execute(replace, (damaged(text, rng), prefix, key))
            files._kept.clear()
            with open_library(tmp_path) as library:
                refused += sum([await is_refused(use(library)) for use in USES])
            connection.execute("BEGIN")
            connection.execute("DELETE FROM store")
            connection.executemany("INSERT INTO store (prefix, key, value) VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
    assert refused > DAMAGES


@pytest.mark.parametrize(
    "facts",
    [
        "x",
        [1],
        {"applied": ["x"]},
        {"applied": 5},
        {"gate": "x"},
        {"notes": [1]},
        {"spend": {"calls": "x"}},
        {"score": "1"},
    ],
)
async def test_a_version_with_facts_of_another_form_is_refused_in_words(tmp_path: Path, facts: Any) -> None:
    with open_library(tmp_path) as library:
        await library.save("n", workflows()[0], run="r", step=1)
    stored = f"json_set(value, '$.version.facts', json('{json.dumps(facts)}'))"
    execute(tmp_path / "library.sqlite", f"UPDATE store SET value = {stored} WHERE value ->> '$.version' IS NOT NULL")
    with open_library(tmp_path) as library, pytest.raises(LibraryError, match=r"^version 'r\.1' in .* is corrupt: "):
        await library.history("n")


VIRTUAL = "INSERT INTO sqlite_master VALUES ('table', 'more', 'more', 0, 'CREATE VIRTUAL TABLE more USING fts5(x)')"


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("view", "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n"),
        ("trigger", "CREATE TRIGGER more AFTER INSERT ON store BEGIN DELETE FROM store; END"),
        ("table", f"PRAGMA writable_schema = ON; {VIRTUAL}"),
        ("column", "ALTER TABLE store ADD COLUMN more AS (hex(zeroblob(400000000)))"),
    ],
)
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_library_that_computes_is_refused(tmp_path: Path, kind: str, statement: str, *, snapshot: bool) -> None:
    open_library(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "library.sqlite", isolation_level=None)) as connection:
        connection.executescript(statement)
    with pytest.raises(LibraryError, match=f"its {kind} 'more' is none of selfwire's"):
        open_library(tmp_path, snapshot=snapshot)


async def is_refused(use: Awaitable[object]) -> bool:
    try:
        await use
    except SelfwireError:
        return True
    return False


async def asked(journal: Journal) -> str:
    model = MeteredModel(OfflineChat(), journal=journal)
    return (await model.generate([ChatMessage.user("Who?")], scope=Scope(run="r"))).content


@pytest.mark.parametrize("column", ["reply", "calls", "seconds"])
@pytest.mark.parametrize("value", ["'no JSON'", "'[]'", "'{\"text\": 3}'", "x'ff00'", "-1", f"'{DEEP}'"])
async def test_a_journal_with_a_damaged_row_is_refused_in_words(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal.create(path, run="r")
    await asked(journal)
    journal.close()
    execute(path, f"UPDATE calls SET {column} = {value}")
    with pytest.raises(JournalError, match="damaged"):
        await asked(Journal.open(path))


def test_weights_of_any_bytes_are_refused_in_words() -> None:
    rng = random.Random(14)
    card = {"schema_number": 1, "head": {}, "updates": 1}
    for _ in range(DAMAGES):
        header = {"__metadata__": {"selfwire": damaged(json.dumps(card), rng)}, "w": {"dtype": "F32"}}
        text = damaged(json.dumps(header), rng).encode(errors="replace")
        size = rng.choice([len(text), 0, 2**63, 7])
        with pytest.raises(SelfwireError, match="weights here"):
            unpack_weights(size.to_bytes(8, "little") + text + rng.randbytes(rng.choice([0, 4, 64])), "here")


def test_an_export_of_any_text_is_refused_in_words(tmp_path: Path) -> None:
    rng, file = random.Random(14), tmp_path / "n.json"
    write_team(workflows()[1], file)
    text = file.read_text()
    for _ in range(DAMAGES):
        file.write_text(damaged(text, rng), errors="replace")
        with suppress(SelfwireError):
            assert read_team(file).topology.problems is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 384), }".ljust(118),
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '|O', 'fortran_order': False, 'shape': (64,), }".ljust(117)
        + b"\ncos\n",
        b"\x93NUMPY\x01\x00\x10\x00((((((((((((((((",
    ],
)
async def test_cached_embeddings_that_are_none_are_computed_again(tmp_path: Path, content: bytes) -> None:
    embedder, texts = CachedEmbedder(HashingEmbedder(), tmp_path), [f"text {n}" for n in range(64)]
    rows = await embedder.embed(texts)
    [file] = tmp_path.iterdir()  # noqa: ASYNC240
    assert (await embedder.embed(texts) == rows).all()
    file.write_bytes(content)
    again = await embedder.embed(texts)
    assert np.array_equal(again, rows)
    assert np.load(file).shape == rows.shape
