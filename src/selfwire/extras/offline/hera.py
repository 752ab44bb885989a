"""Scripted critics of HERA: profile, plan, comparison, library, blame, prompts.

A planner chooses agents by what their descriptions say and by the form of the question, orders them by common sense,
and follows most of the advice that it is shown. The critic that compares runs looks at the agents that took part in
each: advice is a sentence that names an agent, and a planner that reads it later understands it by its words, or not.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.dytopo import GIVES
from selfwire.extras.offline.general import FAMILY as GENERAL
from selfwire.extras.offline.skills import FILLERS, PLACES, CriticView, Family
from selfwire.extras.offline.vocabulary import family_of, find_skills

TYPES = (("compare", "comparison"), ("intersect", "intersection"), ("overlap", "temporal"), ("multi-hop", "bridge"))
"""The type of a question by words of its main concept."""
STAGES = (
    r"\b(?:breaks?|decompos\w+|splits?|plans?)\b",
    r"\b(?:rewrit\w+|rephras\w+)\b",
    r"\b(?:search\w*|retriev\w+|looks? up)\b",
    r"\b(?:reads?|picks?|extracts?)\b",
    r"\b(?:comput\w+|counts?|compares?|intersects?)\b",
    r"\b(?:checks?|validat\w+|suffic\w+)\b",
    r"\b(?:mistakes?|criticis\w+)\b",
    r"\banswer\b",
)
"""Kinds of work in agents' descriptions, in the order in which they are done."""
FOLLOWED, CARELESS, EXTRA, AGAIN, BESIDE = 0.85, 0.15, 0.3, 0.15, 0.2
"""Chances that advice is followed, a needed step is left out, another one is taken, a step is repeated, and a step
runs in parallel with the one before it."""
CLEAR = 0.5
"""Least difference of an agent's shares in good and bad runs that counts."""

_SCORES = re.compile(r"score (\d(?:\.\d+)?)")

TAKE, LEAVE, TWICE = "take", "leave", "twice"
WORDINGS = {
    TAKE: ("Let the {} take part.", "The {} should take part in such a team."),
    LEAVE: ("Leave the {} out.", "Such a team works better without the {}."),
    TWICE: ("Let the {} work a second time, after those who used what it found.", "Call the {} twice."),
}


class Advice(NamedTuple):
    """Advice of a sentence about an agent."""

    kind: str
    agent: str


def profile(brief: CriticInput) -> dict[str, Any]:
    """Type and difficulty by the form of the text."""
    main, *needs = brief.family.concepts(brief["task"])
    kind = next((name for word, name in TYPES if word in main), "other")
    if brief.errs("type", share=0.5):
        kind = brief.pick("type", [name for _, name in TYPES])
    difficulty = ("easy", "medium", "hard")[min(len(needs), 3) - 1 if needs else 0]
    steps = [skill for skill in brief.family.missing(CriticView(task=brief["task"])) if skill not in FILLERS]
    summary = GIVES.get(steps[-1], steps[-1]) if steps else "one fact"  # types differ by their last step
    return {"query_type": kind, "difficulty": difficulty, "summary": summary}


def plan(brief: CriticInput) -> dict[str, Any]:
    """Agents whose descriptions name a needed step, some more, and changes by advice."""
    roles = _roles(brief["agents"])
    needed = brief.family.missing(CriticView(task=brief["task"]))
    chosen = []
    for skill in needed:
        able = [name for name, role in roles.items() if skill in find_skills(role)]
        if able and not brief.chance(f"careless {skill}", CARELESS):
            chosen.append(brief.pick(f"agent {skill}", able))
    chosen = list(dict.fromkeys([*chosen, *(name for name in roles if brief.chance(f"extra {name}", EXTRA))]))
    twice = [name for name in chosen if brief.chance(f"again {name}", AGAIN)]
    for kind, name in advice(brief["insights"], list(roles)):
        if brief.chance(f"follow {kind} {name}", FOLLOWED):
            others = [other for other in chosen if other != name]
            chosen = others if kind == LEAVE else list(dict.fromkeys([*chosen, name]))
            twice = [*twice, name] if kind == TWICE else twice
    order = sorted(chosen, key=lambda name: (_stage(roles[name]), name))
    order += [name for name in dict.fromkeys(twice) if name in order]
    ends = [name for name, role in roles.items() if _stage(role) == len(STAGES) - 1]
    order = [name for name in order if name not in ends]
    if len(order) > 1 and brief.errs("order", share=0.5):
        place = brief.random("swap").randrange(len(order) - 1)
        order[place : place + 2] = reversed(order[place : place + 2])
    order += [brief.pick("end", ends)] if ends else []
    return {"execution_order": _steps(brief, order)}


