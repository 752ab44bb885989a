"""Ray's own test cluster, with several nodes on this machine: `python -m tests.ray_cluster` prints its address.

It ends when its input ends. Ray is not imported in processes of tests, whose warnings are errors.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from tempfile import TemporaryFile
from typing import Any

STORE = 80_000_000
"""Bytes of a node's object store."""
TRIES = 3


@contextmanager
def ray_cluster(*processors: int) -> Iterator[str]:
    """A cluster of nodes with so many processors each.

    Ray chooses its ports before it opens them, so that another process may take one: its start is tried again.
    """
    command = [sys.executable, "-m", "tests.ray_cluster", *map(str, processors)]
    quiet = {**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    errors: list[str] = []
    while len(errors) < TRIES:
        with (
            TemporaryFile("w+") as said,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=quiet
            ) as server,
        ):
            assert server.stdin is not None
            assert server.stdout is not None
            if address := server.stdout.readline().strip():
                try:
                    yield address
                finally:
                    server.stdin.close()
                return
            server.wait()
            said.seek(0)
            errors.append(said.read()[-2000:])
    raise AssertionError("the cluster has not started:\n" + "\n".join(errors))


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
