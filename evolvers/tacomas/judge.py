"""The worth of a round, without labels: the checklist's score and each agent's contribution (Sec. 3.3, D.3).

The judge sees the question, the answer and what the team did, and nothing else.
"""

from collections.abc import Collection, Mapping, Sequence

from pydantic import Field

from selfwire.core.errors import add_cost_on_error
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.schemas import AgentScore, Checklist, Contributions, Operator, Verdict
from selfwire.evolvers.tacomas.work import cut_task, hide_answer, render_work
from selfwire.evolvers.trajectory_text import find_name, format_step, gather_all

WEAK = 0.3
"""Highest score of an agent without evidence: weak but partly relevant."""

CRITERION_LENGTH = 500
REASON_LENGTH = 500
LATER_ROUND = "; what it hands on from earlier rounds, with its evidence, counts as shown"


class RubricItem(FrozenModel):
    """An item of the checklist; a contradiction item passes where its criterion is false."""

    criterion: str
    operator: Operator = "correctness"


DEFAULT_CHECKLIST = (
    RubricItem(criterion="The answer gives what the task asks for."),
    RubricItem(criterion="The answer is supported by what the team found."),
    RubricItem(criterion="The answer has the form that the task demands."),
    RubricItem(criterion="The answer leaves the task open or contradicts itself.", operator="contradiction"),
)
"""Checked where the meta-model drafts nothing valid."""


class Judgement(FrozenModel):
    """The judge's verdict on a round's answer.

    Args:
        score: s_t in [0, 1], the lower one where there are two; None where no valid verdict came back.
        confirmed: whether two independent verdicts reached the threshold.
        failed: what the items that did not pass ask for (`to_goal`); those of the second verdict where the first passes
            all.
        struck: criteria of the items that the task allows no answer to pass; they do not count (D22).
    """

    score: float | None = Field(default=None, ge=0, le=1)
    confirmed: bool = False
    failed: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    usage: Usage = Usage()


class Contribution(FrozenModel):
    """c_v of one agent in one round.

    Args:
        score: in [0, 1], capped at `WEAK` without evidence.
        reason: the meta-judge's justification.
    """

    agent: str
    score: float = Field(ge=0, le=1)
    reason: str = ""
    evidence: bool = True


def strike_items(
    items: Sequence[RubricItem], results: Sequence[bool], impossible: Collection[int], *, most: int
) -> tuple[tuple[RubricItem, ...], tuple[bool, ...], tuple[str, ...]]:
    """The items that count, with their results, and the criteria of those that do not (D22).

    An item is struck where it does not pass and no answer could pass it.

    Args:
        impossible: numbers of items, from 1.
        most: struck items; half of a whole list.
    """
    failed = [number for number, item in enumerate(items, 1) if list_failed_items([item], results[number - 1 : number])]
    struck = [number for number in failed if number in impossible][:most]
    left = [number for number in range(1, len(items) + 1) if number not in struck]
    return (
        tuple(items[number - 1] for number in left),
        tuple(results[number - 1] for number in left if number <= len(results)),
        tuple(items[number - 1].criterion for number in struck),
    )


def checklist_score(items: Sequence[RubricItem], results: Sequence[bool]) -> float:
    """s_t: share of the items that pass, of at least one."""
    return (len(items) - len(list_failed_items(items, results))) / len(items)


def to_goal(item: RubricItem) -> str:
    """The goal that an answer has to achieve to pass an item."""
    if item.operator == "correctness":
        return item.criterion
    return f"Make sure that this is not so: {item.criterion}"


def list_failed_items(items: Sequence[RubricItem], results: Sequence[bool]) -> tuple[str, ...]:
    """The goals of the items that do not pass; an item without a result does not.

    Args:
        results: whether each criterion is true of the answer, in the order of the items.
    """
    passed = [is_true == (item.operator == "correctness") for item, is_true in zip(items, results, strict=False)]
    return tuple(to_goal(item) for n, item in enumerate(items) if n >= len(passed) or not passed[n])


async def draft_checklist(
    question: Question, meta_model: PromptedModel, *, scope: Scope
) -> tuple[tuple[RubricItem, ...], Usage]:
    """4 to 6 items from the question alone; `DEFAULT_CHECKLIST` where no valid draft comes back."""
    place = scope.at(node="checklist")
    draft, usage = await meta_model.ask_or(None, Checklist, "checklist", scope=place, task=question.input)
    drafted = draft.items if draft else ()
    cut = ((" ".join(item.criterion.split())[:CRITERION_LENGTH], item.operator) for item in drafted)
    items = tuple(RubricItem(criterion=text, operator=operator) for text, operator in dict.fromkeys(cut) if text)
    return items or DEFAULT_CHECKLIST, usage


