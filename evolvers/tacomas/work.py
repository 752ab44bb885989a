"""Team, agents and work of a round as TacoMAS's models read them: under the agents' own names, and nothing twice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat

from selfwire.core.agent import Agent
from selfwire.core.team import Team
from selfwire.core.text import excerpt, find_works, mark_earlier, mark_repeats
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.values import Id
from selfwire.evolvers.trajectory_text import TASK_LENGTH, format_trace

Notes = Mapping[str, Sequence[str]]
"""Refinements by agent, oldest first."""

ANSWER = "(wrote the team's answer)"
SAME = "(the same text as the team's answer)"
IN_ANSWER = "(as in the team's answer)"


def render_work(done: Trajectory, *, with_answer: bool = True) -> str:
    """The team's work, a block per step.

    Args:
        with_answer: off where the answer stands elsewhere in the prompt.
    """
    known = name_repeats(done if with_answer else hide_answer(done))
    places = Counter(agent for agent, _ in {(step.agent, step.node) for step in known.steps})
    named = (step.replace(node=step.agent) if places[step.agent] == 1 else step for step in known.steps)
    return format_trace(known.replace(steps=tuple(named)))


def hide_answer(done: Trajectory) -> Trajectory:
    """The round with a remark instead of the answer, its code or its tables in each output; the last step wrote it."""
    last = len(done.steps) - 1
    words = (ANSWER if n == last else SAME for n in range(len(done.steps)))
    return done.replace(steps=tuple(map(_without_answer, done.steps, repeat(done.answer or ""), words)))


def _without_answer(step: Step, answer: str, word: str) -> Step:
    if answer and step.output.strip() == answer.strip():
        return step.replace(output=word)
    return step.replace(output=mark_repeats(step.output, answer, IN_ANSWER))


def name_repeats(done: Trajectory) -> Trajectory:
    """The round with a remark instead of code and tables that stand in an earlier output."""
    outputs = mark_earlier(
        (f"(the same as that of {step.agent})", step.output, find_works(step.output)) for step in done.steps
    )
    return done.replace(
        steps=tuple(step.replace(output=output) for step, output in zip(done.steps, outputs, strict=True))
    )


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


def name_nodes(team: Team) -> dict[Id, str]:
    """Node id to its name for the meta-model: its agent's, where the agent has no other node."""
    agents = list(team.topology.agents.values())
    return {n.id: n.agent if agents.count(n.agent) == 1 else n.id for n in team.topology.nodes}


def render_graph(team: Team) -> str:
    """The team as lines of edges, with entry and sink."""
    names = name_nodes(team)
    topology = team.topology
    ends = f"entry: {names[topology.entry]}\nsink: {names[topology.sink]}"
    lines = [f"{names[node]} -> {', '.join(names[t] for t in topology.successors[node]) or 'nobody'}" for node in names]
    return "\n".join([ends, *lines])


def render_agent(agent: Agent, notes: Notes, length: int) -> str:
    """An agent's tools, prompt and notes, as text.

    Args:
        length: most characters of its prompt.
    """
    kept = [f"- {note}" for note in agent.memory]
    kept += [f"{number}. {note}" for number, note in enumerate(notes.get(agent.id, ()), 1)]
    lines = [f"tools: {', '.join(agent.tools) or 'none'}", f"prompt: {excerpt(agent.prompt, length)}"]
    return "\n".join([*lines, "notes:", *kept] if kept else lines)
