"""`make rehearse`: `selfwire prove` whole over HTTP, with effects that are known; how many it finds, and how many more.

A server on this machine plays a good, a mediocre and a bad model, one for the cards of each deck. A single call is
right with the chance of the deck, and is the same however often it is asked, so that votes have that chance too.
`CHANCES` says what a rewriting and a refined answer change; everything else changes nothing. Who judges an answer sees
whether there is one, and the judge of TacoMAS whether a coach has rewritten its team, but not whether it is right.
"""

import json
import re
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage
from rich.console import Console
from typer.testing import CliRunner

from bench.calibrate import ASKED, MARK, WORDS, get_word, propose, serve
from bench.measuring import Row, map_in_processes, print_table
from selfwire.cli.app import build
from selfwire.evals.baselines import load_prompt
from selfwire.evals.verdicts import ERROR, find_visible_gain
from selfwire.runs.proof import DIRECT, KEPT, Proof, read_proof

TITLE = "rehearsals of prove, whose effects are known"


class Chances(NamedTuple):
    """Chances of a right answer: of an agent, of one whose prompt was rewritten, and of one that refines."""

    plain: float
    rewritten: float
    refined: float


DECKS = ("good", "mediocre", "bad")
CHANCES = {"good": Chances(0.9, 0.9, 0.5), "mediocre": Chances(0.5, 0.9, 0.5), "bad": Chances(0.2, 0.2, 0.6)}
REHEARSALS, TASKS, SEEDS, POOL = 20, 50, 2, 1000
LEARNING = ("hiva", "hera", "tacomas")
NULL = ("evomas", "dytopo", "centralised", "gepa", "own")
"""Systems that change nothing here: teams without rewritings, GEPA on a single agent, a graph of one node."""
SYSTEMS = ("self-refine", "hiva")
"""What is rehearsed by default; HERA's evolutions and votes take three quarters of the calls."""
SIZES = (
    "--iterations", "2", "--batch", "3", "--train", "6", "--gate", "mean", "--gate-tasks", "12", "--gate-size", "12",
)  # fmt: skip
LEVEL = 0.9
"""The mark of every rewriting; what it is worth depends on the deck."""
MARKED = f"Work with care level {LEVEL:.2f}."
CHECKED = re.compile(r"^\d+\. \((correctness|contradiction)\)", re.MULTILINE)
"""Items of a checklist in a request."""

CONFIG = {"self-refine": "iterations=1", "gepa": "team=single"}
"""Config fields of systems."""
DECIDED: Mapping[str, Mapping[str, object]] = {
    "Assessed": {"reward": 1.0, "refine": False},
    "Choice": {"solution_letter": "A"},
    "Halting": {"is_complete": True},
}
"""Fields of replies that judge an answer, by the name of the reply."""
OWN_GRAPH = """
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="rehearsed", base_url="{address}", api_key="none")


async def answer(state):
    return {{"messages": [await model.ainvoke(state["messages"])]}}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()
"""
"""The program of the user's own graph."""

Key = tuple[str, str, str]
"""Deck, system, and what it is compared with."""


def reply(body: Mapping[str, Any]) -> AIMessage:
    """Answer a request: by an object, or as an agent whose chance is known."""
    asked = "\n".join(str(message["content"]) for message in body["messages"])
    if body.get("response_format"):
        return decide(body, asked)
    cards = ASKED.findall(asked)
    return AIMessage(answer(asked, int(cards[-1]), body.get("seed")) if cards else "There is nothing to do.")


