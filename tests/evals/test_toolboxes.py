"""The tools of benchmarks by name."""

import pytest

from selfwire.core.errors import ConfigError
from selfwire.evals.benchmarks.catalogue import NAMES, load_benchmark
from selfwire.tools.ready import load_tools
from tests.sandboxed import needs_sandbox

NEED_FILES = ("hotpotqa", "2wikimultihopqa")


@needs_sandbox
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEED_FILES])
def test_the_tools_of_every_benchmark_can_be_named(name: str) -> None:
    bench = load_benchmark(name)
    assert load_tools(f"benchmark:{name}").keys() == bench.toolbox.keys() >= set(bench.tools)


def test_a_benchmark_that_is_unknown_is_refused() -> None:
    with pytest.raises(ConfigError, match="tools 'benchmark:nothing': unknown benchmark 'nothing'; choose archive"):
        load_tools("calculator,benchmark:nothing")
