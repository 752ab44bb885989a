"""`make calibrate`: whole evolutions over HTTP whose every rewriting has a known effect; how many keep one.

A server on this machine plays all models. The offline model plays critics and evolvers, and every text that a
rewriting proposes carries a mark. An agent is right with the chance of the last mark in its request, or 0.5 without
one, and hands the mark on. So it is known how good each team is, and whether the gate was right to keep it.
"""

import json
import re
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from itertools import product
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_args

from langchain_core.messages import AIMessage
from rich.console import Console

import selfwire
from bench.measuring import Row, map_in_processes, print_table
from selfwire.core.task import Task
from selfwire.evolvers.gate import Gate
from selfwire.extras.demo_server import DemoHandler
from selfwire.extras.demo_server import answer as answer_offline
from selfwire.models.providers import make_chat_model

TITLE = "evolutions whose changes have a known effect"
START = 0.5
"""Chance of a right answer of an agent whose prompt is as it was."""
EFFECTS = {"no effect": 0.5, "harm: 0.50 to 0.40": 0.4, "gain: 0.50 to 0.70": 0.7}
TRAIN, GATE, ITERATIONS, BATCH = 30, 200, 5, 6
RUNS = {"no effect": 30, "harm: 0.50 to 0.40": 20, "gain: 0.50 to 0.70": 10}
"""Runs per method; their seeds are 0, 1, 2, ..."""
METHODS = ("hiva", "hera")
ASKED = re.compile(r"What is the word of card (\d+)\?")
MARK = re.compile(r"Work with care level (0\.\d+)\.")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven")
PROPOSED = ("prompt", "description", "instruction", "rule", "principle")
"""Fields of replies that become a part of a prompt, and of lists of these."""
PROPOSED_LISTS = ("instructions", "added_rules", "added_principles")


class Evolved(NamedTuple):
    """An evolution: whether its team carries a mark at the end, how many decisions accepted, and its calls."""

    kept: bool
    accepted: int
    compared: int
    calls: int


def get_word(card: int) -> str:
    """The right answer of a card."""
    return WORDS[Random(card).randrange(len(WORDS))]


def make_tasks(seed: int, first: int, count: int) -> list[Task]:
    """Cards of a run, with their words."""
    numbers = (1000 * seed + first + index for index in range(count))
    return [
        Task.model_validate(
            {"id": f"card{number}", "input": f"What is the word of card {number}?", "reference": get_word(number)}
        )
        for number in numbers
    ]


def reply(body: Mapping[str, Any], chance: float) -> AIMessage:
    """Answer a request: as a marked rewriting, or as an agent whose chance is known."""
    asked = "\n".join(str(message["content"]) for message in body["messages"])
    if body.get("response_format"):
        return propose(body, chance)
    cards = ASKED.findall(asked)
    if not cards:
        return AIMessage("There is nothing to do.")
    marks = MARK.findall(asked)
    draw = Random(f"{asked} {body.get('seed')}")
    card = int(cards[-1])
    right = draw.random() < (float(marks[-1]) if marks else START)
    wrong = [word for word in WORDS if word != get_word(card)]
    said = f"Work with care level {marks[-1]}.\n" if marks else ""
    return AIMessage(f"{said}Answer: {get_word(card) if right else draw.choice(wrong)}")


def propose(body: Mapping[str, Any], chance: float) -> AIMessage:
    """Answer a request for an object, with the mark of a chance in what becomes a part of a prompt."""
    found = answer_offline(body)
    return found.model_copy(update={"content": json.dumps(mark(json.loads(str(found.text)), chance))})


def mark(found: Any, chance: float) -> Any:
    """Add the mark of a chance to every text of a reply that becomes a part of a prompt."""
    sentence = f"Work with care level {chance:.2f}."
    if isinstance(found, list):
        return [mark(part, chance) for part in found]
    if not isinstance(found, dict):
        return found
    marked = {name: mark(value, chance) for name, value in found.items()}
    for name, value in found.items():
        if name in PROPOSED and isinstance(value, str) and value:
            marked[name] = f"{MARK.sub('', value).strip()} {sentence}"
        elif name in PROPOSED_LISTS and isinstance(value, list):
            marked[name] = [f"{MARK.sub('', str(text)).strip()} {sentence}" for text in value]
    return marked


@contextmanager
def serve(respond: Callable[[Mapping[str, Any]], AIMessage]) -> Iterator[str]:
    """Serve a model that answers requests so; yields its address."""

    class CalibratedHandler(DemoHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, body: Mapping[str, Any]) -> AIMessage:
            return respond(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), CalibratedHandler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def evolve(method: str, chance: float, gate: Gate, seed: int) -> Evolved:
    """Run an evolution on cards that no other run has."""
    with serve(partial(reply, chance=chance)) as address, TemporaryDirectory() as home:
        found = selfwire.evolve(
            method,
            make_tasks(seed, 0, TRAIN),
            "exact",
            valset=make_tasks(seed, TRAIN, GATE),
            model=make_chat_model("openai:calibrated", base_url=address, api_key="none"),
            gate=gate,
            iterations=ITERATIONS,
            batch=BATCH,
            seed=seed,
            home=home,
        )
    decisions = [version.facts["gate"] for version in found.versions if "gate" in version.facts]
    return Evolved(
        kept=any(MARK.search(agent.prompt) for agent in found.team.agents),
        accepted=sum(decision["accepted"] and bool(decision["compared"]) for decision in decisions),
        compared=sum(bool(decision["compared"]) for decision in decisions),
        calls=found.cost.calls,
    )


def measure(gate: Gate, methods: Sequence[str], share: float = 1.0, workers: int = 2) -> list[Row]:
    """Measure a gate; `share` of the runs."""
    plan = [
        (method, effect, seed)
        for method, effect in product(methods, EFFECTS)
        for seed in range(max(1, round(RUNS[effect] * share)))
    ]
    rows, made = list[Row](), dict[tuple[str, str], list[Evolved]]()
    jobs = [(method, EFFECTS[effect], gate, seed) for method, effect, seed in plan]
    evolved = map_in_processes(evolve, *zip(*jobs, strict=True), workers=workers)
    for (method, effect, _), found in zip(plan, evolved, strict=True):
        made.setdefault((method, effect), []).append(found)
    for (method, effect), runs in made.items():
        what = f"{method}, {effect}; {gate}"
        rows += [
            Row(what=what, column="runs", value=len(runs)),
            Row(what=what, column="keep a change", value=sum(run.kept for run in runs)),
            Row(what=what, column="decisions", value=sum(run.compared for run in runs)),
            Row(what=what, column="accepted", value=sum(run.accepted for run in runs)),
            Row(what=what, column="calls per run", value=sum(run.calls for run in runs) / len(runs)),
        ]
    return rows


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    parser.add_argument("--gate", default="better", choices=get_args(Gate))
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--share", type=float, default=1.0, help="share of the runs")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    print_table(Console(width=160), TITLE, measure(given.gate, given.methods, given.share, given.workers))


if __name__ == "__main__":
    main()
