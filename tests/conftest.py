import gc
import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

os.environ.setdefault("LANGSMITH_TRACING", "false")
os.environ["SELFWIRE_CONFIG_HOME"] = tempfile.mkdtemp(prefix="selfwire-config-")  # a user of its own for the tests
os.environ.pop("SELFWIRE_MODEL", None)  # tests that name no model ask the offline one
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side; torch's threads would wait for each other

from selfwire.core import plugins, text
from selfwire.models import limits, structured
from tests import benchmark_data
from tests.samples import SWEEP
from tests.store import postgres
from tests.wire.langsmith_server import LangSmithServer
from tests.wire.server import WireServer
from tests.wire.server import text as reply

benchmark_data.point_at_it()
settings.register_profile("selfwire", deadline=None)  # machines are shared; time belongs into a benchmark
settings.load_profile("selfwire")


def pytest_xdist_auto_num_workers() -> int:
    """Three workers for two processors, as tests wait for processes, disks and clocks; four for slow ones."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors * (4 if SWEEP else 3) // 2


def pytest_sessionfinish() -> None:
    """Save what `make fault-coverage` has counted, as pytest-xdist kills workers that take ten seconds to end."""
    shutil.rmtree(os.environ["SELFWIRE_CONFIG_HOME"], ignore_errors=True)
    coverage = sys.modules.get("coverage")  # there only where it counts
    if coverage and (counting := coverage.Coverage.current()):
        counting.save()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it ignore from then on what was imported and collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after -m and -k, else shares are not those of the workers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave every nth case of a test that carries `pytest.mark.every(n)`; all of them in `make test-slow`.

    Slow tests come first in each worker's share, so that workers steal quick ones at the end and all end together.
    """
    counts = Counter[str]()
    slow, quick, dropped = list[pytest.Item](), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        mark = item.get_closest_marker("every")
        test, _, case = item.nodeid.partition("[")
        drops = not SWEEP and mark and case and counts[test] % mark.args[0]
        (dropped if drops else slow if item.get_closest_marker("slow") else quick).append(item)
        counts[test] += 1
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares = [
        (part, len(part) * n // workers, len(part) * (n + 1) // workers)
        for n in range(workers)
        for part in (slow, quick)
    ]
    items[:] = [item for part, start, end in shares for item in part[start:end]]
    config.hook.pytest_deselected(items=dropped)


@pytest.fixture(autouse=True)
def _no_server_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's server may get the port of an earlier test's, and must not be taken for it."""
    monkeypatch.setattr(structured, "_known", {})
    monkeypatch.setattr(limits, "_throttles", {})


@pytest.fixture(autouse=True, scope="module")
def _no_secret_is_known() -> None:
    """A secret of an earlier file masks no word; those of a fixture of this file stay known."""
    text._known.clear()


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of an earlier test masks no word, and a method that it gave is named in no message."""
    monkeypatch.setattr(text, "_known", {*text._known})
    if plugins.GIVEN:
        from selfwire.graphs import method

        plugins.GIVEN.clear()
        method.installed_methods.cache_clear()


@pytest.fixture
def wire_server() -> Iterator[WireServer]:
    """A local OpenAI-compatible server that says "hello"; set `answer` and `faults` as needed."""
    with WireServer(reply("hello")) as server:
        yield server


@pytest.fixture
def langsmith_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmithServer]:
    """A local recorder of LangSmith's protocol that the environment points at."""
    with LangSmithServer() as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Address of a PostgreSQL server of the test run's own."""
    with postgres.cluster() as server:
        yield server.address


_databases = itertools.count()


@pytest.fixture
def postgres_address(postgres_server: str) -> str:
    """Address of an empty PostgreSQL database."""
    import psycopg

    name = f"db{next(_databases)}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{postgres_server}/{name}"
