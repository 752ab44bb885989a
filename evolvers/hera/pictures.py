"""Pictures of what HERA compared and learned: groups of teams, insights with their sources, and varied prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel, format_count
from selfwire.evolvers.hera.groups import Group, GroupKind
from selfwire.evolvers.hera.library import Insight, get_library
from selfwire.evolvers.hera.reflection import InsightChange, get_topology
from selfwire.evolvers.pictures import Cell, Entry, Frame, Look, Panel, Picture, Table, TextList
from selfwire.evolvers.trajectory_text import count_agent_tokens, get_score, shorten

RUNS = 48
"""Most runs that the notes of an iteration compare, whole groups, the first one in any case."""
PLAN = 240
SOURCES = 4
_LOOKS: Mapping[str, Look] = {"ADD": "new", "MERGE": "new", "PRUNE": "gone", "KEEP": "faint"}
_KINDS: Mapping[str, str] = {
    "mixed": "success and failure: insights are drawn from it",
    "zero": "every score is 0: topologies are mutated, once per question",
    "other": "nothing to contrast",
}


class NotedRun(FrozenModel):
    """A run of a group as the notes keep it; `mutation` says what was changed of its topology, "" for nothing."""

    sample: int
    score: float
    tokens: int
    plan: str
    mutation: str = ""


class NotedGroup(FrozenModel):
    """The runs of a question as the notes keep them, the best first."""

    question: str
    outcome: GroupKind
    runs: tuple[NotedRun, ...]


def note_groups(groups: Sequence[Group], trajectories: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """The groups of an iteration in short, as many as there is room for; groups that taught something first."""
    noted: list[NotedGroup] = []
    for group in sorted(groups, key=lambda group: ("mixed", "zero", "other").index(group.outcome)):
        runs = tuple(_note_run(trajectories[place]) for place in group.order[:RUNS])
        if not noted or sum(len(before.runs) for before in noted) + len(runs) <= RUNS:
            noted.append(NotedGroup(question=group.question, outcome=group.outcome, runs=runs))
    return [group.model_dump(mode="json") for group in noted]


def _note_run(done: Trajectory) -> NotedRun:
    return NotedRun(
        sample=done.sample,
        score=get_score(done) or 0.0,
        tokens=count_agent_tokens(done),
        plan=shorten(_format_plan(done), PLAN),
        mutation=shorten(str(done.notes.get("mutation", "")), PLAN),
    )


def _format_plan(done: Trajectory) -> str:
    """Agents in the order of their work; those that worked side by side are joined by a plus."""
    topology = get_topology(done)
    levels = topology.levels() if topology else [[step.node] for step in done.steps]
    return " → ".join(" + ".join(level) for level in levels)


def draw_run(notes: Mapping[str, Any]) -> Picture:
    """How the team of a question was planned: its profile, the insights that were shown, and repairs."""
    if "insights" not in notes:
        return Picture()
    about = [
        Entry(head=f"{profile['type']}, {profile['difficulty']}", text=profile["summary"])
        for profile in [notes.get("profile")]
        if profile
    ]
    planned = "the default chain, as no valid plan came" if notes.get("default") else "the orchestrator's plan"
    about.append(Entry(head=planned, text=notes.get("mutation") or ""))
    about += [Entry(head="repaired", text=repair, look="bad") for repair in notes.get("repairs", ())]
    shown = tuple((insight["text"], insight["utility"], insight["type"]) for insight in notes.get("insights", ()))
    panels: list[Panel] = [TextList(title="How the team was planned", entries=tuple(about))]
    if shown:
        columns = ("insight", "utility", "from questions of type")
        panels.append(Table(title="Insights that the orchestrator was shown", columns=columns, rows=shown))
    return Picture(frames=(Frame(label="The plan", panels=tuple(panels)),))


def draw_learning(before: Team, after: Team, notes: Mapping[str, Any]) -> tuple[Panel, ...]:
    """Groups, what became of new insights, utilities that moved, and the prompts that were varied."""
    groups = [NotedGroup.model_validate(group) for group in notes.get("compared", ())]
    changes = [InsightChange.model_validate(change) for change in notes.get("changes", ())]
    panels = (
        _draw_groups(groups, notes.get("groups", {})),
        _draw_changes(changes, get_library(after)),
        _draw_utilities(get_library(before), get_library(after)),
        _draw_ropes(notes.get("ropes", ())),
    )
    return tuple(panel for panel in panels if panel is not None)


def _draw_groups(groups: Sequence[NotedGroup], counts: Mapping[str, int]) -> Panel | None:
    if not groups:
        return None
    rows: list[tuple[Cell | str | float | None, ...]] = []
    for group in groups:
        for rank, run in enumerate(group.runs, 1):
            name = f"{group.question}\n{_KINDS[group.outcome]}" if rank == 1 else ""
            plan = f"{run.plan}\nmutated: {run.mutation}" if run.mutation else run.plan
            rows.append((name, f"{rank}.", plan, run.score, f"{run.tokens:,}"))
    total = sum(counts.values())
    of = f" {len(groups)} of {format_count(total, 'group')} are shown." if total > len(groups) else ""
    return Table(
        title="Groups that were compared",
        note=f"Several teams per question, ranked by score, then by fewer tokens.{of}",
        columns=("question", "rank", "topology", "score", "tokens"),
        rows=tuple(rows),
    )


def _draw_changes(changes: Sequence[InsightChange], library: Sequence[Insight]) -> Panel | None:
    if not changes:
        return None
    known = {insight.text: insight for insight in library}
    return Table(
        title="New insights, and what became of them",
        columns=("insight", "fate", "why", "utility", "from iteration/question#run"),
        rows=tuple(
            (
                change.insight,
                Cell(text=change.operation.lower(), look=_LOOKS[change.operation]),
                change.why,
                known[change.insight].utility if change.insight in known else None,
                _list_sources(known[change.insight]) if change.insight in known else "",
            )
            for change in changes
        ),
    )


def _list_sources(insight: Insight) -> str:
    more = len(insight.sources) - SOURCES
    return ", ".join([*map(str, insight.sources[:SOURCES]), *([f"{more} more"] if more > 0 else [])])


def _draw_utilities(before: Sequence[Insight], after: Sequence[Insight]) -> Panel | None:
    now = {insight.id: insight for insight in after}
    moved = [(old, now[old.id]) for old in before if old.id in now and now[old.id].uses > old.uses]
    if not moved:
        return None
    return Table(
        title="Insights that were put to use",
        note="Utility is the smoothed share of runs with the insight that succeeded.",
        columns=("insight", "before", "after", "succeeded"),
        rows=tuple(
            (new.text, old.utility, new.utility, f"{new.successes:,} of {new.uses:,} runs")
            for old, new in sorted(moved, key=lambda pair: -abs(pair[1].utility - pair[0].utility))
        ),
    )


def _draw_ropes(ropes: Sequence[Mapping[str, Any]]) -> Panel | None:
    """Per agent that was blamed, the score of its failure replayed with each prompt, and the lesson."""
    if not ropes:
        return None
    axes = list(dict.fromkeys(axis for rope in ropes for axis in rope["axes"]))
    rows = []
    for rope in ropes:
        scores = dict(zip(rope["axes"], rope["scores"], strict=False))
        lesson = [*rope["lesson"]["rules"], *rope["lesson"]["principles"]]
        left_out = [f"left out: {text}" for text in rope.get("left_out", ())]
        texts = "\n".join(f"- {text}" for text in (*lesson, *left_out)) or "nothing"
        rows.append((rope["agent"], rope["cause"], rope["control"], *(scores.get(axis) for axis in axes), texts))
    return Table(
        title="Prompts that were varied on a failure",
        note="The score of the failed task when it is replayed with the prompt as it is, and with each variant.",
        columns=("agent", "blamed for", "as it is", *(axis.replace("_", " ") for axis in axes), "what it learned"),
        rows=tuple(rows),
    )
