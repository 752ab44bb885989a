"""The tools of every benchmark, as attributes that are made at their first use.

A list of tools names them as `benchmark:archive`, for example in SELFWIRE_TOOLS.
"""

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Toolbox
from selfwire.evals.benchmarks.catalogue import load_benchmark


def __getattr__(name: str) -> Toolbox:
    try:
        return load_benchmark(name).toolbox
    except ConfigError as error:
        raise AttributeError(str(error)) from None
