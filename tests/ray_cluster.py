"""Ray's own test cluster, with several nodes on this machine: `python -m tests.ray_cluster` prints its address.

It ends when its input ends. Ray is not imported in processes of tests, whose warnings are errors.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

STORE = 80_000_000
"""Bytes of a node's object store."""
ROOT = Path(__file__).parents[1]
"""Where `tests` is a package; a test before may have left another folder behind."""


@contextmanager
def ray_cluster(*processors: int) -> Iterator[str]:
    """A cluster of nodes with so many processors each."""
    command = [sys.executable, "-m", "tests.ray_cluster", *map(str, processors)]
    quiet = {**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=quiet, cwd=ROOT
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            server.wait()
            errors.seek(0)
            raise AssertionError(f"the cluster has not started: {errors.read()[-2000:]}")
        try:
            yield address
        finally:
            server.stdin.close()


def main() -> None:
    """Start it, and wait."""
    make_cluster: Any = import_module("ray.cluster_utils").Cluster
    first, *others = [{"num_cpus": int(one), "object_store_memory": STORE} for one in sys.argv[1:]]
    head = {**first, "include_dashboard": False}
    cluster = make_cluster(initialize_head=True, head_node_args=head)
    for one in others:
        cluster.add_node(**one)
    cluster.wait_for_nodes()
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
