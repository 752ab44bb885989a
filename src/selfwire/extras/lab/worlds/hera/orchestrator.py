"""HERA's orchestrator in the world of procedures, which reads HERA's own prompts."""

import re
from typing import Any

from selfwire.extras.lab.worlds.crafts import (
    CHECKS,
    SKILLS,
    Reader,
    Reading,
    describe_check,
    describe_skill,
    find_skills,
    find_slips,
)

FOLLOWED = 0.7
"""Probability that a plan of a group follows an insight; a plan at temperature 0 always does."""
TRUSTED = 0.2
"""Utility from which an insight is followed."""


def characterize(given: Reading) -> dict[str, Any]:
    """The type of a question, which its text names."""
    kind = given.sections["task"].split()[1]
    return {"query_type": kind, "difficulty": "medium", "summary": f"{kind} {kind} {kind}"}


def plan(given: Reading) -> dict[str, Any]:
    """A chain: the one that the best insight for this type names, else a random one of the greatest length."""
    roles = dict(re.findall(r"^([\w-]+): (.*)$", given.sections["agents"], re.MULTILINE))
    answering = [name for name, role in roles.items() if not find_skills(role)]
    workers = [name for name in roles if name not in answering]
    if not given.warm or given.random.random() < FOLLOWED:
        chain = _find_advice(given, workers)
    else:
        chain = []
    if not chain:
        most = int(re.findall(r"\d+", given.sections["limits"])[0]) - 1
        chain = [str(name) for name in given.random.permutation(workers)[:most]]
    steps = [{"step": n, "agent": name, "depends_on": [n - 1] if n > 1 else []} for n, name in enumerate(chain, 1)]
    last = len(steps) + 1
    return {"execution_order": [*steps, {"step": last, "agent": answering[0], "depends_on": [last - 1]}]}


def _find_advice(given: Reading, workers: list[str]) -> list[str]:
    kind = given.sections.get("profile", " ").split(" ")[0]
    found = re.findall(r"^- \((\w+), utility ([\d.]+)\) (.*)$", given.sections.get("insights", ""), re.MULTILINE)
    fitting = [(float(utility), text) for of, utility, text in found if of == kind and float(utility) >= TRUSTED]
    for _, text in sorted(fitting, reverse=True):
        if named := [name for name in re.findall(r"[\w-]+", text) if name in workers]:
            return named
    return []


def reflect(given: Reading) -> dict[str, Any]:
    """Recommends the topology of the best run; of a random one where it reads wrongly."""
    kind = given.sections["profile"].split()[0]
    topologies = re.findall(r"^topology: (.*)$", given.sections["group"], re.MULTILINE)
    chosen = topologies[0] if given.right else given.draw(topologies)
    names = [re.sub(r"^\S+ \(agent (\S+)\)", r"\1", part).split()[0] for part in chosen.split("; ")]
    return {"insights": [{"query_type": kind, "insight": f"For {kind} questions run {', then '.join(names)}."}]}


def consolidate(given: Reading) -> dict[str, Any]:
    """A new insight takes the place of entries for its type with a poor record; otherwise it is added."""
    entries = re.findall(r"^\[(\w+)\] \((\w+), utility ([\d.]+) over (\d+) uses\)", given.sections["library"], re.M)
    operations = []
    for kind, text in re.findall(r"^- \((\w+)\) (.*)$", given.sections["new"], re.MULTILINE):
        poor = [id for id, of, utility, uses in entries if of == kind and float(utility) < TRUSTED and int(uses) >= 3]
        operation = "PRUNE" if poor and given.right else "ADD"
        operations.append({"operation": operation, "new_insight": text, "target_entry_ids": poor})
    return {"operations": operations}


def blame(given: Reading) -> dict[str, Any]:
    """The first agent whose own line has a slip, else the last one before the answer."""
    ran = _read_trace(given.sections["trace"])
    workers = [name for name, _ in ran[:-1]] or [ran[-1][0]]
    slipped = [name for name, lines in ran[:-1] if find_slips(lines[-1])]
    right = slipped[0] if slipped else workers[-1]
    return {"agent": right if given.right else given.draw(workers), "cause": given.sections["feedback"]}


def _read_trace(trace: str) -> list[tuple[str, list[str]]]:
    parts = re.split(r"^\[([\w-]+)\] ", trace, flags=re.MULTILINE)[1:]
    return [(name, text.strip().splitlines() or [""]) for name, text in zip(parts[::2], parts[1::2], strict=True)]


def mutate(given: Reading) -> dict[str, Any]:
    """An agent that has what the feedback says is missing, of the pool and a new one."""
    roles = dict(re.findall(r"^([\w-]+): (.*)$", given.sections["agents"], re.MULTILINE))
    missing = find_skills(given.sections["feedback"])
    skill = missing[0] if missing and given.right else given.draw(SKILLS)
    able = [name for name, role in roles.items() if skill in find_skills(role)]
    return {
        "alternative": able[0] if able else given.draw(list(roles)),
        "name": skill,
        "role": f"Can {skill}.",
        "instruction": describe_skill(skill),
    }


def vary(given: Reading) -> dict[str, Any]:
    """The check that the agent's last failure shows to be missing."""
    seen = find_slips(given.sections["failures"].rpartition("it did:")[2])
    check = seen[-1] if seen and given.right else given.draw(CHECKS)
    return {"instructions": [describe_check(check)]}


def contrast(given: Reading) -> dict[str, Any]:
    """The instructions of variants that score better than the original prompt repeated."""
    blocks = re.split(r"\n\n(?=variant |original )", given.sections["variants"])
    scored = [(block, float(re.findall(r"score ([\d.]+)", block)[0])) for block in blocks]
    control = next((score for block, score in scored if block.startswith("original prompt, repeated")), 0.0)
    varied = [(re.findall(r"adds: (.*)", block)[0], score) for block, score in scored if block.startswith("variant")]
    better = [text for text, score in varied if score > control]
    rules = better if given.right else [given.draw([text for text, _ in varied])]
    return {"operational_rules": [{"rule": text} for text in dict.fromkeys(rules)]}


def integrate(given: Reading) -> dict[str, Any]:
    """All rules that are proposed."""
    return {"added_rules": re.findall(r"^rule: (.*)$", given.sections["proposed"], re.MULTILINE)}


SCRIPT: dict[str, Reader] = {
    "QueryProfile": characterize,
    "TopologyPlan": plan,
    "Reflection": reflect,
    "LibraryOperations": consolidate,
    "FailedAgent": blame,
    "Mutation": mutate,
    "PromptVariant": vary,
    "Contrast": contrast,
    "PromptDiff": integrate,
}
