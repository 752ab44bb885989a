"""A page of one question: who worked in every round or stage, and what was said."""

from pathlib import Path
from textwrap import shorten

from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evals.baselines import BASELINES
from selfwire.evolvers.pictures import Picture
from selfwire.extras.pages.data import AgentCard, Link, RunReport, SpendLine, TeamVersion
from selfwire.extras.pages.evolution import make_place
from selfwire.extras.pages.page import save_page
from selfwire.extras.pages.pictures import draw_run, format_notes, make_card, make_round
from selfwire.extras.pages.stored import StoredStep, StoredTrajectory
from selfwire.runs.spec import STAMP

LONGEST = 140
"""Most characters of an answer as a heading; the whole one stands in the trail."""


def write_question_page(team: Team, done: Trajectory, file: Path, *, offline: bool) -> None:
    """Write the page of one question.

    Raises:
        ConfigError: the extra is missing, or the file cannot be written.
    """
    save_page(describe_question(team, done, offline=offline), file)


def describe_question(team: Team, done: Trajectory, *, offline: bool) -> RunReport:
    """Build the page of a question."""
    stored = StoredTrajectory.model_validate(done.model_dump(mode="json"))
    method = "" if team.method in BASELINES else team.method  # whose notes have no pictures
    place = make_place("run", "this question", "asked", 0, [stored]).replace(title="this question", method=method)
    picture = draw_run(method, stored.notes)
    rounds = _list_rounds(team, stored, picture, format_notes(method, stored.notes))
    spend = done.usage
    cost = SpendLine(role="agents", what="all", calls=spend.calls, tokens=spend.tokens, dollars=spend.dollars)
    return RunReport(
        run=stored.question.id,
        title=f"{team.method} on one question",
        verdict=_make_heading(stored),
        standfirst=stored.question.input,
        facts=(("method", team.method), ("team", team.fingerprint)),
        warning=STAMP if offline else "",
        versions=rounds,
        panels=picture.panels,
        places=(place,),
        spend=(cost,),
    )


def _make_heading(done: StoredTrajectory) -> str:
    """The last line of the answer, where most answers give their result."""
    lines = (done.answer or f"No answer: {done.error}").strip().splitlines()
    return shorten(lines[-1] if lines else "An empty answer", LONGEST, placeholder=" …")


def _list_rounds(
    team: Team, done: StoredTrajectory, picture: Picture, told: tuple[str, ...]
) -> tuple[TeamVersion, ...]:
    """The graph of each round: as the method draws it, else the agents that worked and the messages between them.

    Args:
        told: notes of each round, as the method formats them.
    """
    rounds = []
    for visit in sorted({*range(len(picture.frames)), *(step.visit for step in done.steps)}):
        own = [step for step in done.steps if step.visit == visit]
        frame = picture.frames[visit] if visit < len(picture.frames) else None
        if frame and (frame.graph or not own):
            known = [_make_card(team, name, own) for name in sorted({step.agent for step in own})]
            rounds.append(make_round(frame, visit + 1, team, known))
        else:
            found = _make_round(team, visit, own, told[visit : visit + 1])
            rounds.append(found.replace(panels=frame.panels, label=frame.label) if frame else found)
    return tuple(rounds)


def _make_round(team: Team, visit: int, steps: list[StoredStep], told: tuple[str, ...]) -> TeamVersion:
    nodes = {step.node: step.agent for step in steps}
    read = [(message.source, step.node) for step in steps for message in step.inbox]
    links = sorted({pair for pair in read if pair[0] in nodes and pair[0] != pair[1]})
    ends = team.topology
    return TeamVersion(
        number=visit + 1,
        label=f"Round {visit + 1}",
        ref="",
        accepted=None,
        why=told[0] if told else f"{len(nodes)} agents worked.",
        nodes=nodes,
        links=tuple(Link(source=a, target=b, traffic=read.count((a, b))) for a, b in links),
        entry=ends.entry if ends.entry in nodes else steps[0].node,
        sink=ends.sink if ends.sink in nodes else steps[-1].node,
        agents=tuple(_make_card(team, name, steps) for name in sorted(set(nodes.values()))),
    )


def _make_card(team: Team, name: str, steps: list[StoredStep]) -> AgentCard:
    own = [step for step in steps if step.agent == name]
    return make_card(team, name, unknown="(as the steps below show)").replace(
        learned={"says": own[-1].output[:600]},
        runs=1,
        calls=sum(step.usage.calls for step in own),
        tokens=sum(step.usage.tokens for step in own),
    )