async def judge_answer(
    done: Trajectory, items: Sequence[RubricItem], meta_model: PromptedModel, *, threshold: float, scope: Scope
) -> Judgement:
    """s_t of a round; a score that would end the run is confirmed by a second judgement (D5).

    Args:
        done: the round, with an answer.
    """
    verdict, usage = await _verdict(done, items, meta_model, scope.at(node="judge"))
    if verdict is None:
        return Judgement(usage=usage)
    most = len(items) // 2
    items, results, struck = strike_items(items, verdict.results, verdict.impossible, most=most)
    score, failed = checklist_score(items, results), list_failed_items(items, results)
    if score < threshold:
        return Judgement(score=score, failed=failed, struck=struck, usage=usage)
    turned = tuple(reversed(items))
    with add_cost_on_error(usage):
        again, more = await _verdict(done, turned, meta_model, scope.at(node="judge-again"))
    if again is None:
        return Judgement(score=score, failed=failed, struck=struck, usage=usage + more)
    turned, again_results, too = strike_items(turned, again.results, again.impossible, most=most - len(struck))
    results = tuple(result for item, result in zip(items, results, strict=False) if item in turned)
    items = tuple(reversed(turned))  # what the second verdict strikes does not count in the first one either
    score = min(checklist_score(items, results), checklist_score(turned, again_results))
    return Judgement(
        score=score,
        confirmed=score >= threshold,
        failed=list_failed_items(items, results) or list_failed_items(turned, again_results),
        struck=(*struck, *too),
        usage=usage + more,
    )


async def _verdict(
    done: Trajectory, items: Sequence[RubricItem], meta_model: PromptedModel, scope: Scope
) -> tuple[Verdict | None, Usage]:
    return await meta_model.ask_or(
        None,
        Verdict,
        "judge",
        scope=scope,
        by="judge",
        task=done.question.input,
        answer=done.answer or "",
        checklist="\n".join(f"{n}. ({item.operator}) {item.criterion}" for n, item in enumerate(items, 1)),
        trace=render_work(done, with_answer=False),
        later=LATER_ROUND if scope.visit else "",
    )


def has_evidence(steps: Sequence[Step]) -> bool:
    """The precheck: some step of the agent has an output, and none of its tool calls failed."""
    return any(step.output.strip() and not any(use.error for use in step.tools) for step in steps)


async def assess_contributions(
    done: Trajectory, agents: Sequence[tuple[str, str]], meta_model: PromptedModel, *, each: bool = False, scope: Scope
) -> tuple[tuple[Contribution, ...], Usage]:
    """c_v of every agent whose model did not fail.

    Args:
        each: whether to ask once per agent, in parallel, instead of once for all.

    Returns:
        In the order of `agents`; those without a valid score are left out.
    """
    steps = {agent: [step for step in done.steps if step.agent == agent] for agent, _ in agents}
    read = {agent: [step for step in hide_answer(done).steps if step.agent == agent] for agent, _ in agents}
    shown = {a: _shown(a, role, read[a]) for a, role in agents if not any(step.error for step in steps[a])}
    groups = [{agent: text} for agent, text in shown.items()] if each else [shown]
    replies = await gather_all(_scores(done, group, meta_model, scope) for group in groups if group)
    given = {agent: score for scores, _ in replies for agent, score in scores.items()}
    found = []
    for agent, judged in ((agent, given[agent]) for agent in shown if agent in given):
        evidence = has_evidence(steps[agent])
        score = judged.score if evidence else min(judged.score, WEAK)
        reason = " ".join(judged.reason.split())[:REASON_LENGTH]
        found.append(Contribution(agent=agent, score=score, reason=reason, evidence=evidence))
    return tuple(found), sum_usages(usage for _, usage in replies)


async def _scores(
    done: Trajectory, shown: Mapping[str, str], meta_model: PromptedModel, scope: Scope
) -> tuple[dict[str, AgentScore], Usage]:
    place = f"contributions-{next(iter(shown))}" if len(shown) == 1 else "contributions"
    work = "\n\n".join(shown.values())
    reply, usage = await meta_model.ask_or(
        None,
        Contributions,
        "contributions",
        scope=scope.at(node=place),
        by="judge",
        task=cut_task(done.question.input, f"{done.answer or ''}\n{work}"),
        answer=done.answer or "(the team gave no answer)",
        agents=work,
    )
    scores = reply.scores if reply else ()
    return {agent: score for score in reversed(scores) if (agent := find_name(score.agent, shown))}, usage


def mean_contribution(scores: Sequence[Contribution]) -> float | None:
    """m_t, the team's mean contribution; None where no agent was scored."""
    return sum(found.score for found in scores) / len(scores) if scores else None


def _shown(agent: str, role: str, steps: Sequence[Step]) -> str:
    check = "" if has_evidence(steps) else "evidence precheck: FAIL\n"
    done = "\n".join(format_step(step) for step in steps) or "(it was not reached in this round)"
    return f"[{agent}] {excerpt(' '.join(role.split()), 200)}\n{check}{done}"
