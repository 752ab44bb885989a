"""Record the golden runs anew, or check them: `python -m tests.golden record|check [CASE ...]`."""

import json
import sys
import tempfile
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.golden.runs import FOLDER, list_cases, list_differences, record


def handle(name: str, wanted: str) -> list[str]:
    """Record or check one case; returns the differences."""
    file = FOLDER / f"{name}.json"
    with tempfile.TemporaryDirectory() as home:
        found = record(name, Path(home))
    if wanted == "check":
        return [f"{name}{line}" for line in list_differences(json.loads(file.read_text()), found)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return []


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("command", choices=("record", "check"))
    parser.add_argument("cases", nargs="*", metavar="CASE", help="by default all")
    given = parser.parse_args()
    known = list_cases()
    cases = given.cases or list(known)
    if wrong := [name for name in cases if name not in known]:
        parser.error(f"there is no case {wrong[0]!r}; cases are {', '.join(known)}")
    with ThreadPoolExecutor(2) as pool:
        lines = [line for part in pool.map(lambda name: handle(name, given.command), cases) for line in part]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.exit(bool(lines))
