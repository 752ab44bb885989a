"""Rows of Parquet files, read by DuckDB (the extra `data`)."""

import glob
import math
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from selfwire.core.errors import ConfigError
from selfwire.evals.own_data.rows import DataRow, check_size, make_row
from selfwire.runtime.provider_errors import Caught

INSTALL = "pip install 'selfwire[data]'"
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",  # what a file asks for is not fetched
    "autoload_known_extensions": "false",
}
_AT_ONCE = 1000


def read_parquet(path: Path) -> Iterator[DataRow]:
    """Rows in the order of the file, some at a time.

    Raises:
        ConfigError: the extra `data` is not installed, or the file cannot be read.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigError(f"{path}: Parquet files need the extra 'data': {INSTALL}; or save it as JSONL") from None
    check_size(path)
    number = 0
    with Caught() as caught, duckdb.connect(config=_SETTINGS) as database:  # damage raises errors of several families
        found = database.execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [glob.escape(str(path))])
        names = [column[0] for column in found.description or ()]
        while rows := found.fetchmany(_AT_ONCE):
            for cells in rows:
                number += 1
                values = {name: to_json_value(cell) for name, cell in zip(names, cells, strict=True)}
                yield make_row(path, "row", number, values)
    if caught.error:
        after = f"damaged after row {number}" if number else "not Parquet, or damaged"
        raise ConfigError(f"{path}: {after} ({str(caught.error).partition(chr(10))[0]})") from None


def to_json_value(value: object) -> Any:
    """A value as JSON has it, where it has it: dates and decimals are texts, and what is no number is None."""
    if isinstance(value, dict):
        return {str(name): to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # NaN is how tables write that nothing is there
    return str(value) if isinstance(value, Decimal | datetime | date | time | timedelta | UUID) else value
