"""The meta-model's slow update: its prompt and the use of its reply (App. D.1)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from selfwire.core.errors import ReplyError, get_error_cost
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.values import Id
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.lessons import get_lessons, render_lessons
from selfwire.evolvers.tacomas.rounds import RunSoFar, TacomasRound, render_goal
from selfwire.evolvers.tacomas.schemas import BirthDeathPair, SlowUpdate
from selfwire.evolvers.tacomas.slow import Delta, RefusedChange, enforce_budgets
from selfwire.evolvers.tacomas.work import Notes, cut_task, render_agent, render_graph, render_work

if TYPE_CHECKING:
    import numpy as np

PROMPT_LENGTH = 1_000


async def propose_slow_update(
    team: Team,
    run: RunSoFar,
    meta_model: PromptedModel,
    *,
    tools: Mapping[str, Tool],
    config: TacomasConfig,
    scope: Scope,
) -> Delta:
    """Ask for a structural delta and enforce the budgets; nothing changes where no valid reply comes back.

    Args:
        team: its lessons of earlier questions are shown.
        tools: that newborns may hold.
    """
    goal, trace = render_goal(run), render_work(run.done)
    try:
        update, usage = await meta_model.ask(
            SlowUpdate,
            "birth_death",
            scope=scope.at(node="birth-death"),
            task=cut_task(run.done.question.input, f"{goal}\n{trace}"),
            graph=render_graph(team),
            agents=render_agents(team, run.rounds, config, run.notes),
            scores=render_scores(run.rounds),
            goal=goal,
            trace=trace,
            lessons=render_lessons(get_lessons(team)),
            tools="\n".join(f"{name}: {tool.spec.description}" for name, tool in tools.items()),
            limits=render_limits(config),
        )
    except ReplyError as error:
        nothing = RefusedChange(change="slow update", reason=f"no valid reply: {error}")
        return Delta(workflow=team, refused=(nothing,), usage=get_error_cost(error))
    if config.slow.drawn:
        update = draw_births(update, team, tuple(tools), scope.random("births"))
    heard = config.capability and config.slow.feedback
    delta = enforce_budgets(
        team, update, config=config.slow, prompts=meta_model.prompts, tools=tuple(tools), feedback=heard
    )
    return delta.replace(usage=usage)


def draw_births(update: SlowUpdate, team: Team, tools: Sequence[Id], random: "np.random.Generator") -> SlowUpdate:
    """The update with as many births and deaths, of which the dead and a newborn's job and tools are drawn.

    A newborn does what a member that is drawn does, with as many tools as proposed; edges and words stay.
    """
    members, sink = team.members, team.agent_at(team.topology.sink).id
    mortal = [agent.id for agent in members if agent.id != sink]

    def redraw(pair: BirthDeathPair) -> BirthDeathPair:
        dead = mortal[int(random.integers(len(mortal)))] if pair.v_dead is not None and mortal else None
        if pair.v_new is None:
            return pair.model_copy(update={"v_dead": dead})
        job, held = members[int(random.integers(len(members)))], random.permutation(len(tools))
        drawn = [tools[at] for at in held[: len(pair.v_new.tools)]]
        born = pair.v_new.model_copy(update={"goal": job.role, "tools": drawn})
        return pair.model_copy(update={"v_dead": dead, "v_new": born})

    return update.model_copy(update={"birth_death_pairs": [redraw(pair) for pair in update.birth_death_pairs]})


def find_death_candidates(history: Sequence[Mapping[str, float]], *, interval: int, below: float) -> tuple[str, ...]:
    """Agents whose mean contribution over the last K rounds is below a limit: advice, not a gate.

    Args:
        history: contributions by agent, a mapping per round, oldest first.
    """
    recent = history[-interval:]
    agents = dict.fromkeys(agent for scores in recent for agent in scores)
    known = {agent: [scores[agent] for scores in recent if agent in scores] for agent in agents}
    return tuple(agent for agent, scores in known.items() if sum(scores) / len(scores) < below)


def render_agents(team: Team, rounds: Sequence[TacomasRound], config: TacomasConfig, notes: Notes) -> str:
    """A block per agent: role, contributions, the meta-judge's remarks of K rounds, tools, prompt, notes."""
    history = [{found.agent: found.score for found in done.contributions} for done in rounds]
    marked = find_death_candidates(history, interval=config.interval, below=config.slow.death_below)
    blocks = []
    for agent in team.members:
        scores = ", ".join(f"{scores[agent.id]:g}" for scores in history if agent.id in scores) or "not scored"
        recent = [found for done in rounds[-config.interval :] for found in done.contributions]
        remarks = " / ".join(found.reason for found in recent if found.agent == agent.id and found.reason)
        blocks.append(
            f"[{agent.id}] {agent.role}\n"
            f"contributions, oldest first: {scores}{' (a candidate for death)' if agent.id in marked else ''}\n"
            f"remarks, the latest last: {remarks or 'none'}\n{render_agent(agent, notes, PROMPT_LENGTH)}"
        )
    return "\n\n".join(blocks)


def render_scores(rounds: Sequence[TacomasRound]) -> str:
    """The judge's score per round, the first one being round 1."""
    return "\n".join(
        f"round {done.number + 1}: {'no verdict' if done.score is None else f'{done.score:.2f}'}"
        f"{f' ({done.error})' if done.error else ''}"
        for done in rounds
    )


def render_limits(config: TacomasConfig) -> str:
    """Budgets and caps in words."""
    most = f"At most {config.slow.pairs} pairs and {config.slow.edges} edge edits."
    edits = most if config.slow.budgeted else "Any number of pairs and edge edits."
    return f"{edits} At most {config.slow.nodes} agents in the team."
