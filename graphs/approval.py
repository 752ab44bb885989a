"""Approvals: a person is asked whether a change that the gate has accepted is kept.

The graph of the evolution stops at `approve` by LangGraph's `interrupt`, with an `ApprovalQuestion` as JSON, and goes
on with an `ApprovalAnswer`, or its first word alone, as `Command(resume="approve")`. An answer that cannot be used is
asked for again, with the fault.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, get_args

from langgraph.types import interrupt
from pydantic import Field, ValidationError

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError, EditError, format_first_fault
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import sum_usages
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, to_plain_json
from selfwire.evolvers.gate import GateDecision, estimate_gain, pair_scores

BY_HAND = "BY_HAND"
"""The operation of prompts that a person has changed."""
Answered = Literal["approve", "edit", "reject", "always"]


class ApprovalQuestion(FrozenModel):
    """A change that waits for a person.

    Args:
        name: that the team is saved under.
        iteration: from 1.
        why: the gate's reason.
        gain: mean gain on held-out tasks as value, low and high, with the number of tasks n; None if nothing was
            compared.
        before, after: calls, tokens and dollars per held-out task; None for an unknown price.
        kinds: of the edits, such as rewrite_prompt, which "always" approves from now on.
        rewirings: the edits with their reasons.
        diff: of the teams, as `TeamDiff` without what is equal.
        prompts: of the changed team, which "edit" may replace; none of what is frozen.
        fault: why the last answer could not be used.
        answers: forms of an answer.
    """

    run: str
    name: str
    iteration: int
    why: str
    gain: FrozenJson = None
    before: FrozenJson = None
    after: FrozenJson = None
    kinds: tuple[str, ...] = ()
    rewirings: FrozenJson = ()
    diff: FrozenJson = FrozenMap()
    prompts: Mapping[str, str] = FrozenMap()
    fault: str = ""
    answers: tuple[str, ...] = (
        "approve",
        "always",
        '{"answer": "reject", "why": "..."}',
        '{"answer": "edit", "prompts": {"AGENT": "the whole new prompt"}}',
    )


class ApprovalAnswer(FrozenModel):
    """A person's answer.

    Args:
        answer: approve, reject, edit (approve with other prompts), or always (approve, and later changes of these kinds
            too).
        by: the name of the person, for the history.
        why: the reason, for the history.
        prompts: of edit, whole prompts by agent.
    """

    answer: Answered
    by: str = Field(default="a person", min_length=1, max_length=64)
    why: str = Field(default="", max_length=1000)
    prompts: Mapping[str, str] = Field(default_factory=dict, max_length=100)

    @property
    def record(self) -> dict[str, Any]:
        """Values that are saved with the team that the answer makes: all but the prompts, which the team has."""
        return self.model_dump(mode="json", exclude={"prompts"})

    def list_same(self, team: Team) -> tuple[str, ...]:
        """The agents whose prompts in the answer are those that they have."""
        known = {agent.id: agent.prompt for agent in team.agents}
        return tuple(name for name, text in self.prompts.items() if known.get(name) == text)

    def has_made(self, team: Team, record: Mapping[str, Any]) -> bool:
        """Whether this is the answer with which a team was saved."""
        return record == self.record and len(self.list_same(team)) == len(self.prompts)


def parse_answer(given: Any) -> ApprovalAnswer:
    """Parse an answer, which may be its first word alone.

    Raises:
        ConfigError: it cannot be used.
    """
    try:
        found = ApprovalAnswer.model_validate({"answer": given} if isinstance(given, str) else given)
    except ValidationError as error:
        words = ", ".join(get_args(Answered))
        raise ConfigError(f"answer {str(given)[:100]!r}: {format_first_fault(error)}; give {words}") from None
    if (found.answer == "edit") != bool(found.prompts):
        raise ConfigError(f"answer {found.answer!r}: prompts are given with edit, and only with it")
    return found


def edit_by_hand(
    team: Team, answer: ApprovalAnswer, check: Callable[[Team], object]
) -> tuple[Team, tuple[Rewiring, ...]]:
    """Replace prompts as a person wishes; return the team with its lineage, and the rewiring.

    Raises:
        ConfigError: an agent is unknown, a prompt is blank or the old one, or `check` raises it.
    """
    if same := answer.list_same(team):
        raise ConfigError(f"the prompt of {same[0]!r} is as it was; approve it, or give another one")
    edits = [RewritePrompt(name, text) for name, text in answer.prompts.items()]
    rewiring = Rewiring(*edits, why=answer.why or "changed by hand", operation=BY_HAND, by=answer.by)
    try:
        changed = team.apply(rewiring)
    except EditError as error:
        raise ConfigError(str(error)) from None
    check(changed)
    return changed, (rewiring,)


def ask_person(
    question: ApprovalQuestion, team: Team, check: Callable[[Team], object]
) -> tuple[ApprovalAnswer, Team, tuple[Rewiring, ...]]:
    """Ask until an answer can be used; return it with the team that it makes, and the changes by hand.

    The first call of each question stops the graph; LangGraph calls again with the answers so far.
    """
    while True:
        try:
            answer = parse_answer(interrupt(question.model_dump(mode="json")))
            if answer.answer != "edit":
                return answer, team, ()
            if others := sorted(answer.prompts.keys() - question.prompts.keys()):
                agents = ", ".join(question.prompts) or "no agent"
                raise ConfigError(f"{others[0]!r} has no prompt that may be edited; choose from {agents}")
            return answer, *edit_by_hand(team, answer, check)
        except (ConfigError, ValueError) as error:
            question = question.replace(fault=str(error))


def measure_gain(
    before: Sequence[Trajectory],
    after: Sequence[Trajectory],
    *,
    is_proof: bool,
    groups: Mapping[str, str] = FrozenMap(),
) -> dict[str, Any] | None:
    """Measure the mean gain as the gate has, with its interval: in a proof errors of the candidate alone are wrong.

    Args:
        groups: of tasks that count as one by their mean, by task.
    """
    sides = (
        {run.question.id: run.feedback.score if run.feedback else None for run in runs} for runs in (before, after)
    )
    pairs, found = pair_scores(*sides, is_proof=is_proof), dict[tuple[bool, str], list[float]]()
    for task, (old, new) in pairs.items():
        group = groups.get(task, "")
        found.setdefault((bool(group), group or task), []).append(new - old)
    if not pairs:
        return None
    gains = [*map(fmean, found.values())]
    low, high = estimate_gain(gains)
    return {"value": fmean(gains), "low": low, "high": high, "n": len(pairs)}


def measure_price(runs: Sequence[Trajectory]) -> dict[str, Any] | None:
    """Calls, tokens and dollars per task; dollars are None for an unknown price."""
    if not runs:
        return None
    usage, size = sum_usages(run.usage for run in runs), len(runs)
    dollars = None if usage.dollars is None else usage.dollars / size
    return {"calls": usage.calls / size, "tokens": usage.tokens / size, "dollars": dollars}


def list_kinds(rewirings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Kinds of the edits of rewirings on record, sorted."""
    return tuple(sorted({edit["kind"] for rewiring in rewirings for edit in to_plain_json(rewiring)["edits"]}))


def apply_answer(decision: GateDecision, answer: ApprovalAnswer) -> GateDecision:
    """Put a person's answer into the gate's decision; what was changed by hand counts as not measured."""
    because = f" ({answer.why})" if answer.why else ""
    if answer.answer == "reject":
        return decision.replace(accepted=False, why=f"rejected by {answer.by}{because}, though {decision.why}")
    if answer.answer == "edit":
        why = f"changed by hand by {answer.by}{because}, and not measured since; before that: {decision.why}"
        return decision.replace(why=why, difference=None, compared=0, left_out=0, evidence=None)
    kind = "approved, with all later changes of this kind," if answer.answer == "always" else "approved"
    return decision.replace(why=f"{decision.why}; {kind} by {answer.by}{because}")
