"""Ways to spoil the SQLite file of a journal or a library."""

import sqlite3
from contextlib import closing
from pathlib import Path


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def scribble(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


def make_newer(path: Path) -> None:
    execute(path, "PRAGMA user_version = 99")


def make_foreign(path: Path) -> None:
    execute(path, "CREATE TABLE songs (title TEXT)")
