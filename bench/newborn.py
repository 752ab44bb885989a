"""Scores of TacoMAS where only a newborn can hold the tool that a question needs.

Expected before the full run: without births the score is 0 whatever the fast loop says; births come near to a team
that has had two newborns with the right tools from the start; as many births that are drawn stay behind, and it is they
that could show that any birth will do.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from bench.measuring import Row, make_cells, map_in_processes
from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.evals.benchmarks.newborn import make_newborn_team, newborn
from selfwire.evals.statistics import compute_mean, compute_paired_interval, compute_score_interval
from selfwire.evals.table import format_difference
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.tacomas import Tacomas
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder

TITLE = "newborn: tools that only a newborn of TacoMAS can hold"
SEEDS, TASKS = 30, 10
FULL = "both loops"
SYSTEMS = {
    FULL: "full",
    "both loops, births and deaths drawn": "random-births",
    "slow loop alone": "no-capability",
    "fast loop alone, no births": "no-topology",
    "fixed team": "fixed",
}
"""Variants of TacoMAS by the name of their line."""
BORN = {"two newborns from the start, fixed team": "fixed", "two newborns from the start, both loops": "full"}
"""Lines of the team that has the tools; the best of them is the best possible."""


class NewbornRun(NamedTuple):
    """A question's score, and the calls, births and deaths of its run."""

    score: float
    calls: float
    births: int
    deaths: int


def add_newborns(team: Team) -> Team:
    """The team with two agents between searcher and verifier that search the collections of people and of cities."""
    born = [
        Agent(id=name, role="finds facts", prompt="Search for what the question asks and read it.", tools=(name,))
        for name in ("search_people", "search_cities")
    ]
    edits = [
        edit
        for agent in born
        for edit in (
            AddAgent(agent),
            AddNode(agent.id, agent.id),
            AddEdge("searcher", agent.id),
            AddEdge(agent.id, "verifier"),
        )
    ]
    return team.apply(Rewiring(*edits, why="newborns from the start"))


async def measure_variant(name: str, team: Team, tasks: int, seed: int) -> list[NewbornRun]:
    """The outcomes of a variant on a seed's tasks."""
    method = Tacomas(Tacomas.config_type.model_validate(dict(Tacomas.variants[name].config)))
    bench, model = newborn(2 * tasks, seed=seed), MeteredModel(OfflineChat(seed=seed), journal=NullRecorder())
    found = []
    for task in bench.splits(seed, train=0, gate=0, test=tasks).test:
        at = Scope(phase="test", task=task.id, seed=seed)
        ctx = method.make_ctx(model, bench.toolbox, HashingEmbedder(), scope=at)
        done = await method.answer(team, task.question, ctx)
        graded = await bench.environment.grade(task, done.answer or "", scope=at)
        births, deaths = (sum(len(turn[what]) for turn in done.notes["rounds"]) for what in ("births", "deaths"))
        found.append(NewbornRun(graded.score, done.notes["figures"]["calls"], births, deaths))
    return found


def measure_seed(tasks: int, seed: int) -> dict[str, list[NewbornRun]]:
    """The outcomes of all systems on a seed's tasks, the same for all."""
    team = make_newborn_team()
    teams = {name: (variant, team) for name, variant in SYSTEMS.items()}
    teams |= {name: (variant, add_newborns(team)) for name, variant in BORN.items()}
    return {name: asyncio.run(measure_variant(*found, tasks, seed)) for name, found in teams.items()}


def measure(seeds: int = SEEDS, tasks: int = TASKS) -> list[Row]:
    """Score, difference paired by task, calls, births and deaths of each system."""
    return summarise([*map_in_processes(partial(measure_seed, tasks), range(seeds))])


def summarise(found: Sequence[dict[str, list[NewbornRun]]]) -> list[Row]:
    """The rows of the table over all seeds' tasks."""
    by_system = {name: [outcome for seed in found for outcome in seed[name]] for name in found[0]}
    full, rows = [outcome.score for outcome in by_system[FULL]], list[Row]()
    for name, outcomes in by_system.items():
        scores = [outcome.score for outcome in outcomes]
        difference = None if name == FULL else compute_paired_interval(scores, full)
        cells = {
            "score [95 %]": str(compute_score_interval(scores)),
            f"{FULL} − this [95 %]": format_difference(difference),
        }
        means = {
            f"{figure}/task": compute_mean([float(getattr(outcome, figure)) for outcome in outcomes])
            for figure in ("calls", "births", "deaths")
        }
        rows += make_cells(name, {**cells, **means})
    return rows
