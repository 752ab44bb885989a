"""`python -m tests.extras.adopt.confirmed [--call-tools] [PROGRAM ...]`: texts of the corpus that confirming runs see.

The packages are imported once, and each program runs in a fork of this process.
"""

import importlib
import os
import re
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.confirm import Confirmation, confirm_program
from selfwire.extras.adopt.reader import read_program
from tests.extras.adopt.corpus import GRAPHS, find_folder

SECONDS = 60
NAMED = re.compile(r"(the (?:tool|node)) \S+")


def run_fork(folder: Path, place: Path, environment: Mapping[str, str]) -> str:
    """Run the child process of a confirming run as a fork; returns how it ended."""
    for name in ("selfwire.extras.adopt.confirm_child", "langchain.agents", "langchain_openai", "langgraph.prebuilt"):
        importlib.import_module(name)
    child = os.fork()
    if not child:
        status = 1
        try:
            os.environ.clear()
            os.environ.update(environment)
            warnings.simplefilter("ignore")  # of what authors still use
            tempfile.tempdir = None  # asks the environment again
            os.chdir(place)
            sys.path.insert(0, str(place))
            signal.alarm(SECONDS)
            with open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), 1)
                os.dup2(nothing.fileno(), 2)
            importlib.import_module("selfwire.extras.adopt.confirm_child").confirm(folder)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return f"the process ended ({status})" if status else ""


def confirm_graph(program: str, *, calls_tools: bool = False) -> Confirmation | str:
    """Confirm a program of the corpus; returns what was seen, or why it cannot be imported."""
    with chdir(find_folder(program)):
        try:
            return confirm_program(read_program(GRAPHS[program]), calls_tools=calls_tools, run_child=run_fork)
        except ConfigError as error:
            return str(error)


def main(arguments: list[str]) -> None:
    """Print what was seen of each program, and the sums."""
    asked = [argument for argument in arguments if argument in GRAPHS] or [*GRAPHS]
    found = {program: confirm_graph(program, calls_tools="--call-tools" in arguments) for program in asked}
    for program, seen in found.items():
        print(f"== {program}\n{seen}")  # noqa: T201
    imported = [seen for seen in found.values() if isinstance(seen, Confirmation)]
    texts = [text for seen in imported for text in seen.texts]
    reached = sum(bool(text.sent) for text in texts)
    print(f"{len(imported)} of {len(found)} programs imported; {reached} of {len(texts)} texts seen")  # noqa: T201
    causes = Counter(NAMED.sub(r"\1", text.unreached).partition(";")[0] for text in texts if not text.sent)
    print(*(f"{count} {cause}" for cause, count in causes.most_common()), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
