"""`make fault-coverage`: which branches that handle faults no test has run, out of coverage.py's report.

Such a branch is a handler (`except`) whose body was not entered, or a `raise` that was not reached. One that is never
run for a good reason says so: `# pragma: no cover - reason`, at the `except` or the `raise`.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPORT = Path(".coverage/report.json")
PRAGMA = re.compile(r"#\s*pragma: no cover(?:\s*-\s*(?P<reason>\S.*))?")


class Branch(NamedTuple):
    """A branch that handles a fault: the line that begins it, and the first line that is run in it."""

    line: int
    first: int
    text: str


def find_branches(source: str) -> Iterator[Branch]:
    """The handlers and raises of a file, in their order; a handler that begins with a raise is one branch."""
    lines, begun = source.splitlines(), set[int]()
    for node in sorted(ast.walk(ast.parse(source)), key=lambda one: getattr(one, "lineno", 0)):
        if isinstance(node, ast.ExceptHandler):
            first = node.body[0].lineno
        elif isinstance(node, ast.Raise) and node.lineno not in begun:
            first = node.lineno
        else:
            continue
        begun.add(first)
        yield Branch(node.lineno, first, lines[node.lineno - 1].strip())


def find_faults(path: Path, missing: set[int]) -> Iterator[str]:
    """A line for each branch of a file that is not run and gives no reason."""
    source = path.read_text()
    lines = source.splitlines()
    for one in find_branches(source):
        reason = PRAGMA.search(lines[one.line - 1])
        if reason and not reason["reason"]:
            yield f"{path}:{one.line} gives no reason: {one.text}"
        elif not reason and one.first in missing:
            yield f"{path}:{one.line} is never run: {one.text}"


def main() -> int:
    """Print the branches that are never run; 1 if there are any."""
    files = json.loads(REPORT.read_text())["files"]
    found = [line for name in sorted(files) for line in find_faults(Path(name), set(files[name]["missing_lines"]))]
    whole = sum(len(list(find_branches(Path(name).read_text()))) for name in files)
    print("\n".join([*found, f"{len(found)} of {whole} branches that handle faults are never run"]))  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
