"""When a run is complete, and what its answer is (Sec. 3.5.2, the prompts' rules, Alg. 1 line 29)."""

import re
from collections.abc import Sequence

from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.turns import WorkerTurn

_BLOCK = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)

MARK = "(the answer, shown apart)"
_FENCED_MARK = re.compile(rf"```[^\n`]*\n{re.escape(MARK)}\n?```")
REPEATED = 80
"""Characters from which on an answer is marked where it is repeated; a shorter one may be a part of a sentence."""

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


def find_code_blocks(text: str) -> tuple[str, ...]:
    """The fenced code blocks of a text, without their fences."""
    return tuple(block.strip("\n") for block in _BLOCK.findall(text) if block.strip())


def mark_answer(text: str, answer: str) -> str:
    """Put a mark in place of a long answer, or of its code, in a text that is shown beside the answer."""
    for piece in (answer.strip(), *find_code_blocks(answer)):
        if len(piece) >= REPEATED:
            text = text.replace(piece, MARK)
    return _FENCED_MARK.sub(MARK, text)


def _find_answer(domain: Domain, turn: WorkerTurn) -> str:
    if domain.form == "text":
        return turn.answer.strip()
    found = find_code_blocks(turn.public) or find_code_blocks(turn.private)
    return found[-1] if found else ""