def answer(asked: str, card: int, seed: object) -> str:
    """Answer with a word, by the chance that the request has; a mark in it is handed on."""
    marked, chances = MARK.search(asked), CHANCES[DECKS[card // POOL % len(DECKS)]]
    refines, reasons = (load_prompt(name) in asked for name in ("refine", "reasoned"))
    chance = chances.refined if refines else chances.rewritten if marked else chances.plain
    draw = Random(f"{asked} {'' if reasons else seed}")
    right = draw.random() < chance
    wrong = [word for word in WORDS if word != get_word(card)]
    said = f"{marked[0]}\n" if marked else ""
    return f"{said}Answer: {get_word(card) if right else draw.choice(wrong)}"


def decide(body: Mapping[str, Any], asked: str) -> AIMessage:
    """Answer a request for an object: rewritings carry a mark, and judges know nothing of what is right."""
    name, proposed = body["response_format"]["json_schema"]["name"], propose(body, LEVEL)
    found = {**json.loads(str(proposed.text)), **DECIDED.get(name, {})}
    if "answer" in found and (cards := ASKED.findall(asked)):
        found["answer"] = answer(asked, int(cards[-1]), body.get("seed"))
    if name == "Verdict":
        passes = bool(MARK.search(asked))
        found["results"] = [passes == (operator == "correctness") for operator in CHECKED.findall(asked)]
    for refined in found.get("agents", ()) if name == "Refinement" else ():
        refined["update"] = f"{refined['update']} {MARKED}"
    return proposed.model_copy(update={"content": json.dumps(found)})


def get_effect(deck: str, system: str) -> float:
    """The planted difference of a system from a single call, and from its votes."""
    chances = CHANCES[deck]
    changed = chances.rewritten if system in LEARNING else chances.refined if system == "self-refine" else chances.plain
    return round(changed - chances.plain, 6)


def rehearse(number: int, tasks: int = TASKS, seeds: int = SEEDS, systems: Sequence[str] = SYSTEMS) -> Proof:
    """Run a proof on cards that no other rehearsal has."""
    with serve(reply) as address, TemporaryDirectory() as folder:
        named = [str(write_deck(Path(folder), place, number)) for place in range(len(DECKS))]
        own = Path(folder) / "own.py"
        own.write_text(OWN_GRAPH.format(address=address))
        chosen = [f"own={own}:graph" if name == "own" else name for name in systems]
        config = [word for name in systems if name in CONFIG for word in ("--set", f"{name}.{CONFIG[name]}")]
        words = (
            "prove", *(word for name in named for word in ("--benchmark", name)), "--yes",
            "--systems", ",".join(chosen), *config,
            "--tasks", str(tasks), "--seeds", str(seeds), *SIZES, "--embedder", "hashing",
            "--model", "openai:rehearsed", "--base-url", address, "--home", folder, "--out", folder,
        )  # fmt: skip
        done = CliRunner().invoke(build(), words, env={"OPENAI_API_KEY": "none"})
        if done.exit_code:
            raise AssertionError(done.output) from done.exception
        return read_proof(Path(folder) / KEPT)


def write_deck(folder: Path, place: int, number: int) -> Path:
    """Write the cards of a deck for a rehearsal."""
    path, first = folder / f"{DECKS[place]}.jsonl", (len(DECKS) * number + place) * POOL
    cards = range(first, first + POOL)
    lines = [{"id": f"card{c}", "input": f"What is the word of card {c}?", "reference": get_word(c)} for c in cards]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def list_verdicts(proof: Proof) -> dict[Key, str]:
    """List the verdicts by deck, system and what it is compared with."""
    return {
        (Path(benchmark).stem, system, "a single call" if kind == DIRECT else "votes"): verdict.says
        for (benchmark, system, kind), verdict in proof.verdicts.items()
    }


def list_scores(proof: Proof) -> dict[tuple[str, str], list[float | None]]:
    """List the scores of all tasks and seeds by deck and system; None for a task that ended as an error."""
    found = dict[tuple[str, str], list[float | None]]()
    for part in proof.parts:
        for system, line in part.lines.items():
            found.setdefault((Path(part.head.benchmark).stem, system), []).extend(line.scores.values())
    return found


def is_right(key: Key, says: str) -> bool:
    """Whether a verdict has the sign of what was planted."""
    effect = get_effect(key[0], key[1])
    return says == ("better" if effect > 0 else "worse" if effect < 0 else "not told apart")


def summarise(found: Sequence[Mapping[Key, str]], tasks: int, seeds: int) -> list[Row]:
    """The rows: how often each planted effect was found, and each difference that there is not was seen."""
    rows, comparisons = list[Row](), len(found[0])
    gain = find_visible_gain(tasks * seeds, ERROR / comparisons)
    rows.append(Row(what=f"gain that {tasks * seeds} tasks and {comparisons} comparisons can show", value=gain or 1.0))
    for key in found[0]:
        effect, name = get_effect(key[0], key[1]), f"{key[0]} model: {key[1]} beside {key[2]}"
        seen = sum(is_right(key, verdicts[key]) == bool(effect) for verdicts in found)
        what = f"{name}, {effect:+.1f} planted: found" if effect else f"{name}, nothing planted: told apart"
        rows.append(Row(what=what, value=seen, unit=f"of {len(found)}"))
    wrong = [any(not is_right(key, says) for key, says in v.items() if not get_effect(*key[:2])) for v in found]
    rows.append(
        Row(what="rehearsals with any verdict where nothing is planted", value=sum(wrong), unit=f"of {len(found)}")
    )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Rehearse and print."""
    parser = ArgumentParser(prog="python -m bench.rehearse", description=__doc__)
    parser.add_argument("--rehearsals", type=int, default=REHEARSALS)
    parser.add_argument("--first", type=int, default=0, help="number of the first, by which its cards are drawn")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--systems", nargs="*", default=SYSTEMS, help=f"of the proof, such as self-refine hiva hera {' '.join(NULL)}"
    )
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    numbers, found = range(given.first, given.first + given.rehearsals), list[dict[Key, str]]()
    out = Console(width=160)
    act = partial(rehearse, tasks=given.tasks, seeds=given.seeds, systems=given.systems)
    for proof in map_in_processes(act, numbers, workers=given.workers):
        found.append(verdicts := list_verdicts(proof))
        wrong = [f"{' '.join(key)}: {says}" for key, says in verdicts.items() if not is_right(key, says)]
        out.print(f"rehearsal {numbers[len(found) - 1]}: {'; '.join(wrong) or 'all as planted'}")
    print_table(out, TITLE, summarise(found, given.tasks, given.seeds))


if __name__ == "__main__":
    main()
