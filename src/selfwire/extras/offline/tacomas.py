"""Critics of a team that changes while it works: checklist, verdict, contributions, refinement, slow update.

They know the symptoms of a task's family: a step that the work does not show, an answer that leaves the task
open. A wrong answer without a symptom passes, as with any judge that does not know the right one.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.skills import PLACES, CriticView
from selfwire.extras.offline.vocabulary import USELESS, find_skills

ITEMS = (
    ("The answer settles the question and leaves nothing open.", "correctness"),
    ("Every step that the task needs shows in the work.", "correctness"),
    ("The answer follows from what the work shows.", "correctness"),
    ("The answer is a guess, or the work behind it is missing.", "contradiction"),
)
LEVELS = (0.0, 0.3, 0.5, 0.7, 1.0)
REMARKS = ("Nothing came of it.", "Hardly anything new.", "One thing to build on.", "Much to build on.", "It decided.")

OPEN = re.compile(r"\bunknown\b|\bnot known\b|\bcannot (?:say|tell)\b", re.IGNORECASE)
_OWN = re.compile(r"^\s*-\s+(?!Remark:|Idea:)(.+)$", re.MULTILINE)
_ANSWER_TEXT = re.compile(r"\((?:wrote|the same text as) the team's answer\)")
_ANSWER = re.compile(r"^\W*(?:final )?answer\W*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)


def checklist(brief: CriticInput) -> dict[str, Any]:
    """Criteria for any answer; sometimes one is replaced by a useless one."""
    items = [{"criterion": criterion, "operator": operator} for criterion, operator in ITEMS]
    if brief.errs("checklist", share=0.1):
        items[2] = {"criterion": "The answer is short.", "operator": "correctness"}
    return {"items": items}


def verdict(brief: CriticInput) -> dict[str, Any]:
    """Judge each criterion by symptoms; at the error rate a missing step is overlooked, or an existing one not seen."""
    lines = [line for line in brief["checklist"].split("\n") if line.strip()]
    open_ = not brief["answer"].strip() or bool(OPEN.search(brief["answer"]))
    shown = f"{brief['trace']}\n{brief['answer']}"
    missing = bool(brief.family.missing(CriticView(brief["task"], shown))) != brief.errs("verdict")
    results = [_is_true(line, open_, missing) for line in lines]
    reason = "The answer leaves the task open." if open_ else "A step does not show." if missing else "It holds up."
    return {"results": results, "impossible": [], "reason": reason}


def contributions(brief: CriticInput) -> dict[str, Any]:
    """Score agents by their new notes; repeating others is worth little."""
    final, seen, scores = _last_answer(brief["answer"]), set[str](), []
    decided = False
    for name, body in _blocks(brief["agents"]):
        block = _Block(name, _ANSWER_TEXT.sub(lambda _: brief["answer"], body))
        own = [line for line in _OWN.findall(block.text) if line not in seen]
        seen.update(own)
        level = 2 if len(own) == 1 else 3 if own else 1
        if "(it was not reached" in block.text:
            level = 0
        elif "precheck: FAIL" in block.text:
            level = min(level, 1)
        elif not decided and own and final and _last_answer(block.text) == final:
            decided, level = True, 4
        if brief.errs(f"score {block.name}"):
            level = LEVELS.index(float(brief.pick(f"level {block.name}", [str(level) for level in LEVELS])))
        scores.append({"agent": block.name, "score": LEVELS[level], "reason": REMARKS[level]})
    return {"scores": scores}


def refinement(brief: CriticInput) -> dict[str, Any]:
    """For every agent, a step that neither its work nor what it reads shows, if it has a free place for it."""
    edges = [line.partition(" -> ") for line in brief["graph"].split("\n") if " -> " in line]
    work = dict(_blocks(brief["trace"], [name for name, *_ in edges]))
    read = {agent: [name for name, _, targets in edges if agent in targets.split(", ")] for agent, *_ in edges}
    coached = []
    for agent, text in _blocks(brief["agents"], list(read)):
        shown = "\n".join(work.get(name, "") for name in (*read.get(agent, ()), agent))
        coached += _refine(brief, agent, text.partition("prompt:")[2], shown)
    return {"agents": coached}


def _refine(brief: CriticInput, agent: str, prompt: str, shown: str) -> list[dict[str, Any]]:
    has = find_skills(prompt)
    found = brief.family.missing(CriticView(brief["task"], shown))
    wanted = [skill for skill in found if skill not in has]
    if brief.errs(f"refinement {agent}"):
        wanted = [brief.any_skill(f"refinement {agent}")]
    if not wanted or len(has) >= PLACES:
        return []
    update = brief.phrase(brief.pick(f"step {agent}", wanted))
    return [
        {
            "agent": agent,
            "errors": "A step is missing.",
            "plan": "Take it.",
            "kind": "prompt",
            "update": update,
            "drop": [],
        }
    ]


def slow_update(brief: CriticInput) -> dict[str, Any]:
    """A new agent for a missing step, in place of the weakest one; else an edge to the sink."""
    sink, entry = _end(brief["graph"], "sink"), _end(brief["graph"], "entry")
    others = [block for block in _blocks(brief["agents"]) if block.name != sink]
    wanted = list(brief.missing[:PLACES])
    if brief.errs("slow update"):
        wanted = [brief.any_skill("slow update")]
    weak = [block for block in others if block.name != entry and _is_weak(block.text)]
    pairs, edits = [], []
    if wanted:
        dead = brief.pick("death", [block.name for block in weak]) if weak else None
        newborn = _describe_agent(brief, wanted)
        pairs.append({"v_dead": dead, "v_new": newborn})
        if dead is None:
            edits += [_edge(entry, newborn["role"]), _edge(newborn["role"], sink)]
    elif others:
        strong = max(others, key=lambda block: _mean(block.text))
        edits.append(_edge(strong.name, sink))
    return {
        "birth_death_pairs": pairs,
        "graph_edit": edits,
        "agent_feedback": [],
        "global_rationale": f"Nobody takes a step: {', '.join(wanted)}." if wanted else "Evidence must reach the end.",
        "time_control": _time_control(brief, wanted),
    }


class _Block(NamedTuple):
    name: str
    text: str


def _is_true(line: str, open_: bool, incomplete: bool) -> bool:
    """Judge a criterion by its words; one against the answer is true if there are symptoms."""
    text = line.lower()
    if re.search(r"\(contradiction\)", text):
        return open_ or incomplete
    if re.search(r"\bstep|\bwork\b|support|found|evidence|source", text):
        return not incomplete
    return not open_


def _blocks(text: str, names: Sequence[str] = ()) -> list[_Block]:
    """The blocks of a text; those of these names only, where names are given."""
    known = "|".join(map(re.escape, names)) or r"[A-Za-z0-9][\w-]*"
    _, *parts = re.split(rf"^\[({known})\]", text, flags=re.MULTILINE)
    return [_Block(name, body) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def _last_answer(text: str) -> str:
    found = _ANSWER.findall(text)
    return found[-1].strip().lower() if found else ""


def _is_weak(block: str) -> bool:
    names = find_skills(block.split("prompt:", 1)[-1])
    return "(a candidate for death)" in block or _mean(block) <= 0.3 or bool(names and set(names) <= USELESS)


def _mean(block: str) -> float:
    line = re.search(r"oldest first: ([\d., ]+)", block)
    scores = [float(score) for score in re.findall(r"\d+(?:\.\d+)?", line[1])] if line else []
    return sum(scores) / len(scores) if scores else 0.5


def _end(graph: str, name: str) -> str:
    found = re.search(rf"^{name}: (\S+)$", graph, re.MULTILINE)
    return found[1] if found else ""


def _describe_agent(brief: CriticInput, wanted: Sequence[str]) -> dict[str, Any]:
    taken = wanted[: PLACES if brief.chance("two steps", 0.5) else 1]
    offered = [line.partition(":") for line in brief["tools"].split("\n") if ":" in line]
    needed = {name.strip(): text for name, _, text in offered if re.search(brief.family.needs, f"{name} {text}", re.I)}
    held = {tool for line in re.findall(r"^tools: (.+)$", brief["agents"], re.MULTILINE) for tool in line.split(", ")}
    if unheld := {name: text for name, text in needed.items() if name not in held}:  # what is held has found nothing
        alike = {name: len(_stems(text) & _stems(brief["task"])) for name, text in unheld.items()}
        best = brief.pick("tool", [name for name, shared in alike.items() if shared == max(alike.values())])
        needed = {best: needed[best]}
    goal = " ".join(brief.phrase(skill) for skill in taken)
    return {"role": "specialist", "goal": goal, "tools": [*needed] or [name.strip() for name, _, _ in offered]}


def _stems(text: str) -> set[str]:
    return {word[:3].lower() for word in re.findall(r"[^\W\d_]{4,}", text)}


def _edge(source: str, target: str) -> dict[str, str]:
    return {"op": "edge_add", "source": source, "target": target}


def _time_control(brief: CriticInput, wanted: Sequence[str]) -> str:
    scores = re.findall(r"^round \d+: ([\d.]+)", brief["scores"], re.MULTILINE)
    if not wanted and len(scores) >= 4 and len(set(scores[-4:])) == 1:
        return "stop"
    return "slow_again" if wanted and brief.chance("slow again", 0.15) else "continue"
