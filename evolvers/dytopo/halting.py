"""When a run is complete, and what its answer is (Sec. 3.5.2, the prompts' rules, Alg. 1 line 29)."""

from collections.abc import Sequence

from selfwire.core.text import find_code_blocks
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.turns import WorkerTurn

MARK = "(the answer, shown apart)"

Rounds = Sequence[Sequence[WorkerTurn]]
"""Turns by round; within a round in order sigma."""


def choose_answer(domain: Domain, rounds: Rounds) -> str | None:
    """The last text or code block of an answerer, from the newest round that has one; None if there is none."""
    for turns in reversed(rounds):
        for turn in reversed(turns):
            if turn.worker in domain.answerers and (found := _find_answer(domain, turn)):
                return found
    return None


def explain_no_answer(domain: Domain, rounds: Rounds) -> str:
    """Why a run has no answer: the last failure of each answerer, if any failed."""
    failed = {
        turn.worker: turn.error
        for turns in rounds
        for turn in turns
        if turn.error is not None and turn.worker in domain.answerers
    }
    causes = "; ".join(f"{worker!r} failed: {why}" for worker, why in failed.items())
    return f"no answer after {len(rounds)} round(s): {causes or 'none from ' + ' or '.join(domain.answerers)}"


def find_objection(domain: Domain, rounds: Rounds) -> str:
    """Check Equation 14's acceptance against the workers' turns: why the run is not complete.

    A complete run has an answer and, where the domain has checkers, their "pass" on it. The answer must be older than
    the round of the check, as no worker reads messages of the same round.

    Returns:
        The objection; blank if there is none.
    """
    current = choose_answer(domain, rounds)
    if current is None:
        wanted = "an answer" if domain.form == "text" else "code in a fenced block"
        return f"none of {', '.join(domain.answerers)} has given {wanted}"
    for checker in domain.checkers:
        own = ((at, turn) for at, turns in enumerate(rounds) for turn in turns if turn.worker == checker)
        given = [(at, turn.verdict) for at, turn in own if turn.error is None and turn.verdict]
        at, verdict = given[-1] if given else (0, "")
        if verdict != "pass":
            return f"{checker} has not passed the answer: {verdict or 'no verdict'}"
        if choose_answer(domain, rounds[:at]) != current:
            return f"{checker} has passed another answer than the one that stands"
    return ""


def show_answer(domain: Domain, answer: str) -> str:
    """The team's answer as members and manager read it: a program in the fence in which it was given."""
    return f"```\n{answer}\n```" if answer and domain.form == "code" else answer


def _find_answer(domain: Domain, turn: WorkerTurn) -> str:
    if domain.form == "text":
        return turn.answer.strip()
    found = find_code_blocks(turn.public) or find_code_blocks(turn.private)
    return found[-1] if found else ""
