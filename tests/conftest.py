import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

os.environ.setdefault("LANGSMITH_TRACING", "false")

from tests import benchmark_data
from tests.wire.server import WireServer, text

benchmark_data.point_at_it()
settings.register_profile("selfwire", deadline=None)  # machines are shared; time belongs into a benchmark
settings.load_profile("selfwire")


@pytest.fixture
def wire_server() -> Iterator[WireServer]:
    """A local OpenAI-compatible server that says "hello"; set `answer` and `faults` as needed."""
    with WireServer(text("hello")) as server:
        yield server
