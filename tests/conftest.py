import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

os.environ.setdefault("LANGSMITH_TRACING", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side; torch's threads would wait for each other

from tests.wire.server import WireServer, text

settings.register_profile("selfwire", deadline=None)  # machines are shared; time belongs into a benchmark
settings.load_profile("selfwire")


@pytest.fixture
def wire_server() -> Iterator[WireServer]:
    """A local OpenAI-compatible server that says "hello"; set `answer` and `faults` as needed."""
    with WireServer(text("hello")) as server:
        yield server
