"""Critics of textual gradients: they diagnose a run, share the blame, and rewrite prompts and the team.

Advice travels as natural language: `PROMPT_CUE` opens what a prompt should say, `TEAM_CUE` what a new agent
should do, `DROP_CUE` what a prompt should no longer say. A later reader understands it only by the common vocabulary.
"""

import re
from typing import Any

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.skills import PLACES
from selfwire.extras.offline.tool_repair import find_tool_fault
from selfwire.extras.offline.vocabulary import USELESS, find_skills

PROMPT_CUE = "The prompt should say: "
TEAM_CUE = "The team needs another agent: "
DROP_CUE = "The prompt should no longer say: "

HAND_OVERS = (
    "Go on from here. These are the notes so far:",
    "Please take over; what is known up to now:",
    "Continue the work on the task with what has been found:",
)


def instruction(brief: CriticInput) -> dict[str, Any]:
    """Hand over the notes, not the raw results of tools; sometimes one note is forgotten."""
    notes = _without_tool_uses([line for line in brief["output"].split("\n") if line.strip()])
    if notes and brief.errs("hand-over", share=0.1):
        notes.remove(brief.pick("forgotten note", notes))
    return {"instruction": "\n".join([brief.pick("hand-over", HAND_OVERS), *notes])}


def task_profile(brief: CriticInput) -> dict[str, Any]:
    """The concepts of the task, by the form of its text."""
    main, *others = brief.family.concepts(brief["task"])
    known = [line.strip(" -") for line in re.split(r"[\n,]", brief["known_concepts"]) if line.strip(" -")]
    if known and brief.errs("concept"):
        main = brief.pick("concept", known)
    tools = [line.strip(" -") for line in brief["tools"].split("\n") if re.search(brief.family.needs, line, re.I)]
    return {
        "main_concept": main,
        "broader": [f"{brief.family.name} task"],
        "concepts": others,
        "required_tools": [line.partition(":")[0].strip() for line in tools],
        "parallelizability": brief.family.parallel(brief["task"]),
    }


def global_gradient(brief: CriticInput) -> dict[str, Any]:
    """Name the steps that the trace does not show."""
    if read_score(brief["feedback"]) >= 1:
        said = "The answer was accepted; keep working this way."
        return {"feedback": said, "own_feedback": "", "sentiment": "positive"}
    missing = brief.missing[:PLACES]
    if not missing:
        said = "The answer was not accepted, though every step seems to be there."
        return {"feedback": said, "own_feedback": "", "sentiment": "neutral"}
    cues = [brief.pick(f"cue {skill}", (PROMPT_CUE, TEAM_CUE)) for skill in missing]
    advice = "\n".join(cue + brief.phrase(skill) for cue, skill in zip(cues, missing, strict=True))
    return {
        "feedback": f"The answer was not accepted. The work lacks a step.\n{advice}",
        "own_feedback": "",  # the advice is for whoever can follow it
        "sentiment": "critical" if PROMPT_CUE in cues else "neutral",
    }


def agent_gradient(brief: CriticInput) -> dict[str, Any]:
    """Pass on what the successors lack: to this agent's prompt if it has a free place, else to the team."""
    has = find_skills(brief["role"])
    wanted = [skill for skill in find_skills(brief["successor_feedback"]) if skill not in has][:PLACES]
    if wanted and brief.errs("blame"):
        wanted[0] = brief.any_skill("blame")
    foreign = frozenset(find_skills(brief["role"])) - brief.family.abilities.keys() if brief["task"] else USELESS
    useless = [skill for skill in has if skill in foreign]
    prompt, team = [], []
    for skill in wanted:
        free = len(has) - len(useless) < PLACES
        if free and brief.chance(f"own {skill}", 0.5):
            prompt.append(PROMPT_CUE + brief.phrase(skill))
        else:
            team.append(TEAM_CUE + brief.phrase(skill))
    if wanted and useless:
        prompt.append(DROP_CUE + useless[0])
    tool = find_tool_fault(brief)
    critical = bool(tool) or (bool(wanted) and (bool(useless) or bool(prompt)))
    if brief.errs("sentiment"):
        critical = not critical
    return {
        "system_prompt_feedback": "\n".join(prompt),
        "tool_feedback": tool,
        "overall_feedback": "\n".join(team) or "The rest of the team did its part.",
        "concerns": _concern(brief, bool(prompt) or bool(tool), bool(team)),
        "sentiment": "critical" if critical else "neutral" if wanted else "positive",
    }


