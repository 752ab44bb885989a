"""A real `langgraph dev` in a process group of its own, which does not outlive its test."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "1", "LANGSMITH_TRACING": "false"}
PATIENCE = 120.0
"""Seconds that the server may take to start."""


def dev_server(
    folder: Path, home: Path, served: Path = ROOT / "langgraph.json", **settings: str
) -> AbstractContextManager[str]:
    """Serve a langgraph.json from another folder; gives the address.

    Args:
        folder: where the server runs and leaves its files.
        home: SELFWIRE_HOME.
        served: the langgraph.json, by default the repository's.
        settings: further environment variables.
    """
    return _serve(folder, home, served, settings, (signal.SIGTERM, signal.SIGKILL))


def doomed_server(folder: Path, home: Path) -> AbstractContextManager[str]:
    """Serve as `dev_server` does, and end by kill -9."""
    return _serve(folder, home, ROOT / "langgraph.json", {}, (signal.SIGKILL,))


@contextmanager
def _serve(
    folder: Path, home: Path, served: Path, settings: Mapping[str, str], blows: Sequence[signal.Signals]
) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "langgraph.json").write_text(served.read_text())
    log = folder / "server.log"
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1"]
    with log.open("w") as out:
        server = subprocess.Popen(
            [*command, "--port", str(port), "--n-jobs-per-worker", "2"],
            cwd=folder,
            env={**os.environ, **QUIET, "SELFWIRE_HOME": str(home), **settings},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(address, server, log)
        yield address
    finally:
        _end(server, blows)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{address}/ok", timeout=2).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"langgraph dev did not start:\n{log.read_text()[-4000:]}")


def _end(server: "subprocess.Popen[bytes]", blows: Sequence[signal.Signals]) -> None:
    for blow in blows:
        try:
            os.killpg(server.pid, blow)
        except ProcessLookupError:
            break
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
    server.wait()
