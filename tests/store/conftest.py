from collections.abc import Iterator
from pathlib import Path

import pytest

from selfwire.store.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    opened = Journal.create(path, run="r")
    yield opened
    opened.close()