def prompt_rewrite(brief: CriticInput) -> dict[str, Any]:
    """Append one instruction or replace another one by it; drop the ones that the advice names."""
    prompt, advice = brief["prompt"], brief["gradients"]
    for name in re.findall(re.escape(DROP_CUE) + r"(.+)", advice):
        prompt = _without(prompt, name.strip())
    has = find_skills(prompt)
    meant = _after(advice, PROMPT_CUE) if any(cue in advice for cue in (PROMPT_CUE, TEAM_CUE, DROP_CUE)) else advice
    wanted = [skill for skill in find_skills(meant) if skill not in has]
    if brief.errs("rewrite"):
        wanted = [brief.any_skill("rewrite")]
    if not wanted:
        return {"prompt": prompt or brief["prompt"] or "Work on the task."}
    if len(has) >= PLACES and brief.chance("rework", 0.5):
        prompt = _without(prompt, brief.pick("reworked", has))
    return {"prompt": f"{prompt.rstrip()}\n{brief.phrase(wanted[0])}".strip()}


def topology_decision(brief: CriticInput) -> dict[str, Any]:
    """Add an agent for what the team lacks, or remove a successor that only chats."""
    offered = [word for word in re.findall(r"[A-Z_]{6,}", brief["operations"])]
    wanted = [
        skill for skill in find_skills(_after(brief["gradients"], TEAM_CUE)) if skill not in find_skills(brief["role"])
    ]
    if brief.errs("decision"):
        wanted = [brief.any_skill("decision")]
    idle = _idle_successor(brief["successors"])
    additions = [word for word in offered if word.startswith("ADD_")]
    if wanted and additions:
        taken = wanted[: PLACES if brief.chance("two skills", 0.5) else 1]
        why = f"Feedback asks for a step that nobody takes: {', '.join(wanted)}."
        description = " ".join([*map(brief.phrase, taken), "Hand on what you find to the next agent."])
        operation = brief.pick("addition", additions)
        return _decision(operation, name=" and ".join(taken), description=description, reason=why)
    if idle and "REMOVE_SUCCESSOR" in offered:
        return _decision("REMOVE_SUCCESSOR", successor=idle, reason="It adds nothing to the work.")
    if brief["gradients"] and "CONNECT_TO_AGGREGATOR" in offered and brief.chance("connect", 0.1):
        return _decision("CONNECT_TO_AGGREGATOR", reason="Its notes should reach the end directly.")
    return _decision("NO_CHANGE", reason="Nothing in the feedback concerns the team.")


def program_edit(brief: CriticInput) -> dict[str, Any]:
    """Change nothing: what a program of a user's lacks is not known here."""
    reason = "Nothing in the feedback concerns the program."
    return {"place": "", "name": "", "description": "", "merge": "", "value": "", "reason": reason}


def self_criticism(brief: CriticInput) -> dict[str, Any]:
    """Doubts about the answer, by the trace alone."""
    missing = brief.missing[:PLACES]
    doubtful = bool(missing) or not brief["answer"] or "unknown" in brief["answer"].lower()
    if brief.errs("self-criticism"):
        doubtful = not doubtful
    advice = "\n".join(TEAM_CUE + brief.phrase(skill) for skill in missing)
    criticism = advice or "The answer is not supported." if doubtful else ""
    return {"criticism": criticism, "sentiment": "neutral" if doubtful else "positive", "good_enough": not doubtful}


def _concern(brief: CriticInput, prompt: bool, team: bool) -> str:
    """Whether advice concerns prompts, the team, both or neither."""
    if brief.errs("parse", share=0.5):
        return brief.pick("parse", ("semantics", "topology", "both", "none"))
    return "both" if prompt and team else "semantics" if prompt else "topology" if team else "none"


def _without_tool_uses(lines: list[str]) -> list[str]:
    """The lines after the last tool use; a result may have several lines, notes start with a dash."""
    uses = [i for i, line in enumerate(lines) if re.match(r"tool \S+\(", line)]
    if not uses:
        return lines
    rest = lines[uses[-1] + 1 :]
    return rest[next((i for i, line in enumerate(rest) if line.startswith("- ")), 0) :]


def read_score(feedback: str) -> float:
    """The score that a feedback states; 0 if it states none."""
    found = re.search(r"score\D{0,5}([01](?:\.\d+)?)", feedback, re.IGNORECASE)
    return float(found[1]) if found else 0.0


def _after(advice: str, cue: str) -> str:
    return "\n".join(line.split(cue, 1)[1] for line in advice.split("\n") if cue in line)


def _without(prompt: str, skill: str) -> str:
    sentences = re.split(r"(?<=[.!?])\s+", prompt)
    return " ".join(sentence for sentence in sentences if skill not in find_skills(sentence)).strip()


def _idle_successor(successors: str) -> str:
    for line in successors.split("\n"):
        found = re.match(r"[\s-]*([A-Za-z0-9][\w-]*)\b(.*)", line)
        if found and (names := find_skills(found[2])) and set(names) <= USELESS:
            return found[1]
    return ""


def _decision(operation: str, **fields: str) -> dict[str, Any]:
    return {"operation": operation, "name": "", "description": "", "successor": "", "reason": "", **fields}