def reflection(brief: CriticInput) -> dict[str, Any]:
    """Agents that took part in the better runs and not in the worse ones, or the reverse."""
    runs = [_ComparedRun.of(block) for block in re.split(r"^trajectory \d+: ", brief["group"], flags=re.MULTILINE)[1:]]
    middle = sum(run.score for run in runs) / len(runs) if runs else 0.0
    good, bad = [run for run in runs if run.score > middle], [run for run in runs if run.score <= middle]
    if not good or not bad:
        return {"success_factors": [], "failure_modes": [], "insights": []}
    found = []
    for name in sorted({agent for run in runs for agent in run.agents}):
        for kind, least in ((TAKE, 1), (TWICE, 2)):
            shares = [sum(run.agents.count(name) >= least for run in some) / len(some) for some in (good, bad)]
            difference = shares[0] - shares[1]
            if abs(difference) >= CLEAR and (difference > 0 or kind == TAKE):
                found.append((-abs(difference), kind if difference > 0 else LEAVE, name))
    insights = [Advice(kind, name) for _, kind, name in sorted(found)[:2]]
    if insights and brief.errs("insight"):
        everybody = sorted({agent for run in runs for agent in run.agents})
        insights[0] = Advice(brief.pick("kind", (TAKE, LEAVE, TWICE)), brief.pick("mistaken", everybody))
    kind = brief["profile"].split(" ")[0]
    texts = [brief.pick(f"wording {kind} {agent}", WORDINGS[kind]).format(agent) for kind, agent in insights]
    return {
        "success_factors": [f"{advised.agent} took part" for advised in insights if advised.kind != LEAVE],
        "failure_modes": [f"{advised.agent} took part" for advised in insights if advised.kind == LEAVE],
        "insights": [{"query_type": kind, "insight": text} for text in texts],
    }


def operations(brief: CriticInput) -> dict[str, Any]:
    """Prune an opposite insight about the same agent, merge another one, keep an equal one."""
    entries = re.findall(r"^\[(\w+)\] \((\w+),[^)]*\) (.+)$", brief["library"], re.MULTILINE)
    found = []
    for kind, text in re.findall(r"^- \((\w+)\) (.+)$", brief["new"], re.MULTILINE):
        near = [(name, entry) for name, same, entry in entries if same == kind]
        found.append({"new_insight": text, **_operation(brief, text, near)})
    return {"operations": found}


def blame(brief: CriticInput) -> dict[str, Any]:
    """The agent for the first step that does not show; at the error rate any agent."""
    roles = _roles(brief["agents"])
    missing = brief.missing
    able = [name for name, role in roles.items() if missing and missing[0] in find_skills(role)]
    if not roles:
        return {"agent": "", "cause": "Nobody ran."}
    name = able[0] if able and not brief.errs("blame") else brief.pick("blamed", list(roles))
    cause = f"A step does not show: {missing[0]}." if missing else "Every step seems to be there, and yet it is wrong."
    return {"agent": name, "cause": cause}


def mutation(brief: CriticInput) -> dict[str, Any]:
    """A new agent for the steps that do not show, or an existing one for the first of them."""
    roles, missing = _roles(brief["agents"]), brief.missing[:PLACES] or (brief.any_skill("mutation"),)
    blamed = brief["agent"].partition(":")[0]
    able = [name for name, role in roles.items() if missing[0] in find_skills(role) and name != blamed]
    others = [name for name in roles if name != blamed] or list(roles)
    offered = [line.partition(":") for line in brief["tools"].split("\n")]
    tools = [name.strip() for name, _, does in offered if re.search(brief.family.needs, f"{name} {does}", re.I)]
    return {
        "alternative": able[0] if able else brief.pick("alternative", others) if others else "",
        "name": f"{missing[0].replace(' ', '-')} specialist",
        "role": brief.phrase(missing[0]),
        "instruction": " ".join(["You join a team.", *(brief.phrase(skill) for skill in missing)]),
        "tools": tools,
    }


def prompt_variant(brief: CriticInput) -> dict[str, Any]:
    """Propose an instruction by the axis: for a step that the failures do not show, for evidence, or for brevity."""
    axis, family, task = brief["axis"], *_family(brief["failures"])
    missing = family.missing(CriticView(task=task, trace=brief["failures"], role=brief["role"]))
    skill = missing[0] if missing else "read"
    if axis.startswith("efficiency"):
        skill = "summarise"
    elif axis.startswith("risk"):
        skill = "read"
    elif axis.startswith("heuristics") or brief.errs("variant"):
        skill = brief.any_skill("variant")
    return {"instructions": [brief.phrase(skill)]}


