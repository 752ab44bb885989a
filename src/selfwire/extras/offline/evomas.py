"""Scripted critics of EvoMAS: planner, evaluator, ensemble and the closing call.

They know the symptoms of a task's family: the steps that the work does not show yet, and an answer that leaves the task
open. A plan is a list of such steps in words, and a subtask is done when its step shows. None of them takes a step.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from selfwire.extras.offline.critic_input import INSTRUCTIONS, CriticInput
from selfwire.extras.offline.skills import CriticView
from selfwire.extras.offline.tacomas import OPEN
from selfwire.extras.offline.vocabulary import find_skills

_PLANNED = re.compile(
    r"^\[(\w[\w-]*)\] (TODO|NEED-REFINE|DONE|FAILED): (.+?)(?: \((?:tried|given up)\b.*)?$", re.MULTILINE
)
_ANSWER = re.compile(r"^[\W_]*(?:final )?answer\W*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_SOLUTION = re.compile(r"^([A-Z])\.$", re.MULTILINE)
_FINDING = re.compile(r"^\[\d+, (passed|not passed)\].*$", re.MULTILINE)
_RESULT = re.compile(r"^Result of \[[\w-]+\]:$", re.MULTILINE)
_OPEN_TAGS = ("TODO", "NEED-REFINE")


class _PlannedStep(NamedTuple):
    id: str
    status: str
    goal: str


def planner(brief: CriticInput) -> dict[str, Any]:
    """Plan a subtask per missing step; after a failure, other wordings of the steps that are still missing."""
    previous = [_PlannedStep(*found) for found in _PLANNED.findall(brief["state"])]
    missing = list(dict.fromkeys(_missing(brief, f"{brief['state']}\n{brief['outcome']}")))
    if missing and brief.errs("plan", share=0.5):
        missing[0] = brief.any_skill("plan")
    subtasks = [{"id": step.id, "goal": step.goal, "status": step.status} for step in previous]
    if not previous or "failed for good" in brief["assessment"]:
        known = {step.goal for step in previous}
        pending = {step.goal for step in previous if step.status in _OPEN_TAGS}
        goals = [_write_goal(brief, skill, known) for skill in missing] or ["Give the answer."]
        subtasks += [{"id": "", "goal": goal, "status": "TODO"} for goal in goals if goal not in pending]
    done = sum(step.status == "DONE" for step in previous)
    return {
        "subtasks": subtasks,
        "active": "",
        "summary": f"{done} of {len(subtasks)} subtasks are done." if previous else "",
        "hint": f"The work lacks a step: {brief.phrase(missing[0])}" if missing else "No step is missing.",
    }


def evaluator(brief: CriticInput) -> dict[str, Any]:
    """Judge whether the subtask's step shows, and for the last subtask also an answer; repeat the best one."""
    shown = f"{brief['state']}\n{brief['outcome']}"
    missing = set(_missing(brief, shown))
    own = {step for step in brief.family.missing(CriticView(brief["task"])) if step == brief["subtask"]}
    wanted = own or set(find_skills(brief["subtask"]))
    lacking = (missing & wanted) or (missing if not wanted else set[str]())
    is_last = sum(status in _OPEN_TAGS for _, status, _ in _PLANNED.findall(brief["state"])) <= 1
    is_open = is_last and _is_open(brief["outcome"])
    done = not lacking and not is_open
    if brief.errs("evaluate", share=0.5):
        done = not done
    complaint = f"A step does not show: {', '.join(sorted(lacking))}." if lacking else "The answer is left open."
    return {
        "answer": brief.family.join(shown) or _choose_answer(brief, done=done),
        "feedback": "The step shows in the work." if done else complaint,
        "reward": 1.0 if done else 0.0,
        "refine": not done and not brief.chance("give up", 0.1),
        "confidence": 0.8 if done == (not lacking) else 0.4,
    }


def ensemble(brief: CriticInput) -> dict[str, Any]:
    """The first solution with the most frequent answer; open answers do not count."""
    parts = _SOLUTION.split(brief["solutions"])
    letters = {letter: body for letter, body in zip(parts[1::2], parts[2::2], strict=False) if letter}
    answers = {letter: _answer(text) for letter, text in letters.items()}
    counted = Counter(answer for answer in answers.values() if answer)
    best = counted.most_common(1)[0][0] if counted else ""
    chosen = next((letter for letter, answer in answers.items() if answer == best), "A")
    if letters and brief.errs("choice", share=0.5):
        chosen = brief.pick("letter", list(letters))
    return {"thought": f"{counted[best] if best else 0} of {len(letters)} agree.", "solution_letter": chosen}


def synthesis(brief: CriticInput) -> dict[str, Any]:
    """The answer of the findings; what findings of the task's family give together comes first."""
    if joined := brief.family.join(brief["findings"]):
        return {"answer": joined}
    parts = _FINDING.split(brief["findings"])
    findings = [(verdict == "passed", text.strip()) for verdict, text in zip(parts[1::2], parts[2::2], strict=True)]
    return {"answer": _choose_line(findings)}


def _choose_answer(brief: CriticInput, *, done: bool) -> str:
    results = [(True, text.strip()) for text in _RESULT.split(brief["state"])[1:]]
    return _choose_line([*results, (done, brief["outcome"])])


def _choose_line(findings: Sequence[tuple[bool, str]]) -> str:
    """The answer line of the last text that leaves nothing open, one that passed if there is any; else its text."""
    settled = [(passed, text) for passed, text in findings if not _is_open(text)]
    chosen = [text for passed, text in settled if passed] or [text for _, text in settled] or ["Answer: unknown"]
    *_, line = [found[0] for found in _ANSWER.finditer(chosen[-1])] or [chosen[-1]]
    return line.strip()


def _missing(brief: CriticInput, shown: str) -> tuple[str, ...]:
    return brief.family.missing(CriticView(brief["task"], shown))


def _write_goal(brief: CriticInput, skill: str, previous: set[str]) -> str:
    fresh = [text for text in INSTRUCTIONS.get(skill, (skill,)) if " ".join(text.split()) not in previous]
    return brief.pick(f"goal {skill}", fresh) if fresh else brief.phrase(skill)


def _answer(text: str) -> str:
    found = _ANSWER.findall(text)
    return "" if not found or OPEN.search(found[-1]) else str(found[-1]).strip().lower()


def _is_open(text: str) -> bool:
    found = _ANSWER.findall(text)
    return not text.strip() or bool(found and OPEN.search(found[-1]))
