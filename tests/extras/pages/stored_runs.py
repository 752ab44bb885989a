"""Runs and studies on record, without a model: what commands would have stored."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import DecisionCount, Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.router.reinforce import Update
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.rows import EvolutionRow, keep_study
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.method import FULL
from selfwire.graphs.rollouts import get_sample_name, get_trajectories_note
from selfwire.runs.record import JOURNAL, REQUEST, SUMMARY
from selfwire.runs.spec import EvolveSpec, Sizes
from selfwire.store.journal import Journal

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> <!-- \x1b[2J\u202e {{ 7 * 7 }} &amp;"
AGENTS = ("search", "solve", "check")
WAYS = (("trained", 0.8, 1.0), ("untrained", 0.3, 0.0), ("random", 1 / 3, 0.0))
"""Name, probability of `search`, and score of each way to route on held-out tasks."""


def assert_harmless(page: str) -> None:
    """No text has become markup, and no control stands in the page."""
    scripts = page.count('<script type="') + 1  # data, trails, and the page's own
    assert page.count("<script") == page.count("</script>") == scripts
    assert not [part for part in ("<img", "\x1b", "\u202e") if part in page]


def make_routed_run(
    task: str, shares: Sequence[float], score: float | None, *, chosen: str = "search", text: str = "Rome"
) -> Trajectory:
    """A run whose router chose one agent; None is an error."""
    layered = LayeredWorkflow(layers=((chosen,),), probabilities=(dict(zip(AGENTS, shares, strict=True)),))
    episode = Episode(decisions=(Decision(rows=(text,), agents=AGENTS, layered=layered),), reward=score)
    usage = Usage(calls=1, input_tokens=80, output_tokens=10, dollars=0.002)
    return Trajectory(
        question=Question(id=task, input=f"Where? {text}"),
        workflow="",
        steps=(Step(node=chosen, agent=chosen, output=text, usage=usage),),
        answer=None if score is None else text,
        error="the provider is down" if score is None else None,
        feedback=None if score is None else Feedback(score=score, solved=score == 1, text=text),
        notes={"episode": episode.model_dump(mode="json")},
    )


def store_training(home: Path, updates: int = 10, text: str = "Rome", *, tested: bool = True, run: str = "t") -> None:
    """A training in which the router learns to search."""
    asyncio.run(_store_training(home / "runs" / run / JOURNAL, run, updates, text, tested))


async def _store_training(path: Path, run: str, updates: int, text: str, tested: bool) -> None:
    request = EvolveSpec(
        method="evomas",
        benchmark="archive",
        sizes=Sizes(train=4, gate=0, test=4),
        evolution=EvolutionConfig(name=run, iterations=0, gate="off"),
    )
    summary = {"command": "train", "status": "finished", "benchmark": "archive", "name": run}
    with closing(Journal.create(path, run=run)) as journal:
        await journal.put_note(REQUEST, request.model_dump(mode="json"))
        await journal.put_note(SUMMARY, summary)
        for number in range(updates):
            grown = 0.3 + 0.5 * number / max(updates - 1, 1)
            shares = (grown, (1 - grown) / 2, (1 - grown) / 2)
            runs = [make_routed_run(f"task-{one}", shares, 1.0, text=text) for one in range(3)]
            runs.append(make_routed_run("task-3", shares, 0.0 if number else None, chosen="solve", text=text))
            await _keep(journal, get_trajectories_note(number, "train"), runs)
            update = Update(
                number=number + 1,
                reward=0.75,
                returned=0.75,
                entropy=1.0 - number / 20,
                gradient_norm=0.0 if number == 1 else 1.0,
                episodes=4,
                errors=0 if number else 1,
                skipped=number == 1,
            )
            await journal.put_note(f"update/{number + 1}", update.model_dump(mode="json"))
        for way, share, score in WAYS if tested else ():
            rest = (1 - share) / 2
            runs = [make_routed_run(f"test-{one}", (share, rest, rest), score, text=text) for one in range(6)]
            await _keep(journal, get_trajectories_note(0, f"test-{way}"), runs)


async def _keep(journal: Journal, name: str, found: Sequence[Trajectory]) -> None:
    bodies = {get_sample_name(one): await journal.put_body(one.model_dump(mode="json")) for one in found}
    await journal.put_note(name, bodies)


def make_row(variant: str, seed: int, after: float, **changes: Any) -> EvolutionRow:
    """A result of one evolution."""
    fields: dict[str, Any] = {
        **{"study": "k", "before": 0.25, "compared": 4, "errors": 0, "nodes": 3, "calls_before": 4, "calls": 10},
        **{"tokens": 1000, "efficiency": None, "evolution_calls": 100, "dollars": 0.5, "edits": (1, 2), "accepted": 1},
        **{"rejected": 1, "unchanged": 0, "workflow": "w", "paths": {}, "seconds": 1.0},
    }
    return EvolutionRow(variant=variant, seed=seed, after=after, **{**fields, **changes})


def store_study(file: Path, *, free: int = 5, benchmark: str = "archive") -> None:
    """A study in which topology evolution matters, and in which the router had something to decide if `free`."""
    study = Study(benchmark=benchmark, variants=(FULL, "no-tev", "no-sev", "no-kabb", "random"), seeds=3)
    scores = {"no-tev": 0.3, "no-sev": 0.75, "no-kabb": 0.6, "random": 0.4}
    decisions, noise = DecisionCount(made=40, free=free, filtered=0), (0.0, 0.02, -0.04)
    rows = [
        make_row(name, seed, score + noise[seed], decisions=decisions)
        for name, score in scores.items()
        for seed in range(3)
    ]
    rows[:0] = [make_row(FULL, seed, after, decisions=decisions) for seed, after in enumerate((0.81, 0.81, 0.76))]
    keep_study(study, rows, file)
