"""Trajectories in a terminal: messages, tools, routing scores and reasons."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfwire.cli import output
from selfwire.cli.json_output import add_result
from selfwire.core import topology
from selfwire.core.errors import ConfigError, LibraryError
from selfwire.core.plugins import method_names
from selfwire.core.text import suggest_name
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Step, Trajectory, describe_broken_tools
from selfwire.core.values import format_count, format_value, to_plain_json
from selfwire.evals.table import CAPPED, TRIVIAL, get_own_opinion
from selfwire.graphs.method import find_method
from selfwire.graphs.rollouts import TRAJECTORIES, get_sample_name
from selfwire.runs.record import JOURNAL, ROWS, explain_foreign, get_run_folder, list_run_names
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader

QUESTION = "(the question, as above)"
"""Text in place of the question in messages that repeat it."""


def show_steps(done: Trajectory) -> None:
    """Print the steps of a trajectory, without its end."""
    out = output.make_console()
    out.print(f"task {done.question.id}  team {done.workflow}", style="bold")
    out.print(_indented(done.question.input))
    stages = len({step.visit for step in done.steps}) > 1
    shown: set[tuple[str, str]] = set()
    for place, step in enumerate(done.steps):
        if stages and (not place or step.visit != done.steps[place - 1].visit):
            out.print(f"\n{'stage' if 'stages' in done.notes else 'round'} {step.visit + 1}", style="bold")
            shown.clear()
        _show_step(step, shown, done.question.input)


def show_trajectory(done: Trajectory) -> None:
    """Print a trajectory step by step, then its answer, feedback and cost."""
    show_steps(done)
    out = output.make_console()
    ended = "over the cap of calls" if done.notes.get(CAPPED) else "error"
    out.print("\nanswer" if done.error is None else f"\n{ended}", style="bold")
    out.print(_indented(done.answer if done.error is None else done.error))
    if done.feedback:
        solved = "solved" if done.feedback.solved else "not solved"
        out.print(f"feedback: {solved}, score {done.feedback.score:.3g}: {done.feedback.text}")
        if (judged := get_own_opinion(done)) is not None:
            right = "rightly" if judged == done.feedback.solved else "wrongly"
            out.print(f"the team's own judge {'passed' if judged else 'did not pass'} it, {right}")
    out.print(f"spent: {output.format_spend(done.usage)}")


def _show_step(step: Step, shown: set[tuple[str, str]], question: str) -> None:
    """Print a step; of a message that was shown in this stage already, print only the source.

    The question, which may hold whole passages, is printed above the steps and not again within messages.
    """
    out = output.make_console()
    skills = f"  skills: {', '.join(step.skills)}" if step.skills else ""
    out.print(f"\n{step.node} ({step.agent}){skills}", style="bold")
    for message in step.inbox:
        text = (
            " as above"
            if (message.source, message.text) in shown
            else f"\n{_indented(_cut_question(message.text, question), 4)}"
        )
        out.print(f"  from {message.source}:{text}")
        shown.add((message.source, message.text))
    for use in step.tools:
        result = f"{'error: ' if use.error else ''}{_one_line(use.result)}"
        out.print(f"  {use.name}({format_value(use.arguments)}) -> {result}")
    out.print(f"  error: {step.error}" if step.error else f"  output:\n{_indented(step.output, 4)}")
    shown.add((step.node, step.output))
    if step.routing:
        scores = ", ".join(f"{name} {format_value(score)}" for name, score in step.routing.scores.items())
        chosen = ", ".join(step.routing.chosen) or "nobody"
        out.print(f"  hands on to {chosen} ({step.routing.why}{'; scores: ' + scores if scores else ''})")
    for message in step.sent:
        if message.text != step.output:
            out.print(f"  tells {message.target}:\n{_indented(message.text, 4)}")


def _cut_question(text: str, question: str) -> str:
    return text if text == question or not question.strip() else text.replace(question, QUESTION)


def show_run(home: str | None, run: str, task: str | None, where: str | None) -> None:
    """Print the tasks of a run with their scores, or one task's trajectory.

    Args:
        where: part of the place to look in, such as `2/gate/candidate`, `test/after` or a system; None for the
            latest, and of an evaluation for the last system.

    Raises:
        ConfigError: there is no such run, task or place.
    """
    with explain_foreign(run):
        found = read_trajectories(home, run, task, where)
    if not found and task is None and where is None:
        raise ConfigError(
            f"run {run!r} has no trajectory: no phase has begun, or it is a study; "
            f"`selfwire report {run}` shows what there is"
        )
    if not found:
        raise ConfigError(
            f"run {run!r} has no trajectory{f' of task {task!r}' if task else ''} at {where or 'any place'}; "
            f"list what there is with `selfwire show {run}`"
        )
    if task is None:
        add_result(run=run, trajectories=[{"place": at, **summarise_trajectory(done)} for at, done in found])
        list_trajectories(found)
        return
    place, done = next((entry for entry in reversed(found) if entry[0] != TRIVIAL), found[-1])
    add_result(run=run, place=place, trajectory=done)
    others = ", ".join(dict.fromkeys(at for at, _ in found if at != place))
    output.make_console().print(f"{run}, {place}{f' (also at {others}: choose with --at)' if others else ''}")
    show_plan(done)
    show_trajectory(done)


def read_trajectories(
    home: str | Path | None, run: str, task: str | None = None, where: str | None = None
) -> list[tuple[str, Trajectory]]:
    """Read a run's trajectories with their places, such as `2/rollout`, in the order of the run.

    Raises:
        ConfigError: there is no such run.
    """
    with JournalReader(get_run_folder(home, run) / JOURNAL) as journal:
        return [*_trajectories(journal, task, where)]


def print_broken_tools(journal: Journal, home: str | Path | None) -> None:
    """Print which tools failed in every call of a run."""
    from selfwire.models.sync import run_sync  # nothing that only reads needs it

    if run_sync(journal.rows(kind="tool", state="failed")):
        lines = describe_broken_tools(done for _, done in read_trajectories(home, journal.run))
        add_result(broken_tools=lines)
        for line in lines:
            output.make_console().print(line)


def _trajectories(journal: JournalReader, task: str | None, where: str | None) -> Iterator[tuple[str, Trajectory]]:
    rows, phases = journal.notes(f"{ROWS}/"), journal.notes(TRAJECTORIES)
    for name in sorted(rows, key=lambda name: name.startswith(f"{ROWS}/{TRIVIAL}/")):
        _, place, own = name.split("/", 2)
        if task in (None, own) and (not where or where in place):
            yield place, journal.body(rows[name]["trajectory"], Trajectory.model_validate)
    for name in sorted(phases, key=_when):
        place = name.removeprefix(TRAJECTORIES).rstrip("/")
        if where and where not in place:
            continue
        for own, body in phases[name].items():
            if task in (None, own):
                yield place, journal.body(body, Trajectory.model_validate)


def _when(name: str) -> tuple[bool, int, bool, str, str]:
    """Sort places in the order of the run: by iteration, rollout before gate, test last."""
    iteration, phase, side = name.removeprefix(TRAJECTORIES).split("/", 2)
    return phase.startswith("test"), int(iteration), phase != "rollout", phase, {"before": "0"}.get(side, side)


def list_trajectories(found: list[tuple[str, Trajectory]]) -> None:
    """Print places, and below each the trajectories with score or error."""
    out = output.make_console()
    place = ""
    for at, done in found:
        if at != place:
            out.print(at, style="bold")
            place = at
        unscored = "over cap" if done.notes.get(CAPPED) else "error"
        score = unscored if done.feedback is None else f"{done.feedback.score:.2f}"
        steps = format_count(len(done.steps), "step")
        out.print(f"  {get_sample_name(done)}  {score:>5}  {steps:<7}  {_one_line(done.question.input, 70)}")
        if done.error is not None:
            out.print(f"    {' '.join(done.error.split())}")


def summarise_trajectory(done: Trajectory) -> dict[str, Any]:
    """Format a line of the list as JSON."""
    return {
        "task": done.question.id,
        "sample": get_sample_name(done),
        "score": None if done.feedback is None else done.feedback.score,
        "solved": None if done.feedback is None else done.feedback.solved,
        "error": done.error,
        "steps": len(done.steps),
    }


def _indented(text: str | None, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in (text or "").splitlines())


def _one_line(text: str, length: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 3]}..."


@contextmanager
def suggest_run(home: str | None, name: str) -> Iterator[None]:
    """Say in the error of a name of no team which run may be meant.

    Raises:
        LibraryError: there is no such team.
    """
    try:
        yield
    except LibraryError as error:
        runs = () if "://" in str(home) else list_run_names(home)
        near = suggest_name(name, runs, "did you mean the run {}?") or "`selfwire runs` lists them."
        raise LibraryError(f"there is no run {name!r}; {near} And {error}") from None


def is_run(home: str | None, name: str) -> bool:
    """Whether there is a run of this name."""
    return "://" not in str(home) and name in list_run_names(home)


def show_notes(method: str, done: Trajectory) -> None:
    """Print the notes in the method's own format, such as its rounds, and the topology that ran last, if any."""
    out, notes = output.make_console(), to_plain_json(done.notes)
    for block in find_method(method).format_notes(notes) if method in method_names() else ():
        out.print(f"\n{block}")
    if "topology" in notes:
        ran = Topology.model_validate(notes["topology"])
        out.print(f"\ntopology that ran last\n{topology.to_text(ran)}\n\n{topology.to_mermaid(ran)}\n")


def show_plan(done: Trajectory) -> None:
    """Print the notes on how a team was planned; nothing for methods that do not plan."""
    notes = to_plain_json(done.notes)
    if "topology" not in notes or "insights" not in notes:
        return
    profile = notes.get("profile")
    lines = [
        f"profile: {profile['type']}, {profile['difficulty']}: {profile['summary'] or 'not characterised'}"
        if profile
        else "profile: not characterised, as there are no insights to find by it",
        "insights shown:" if notes.get("insights") else "insights shown: none",
        *(
            f"  {insight['id']} (utility {insight['utility']:.2f}) {insight['text']}"
            for insight in notes.get("insights", [])
        ),
        "plan:" if not notes.get("default") else "plan: the default chain",
        *(f"  {line}" for line in topology.to_text(Topology.model_validate(notes["topology"])).splitlines()),
        *(f"repaired: {repair}" for repair in notes.get("repairs", [])),
    ]
    output.make_console().print("\n".join(["", *lines]))