def contrast(brief: CriticInput) -> dict[str, Any]:
    """The additions of variants that scored more than the original."""
    first, *blocks = re.split(r"^variant ", brief["variants"], flags=re.MULTILINE)
    base, rules = max(map(float, _SCORES.findall(first)), default=0.0), []
    for block in blocks:
        axis = block.split("\n")[0].strip()
        better = _score(block) > base
        if better != brief.errs(f"contrast {axis}", share=0.5):
            rules += [
                {"rule": text, "derived_from": f"{axis} against the original"}
                for text in re.findall(r"^adds: (.+)$", block, re.M)
            ]
    helped = len({rule["derived_from"] for rule in rules}) > 1
    general = {"principle": "Say what you could not settle.", "derived_from": "several variants helped"}
    return {"operational_rules": rules, "behavioral_principles": [general] if helped else []}


def prompt_diff(brief: CriticInput) -> dict[str, Any]:
    """The proposals that are not in the prompt yet."""
    has = find_skills(brief["prompt"])
    proposed = re.findall(r"^(rule|principle): (.+)$", brief["proposed"], re.MULTILINE)
    rules, principles = (
        [text for what, text in proposed if what == kind and text not in brief["prompt"]]
        for kind in ("rule", "principle")
    )
    fresh = [text for text in rules if not find_skills(text) or not set(find_skills(text)) <= set(has)]
    return {"added_rules": fresh, "added_principles": principles, "deleted": [], "replaced": []}


def advice(text: str, agents: Sequence[str]) -> list[Advice]:
    """Read the advice of sentences about agents, in order."""
    found = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n", text):
        low = sentence.lower()
        for name in agents:
            if re.search(rf"\b{re.escape(name.lower())}\b", low):
                without = re.search(r"\b(?:leave|without|skip|avoid|omit|drop)\b", low)
                again = re.search(r"\b(?:twice|again|second time)\b", low)
                found.append(Advice(LEAVE if without else TWICE if again else TAKE, name))
    return found


class _ComparedRun(NamedTuple):
    score: float
    agents: tuple[str, ...]

    @classmethod
    def of(cls, block: str) -> "_ComparedRun":
        line = re.search(r"^topology: (.*)$", block, re.MULTILINE)
        nodes = line[1].split("; ") if line else []
        agents = [found[1] if (found := re.search(r"\(agent (\S+)\)", node)) else node.split(" ")[0] for node in nodes]
        return cls(_score(block), tuple(agents))


def _steps(brief: CriticInput, order: Sequence[str]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for number, name in enumerate(order, 1):
        reads = [number - 1] if number > 1 else []
        if 2 < number < len(order) and brief.chance(f"beside {number}", BESIDE):
            reads = list(steps[-1]["depends_on"])
        if number == len(order):
            read = {source for step in steps for source in step["depends_on"]}
            reads = [step["step"] for step in steps if step["step"] not in read]
        steps.append({"step": number, "agent": name, "depends_on": reads})
    return steps


def _operation(brief: CriticInput, text: str, near: Sequence[tuple[str, str]]) -> dict[str, Any]:
    names = re.findall(r"\bthe ([\w-]+)", text, re.IGNORECASE)
    own = {advised.agent: advised.kind for advised in advice(text, names)}
    opposed, same, more = list[tuple[str, str]](), list[tuple[str, str]](), list[tuple[str, str]]()
    for entry, insight in near:
        for earlier in advice(insight, list(own)):
            kind = own[earlier.agent]
            place = same if earlier.kind == kind else opposed if LEAVE in (earlier.kind, kind) else more
            place.append((entry, insight))
    if brief.errs(f"operation {text}", share=0.5):
        return _decide("ADD", (), None, "It seems to be new.")
    if opposed:
        return _decide("PRUNE", [entry for entry, _ in opposed], None, "It says the opposite.")
    if same:
        return _decide("KEEP", (), None, "An entry says it already.")
    if more:
        return _decide("MERGE", [more[0][0]], f"{more[0][1]} {text}", "Both are about the same agent.")
    return _decide("ADD", (), None, "No entry says it.")


def _decide(operation: str, targets: Sequence[str], text: str | None, why: str) -> dict[str, Any]:
    ids = list(dict.fromkeys(targets))
    return {"operation": operation, "target_entry_ids": ids, "merged_insight": text, "rationale": why}


def _roles(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.split("\n"))
    return {name.strip(): role.strip() for name, colon, role in lines if colon and name.strip()}


def _stage(role: str) -> int:
    return next((place for place, words in enumerate(STAGES) if re.search(words, role, re.IGNORECASE)), len(STAGES) - 2)


def _family(failures: str) -> tuple[Family, str]:
    tasks = re.findall(r"^task: (.+)$", failures, re.MULTILINE)
    return (family_of(tasks[-1]) or GENERAL, tasks[-1]) if tasks else (GENERAL, "")


def _score(block: str) -> float:
    found = _SCORES.findall(block)
    return float(found[0]) if found else 0.0
