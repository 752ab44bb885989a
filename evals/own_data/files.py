"""Rows of a data file, by its suffix."""

from collections.abc import Callable, Iterator
from pathlib import Path

from selfwire.evals.own_data.parquet import read_parquet
from selfwire.evals.own_data.rows import DataRow, read_csv, read_json, read_json_lines

READERS: dict[str, Callable[[Path], Iterator[DataRow]]] = {
    ".parquet": read_parquet,
    ".jsonl": read_json_lines,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
}
"""Readers by suffix; of a data set that has a split in several formats, the first is read."""
