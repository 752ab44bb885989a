"""Runs selfwire under an audit of sockets and prints what was asked of the network outside this machine, as JSON by
step. The audit refuses all of it; the last step is there to be refused.
"""

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ASKED: list[str] = []
LOOPBACK = ("127.", "::1", "localhost")


def audit(event: str, given: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        address = given[1]
        host = address[0] if isinstance(address, tuple) else LOOPBACK[0]  # a path is of this machine
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = given[0] or LOOPBACK[0]
    else:
        return
    if not str(host).startswith(LOOPBACK):
        ASKED.append(f"{event} {host}")
        raise ConnectionRefusedError(f"{event} to {host} is refused by the audit")


def cli(*arguments: str) -> None:
    from selfwire.cli.app import build

    build()(list(arguments), standalone_mode=False)


def outside() -> None:
    with socket.socket() as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except ConnectionRefusedError:
            return


def main() -> None:
    home = Path(sys.argv[1])
    few = "--benchmark archive --tasks 2".split()
    sizes = "--gate mean --iterations 1 --batch 2 --gate-tasks 2 --train 4 --gate-size 4 --test 2".split()
    steps: dict[str, Callable[[], None]] = {
        "run": lambda: cli("run", "hiva", "What is 2 + 2?", "--home", str(home)),
        "evolve": lambda: cli("evolve", "hiva", "--benchmark", "archive", *sizes, "--home", str(home)),
        "eval": lambda: cli("eval", "dytopo", *few, "--home", str(home)),
        "compare": lambda: cli("compare", "single", "cot", *few, "--home", str(home)),
        "outside": outside,
    }
    sys.addaudithook(audit)
    found = {}
    for name, step in steps.items():
        before = len(ASKED)
        step()
        found[name] = ASKED[before:]
    sys.stdout.write(json.dumps(found) + "\n")
