"""A round and its agents as TacoMAS's models read them: under the agents' own names, and nothing twice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat

from selfwire.core.agent import Agent
from selfwire.core.excerpt import excerpt
from selfwire.core.trajectory import Step, Trajectory
from selfwire.evolvers.trace_text import format_trace

Notes = Mapping[str, Sequence[str]]
"""Refinements by agent, oldest first."""

ANSWER = "(wrote the team's answer)"
SAME = "(the same text as the team's answer)"
TASK_LENGTH = 4_000


def render_work(done: Trajectory, *, with_answer: bool = True) -> str:
    """What the team did, one block per step.

    Args:
        with_answer: off where the answer stands elsewhere in the prompt.
    """
    known = done if with_answer else hide_answer(done)
    places = Counter(agent for agent, _ in {(step.agent, step.node) for step in known.steps})
    named = (step.replace(node=step.agent) if places[step.agent] == 1 else step for step in known.steps)
    return format_trace(known.replace(steps=tuple(named)))


def hide_answer(done: Trajectory) -> Trajectory:
    """The round with a word in the place of each output that is the answer; the last step is the one that wrote it."""
    last = len(done.steps) - 1
    words = (ANSWER if n == last else SAME for n in range(len(done.steps)))
    return done.replace(steps=tuple(map(_without_answer, done.steps, repeat(done.answer), words)))


def _without_answer(step: Step, answer: str | None, word: str) -> Step:
    return step.replace(output=word) if answer and step.output.strip() == answer.strip() else step


def cut_task(task: str, about: str) -> str:
    """A task for those who score contributions, coach or rewire (D14).

    Of a long one the first and the last paragraph, of which one asks, and what matters of the others for the work.
    """
    first, *others = task.split("\n\n")
    last = others.pop() if others else ""
    room = TASK_LENGTH - len(first) - len(last)
    if len(task) <= TASK_LENGTH or not others:
        return task
    if room < TASK_LENGTH // 4:
        return excerpt(task, TASK_LENGTH, about)
    return "\n\n".join([first, excerpt("\n\n".join(others), room, f"{first} {last} {about}"), last])


def render_agent(agent: Agent, notes: Notes, length: int) -> str:
    """What an agent holds and is told: tools, prompt and notes.

    Args:
        length: most characters of its prompt.
    """
    kept = [f"- {note}" for note in (*agent.memory, *notes.get(agent.id, ()))]
    lines = [f"tools: {', '.join(agent.tools) or 'none'}", f"prompt: {excerpt(agent.prompt, length)}"]
    return "\n".join([*lines, "notes:", *kept] if kept else lines)
