"""HiVA's critics in the world of growth, which read HiVA's own prompts."""

import re
from collections import Counter
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

MISSING, USELESS = "Somebody must {} next.", "{} is of no use here."


def diagnose(given: Reading) -> dict[str, Any]:
    """Repeat what the environment says; the fault lies before the aggregator."""
    return {"feedback": given.sections["feedback"].partition("\n")[2], "sentiment": "neutral"}


def localise(given: Reading) -> dict[str, Any]:
    """Find an agent's share: a slip in its own part, a part that is missing after its own, a colleague in the way."""
    skills, said = find_skills(given.sections["role"]), given.sections["feedback"]
    own = re.findall(rf"^{skills[0]}: .*$", given.sections["output"], re.MULTILINE) if skills else []
    slips, team = find_slips("\n".join(own)), []
    if skills:
        team += [MISSING.format(skill) for skill in re.findall(rf"Nobody was there to (\w+) after {skills[0]}\.", said)]
    team += [
        USELESS.format(agent)
        for agent in re.findall(r"^\[([\w-]+)\].*in the way", given.sections["successor_feedback"], re.M)
    ]
    overall = "This agent is in the way." if any("spoiled" in line for line in own) else ""
    if not given.right:
        slips = [given.draw(CHECKS)] if given.random.random() < 0.5 else []
        team = [MISSING.format(given.draw(SKILLS))] if not slips else []
    concerns = {(True, True): "both", (True, False): "semantics", (False, True): "topology"}
    return {
        "system_prompt_feedback": " ".join(map(describe_check, slips)),
        "tool_feedback": "",
        "overall_feedback": " ".join(filter(None, [overall, *team])),
        "concerns": concerns.get((bool(slips), bool(team)), "none"),
        "sentiment": "critical" if slips or team or overall else "neutral",
    }


def rewrite(given: Reading) -> dict[str, Any]:
    """The prompt with the check that most gradients ask for."""
    wanted = Counter(re.findall(r"Check the (\w+)\.", given.sections["gradients"]))
    check = wanted.most_common(1)[0][0] if wanted and given.right else given.draw(CHECKS)
    return {"prompt": f"{given.sections['prompt']} {describe_check(check)}"}


def decide_change(given: Reading) -> dict[str, Any]:
    """The change that most gradients ask for: a new agent beside the successors there are, or one agent less."""
    said, offered = given.sections["gradients"], given.sections["operations"].splitlines()
    targets = dict(re.findall(r"^([\w-]+): (.*)$", given.sections["successors"], re.MULTILINE))
    if not given.right:
        return _draw_change(given, offered, list(targets))
    wanted = Counter([("add", skill) for skill in re.findall(r"Somebody must (\w+) next", said)])
    wanted += Counter([("remove", agent) for agent in re.findall(r"([\w-]+) is of no use", said)])
    there = {skill for text in targets.values() for skill in find_skills(text)}
    for (change, what), _ in wanted.most_common():
        if change == "remove" and what in targets and "REMOVE_SUCCESSOR" in offered:
            return {"operation": "REMOVE_SUCCESSOR", "successor": what}
        if change == "add" and what not in there:
            alone = not there
            for operation in ("ADD_SERIAL", "ADD_PARALLEL") if alone else ("ADD_PARALLEL", "ADD_SERIAL"):
                if operation in offered:
                    return {"operation": operation, "description": describe_skill(what)}
    return {"operation": "NO_CHANGE"}


def _draw_change(given: Reading, offered: list[str], targets: list[str]) -> dict[str, Any]:
    operation = given.draw([operation for operation in offered if operation != "NO_CHANGE"] or offered)
    if operation.startswith("ADD_"):
        return {"operation": operation, "description": describe_skill(given.draw(SKILLS))}
    return {"operation": operation, "successor": given.draw(targets) if operation == "REMOVE_SUCCESSOR" else ""}


def profile(given: Reading) -> dict[str, Any]:
    """Name the same concept for all tasks, whose parts can partly be worked on side by side."""
    return {
        "main_concept": "piece work", "broader": [], "concepts": [], "required_tools": [], "parallelizability": 0.6,
    }  # fmt: skip


SCRIPT: dict[str, Reader] = {
    "GlobalGradient": diagnose,
    "AgentGradient": localise,
    "PromptRewrite": rewrite,
    "TopologyDecision": decide_change,
    "TaskProfile": profile,
}
