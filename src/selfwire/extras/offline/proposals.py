"""The critics of contestants: one rewrites an instruction by examples in free text, one proposes an edit of a team.

The prompt of GEPA's library shows one agent's instructions, and of a few runs its task, its work and the feedback;
nothing else is known here. An edit is proposed by one failed run and by what earlier edits have brought.
"""

import re
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.hiva import prompt_rewrite, read_score
from selfwire.extras.offline.skills import PLACES
from selfwire.extras.offline.vocabulary import find_skills

_REQUEST = re.compile(
    r"^I provided an assistant with the following instructions.*?:\n```\n(?P<prompt>.*?)\n```\n\n"
    r"The following are examples .*?:\n```\n(?P<examples>.*)\n```\n\n"
    r"Your task is to write a new instruction for the assistant\.",
    re.DOTALL,
)
_EXAMPLE = re.compile(r"^# Example \d+$", re.MULTILINE)
_AGENT = re.compile(r"^\[([\w-]+)\] (.+?)(?=\n\n\[|\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"^## (Inputs|Generated Outputs|Feedback)$", re.MULTILINE)


def propose_instruction(request: str, random: Callable[[str], Random], error_rate: float) -> str | None:
    """The instruction with one more step, or one in place of another; None if the text is no such request."""
    found = _REQUEST.search(request)
    if found is None:
        return None
    advice = []
    for number, example in enumerate(_EXAMPLE.split(found["examples"])[1:]):
        _, *parts = _PART.split(example)
        shown = dict(zip(parts[::2], parts[1::2], strict=True))
        feedback = shown.get("Feedback", "")
        if read_score(feedback) < 1:
            task = shown.get("Inputs", "").strip().removeprefix("### Task\n").strip()
            sections = {"task": task, "trace": shown.get("Generated Outputs", ""), "feedback": feedback}
            brief = CriticInput(sections, partial(_draw, random, number), error_rate)
            advice += [brief.phrase(skill) for skill in brief.missing[:PLACES]]
    rewriter = CriticInput({"prompt": found["prompt"], "gradients": "\n".join(advice)}, random, error_rate)
    return f"```\n{prompt_rewrite(rewriter)['prompt']}\n```"


def _draw(random: Callable[[str], Random], example: int, purpose: str) -> Random:
    return random(f"{purpose} {example}")


def team_edit(brief: CriticInput) -> dict[str, Any]:
    """A new agent or a longer prompt, for a step that the run does not show and no edit has brought in vain."""
    prompts = dict(_AGENT.findall(brief["prompts"]))
    failed = [line for line in brief["experience"].split("\n") if not line.startswith("+") or line.startswith("+0.00")]
    vain = find_skills("\n".join(failed))
    missing = [skill for skill in brief.missing if skill not in vain]
    skill = missing[0] if missing else brief.any_skill("edit")
    agent = brief.pick("edited agent", list(prompts) or ["worker"])
    step = brief.phrase(skill)
    if brief.chance("add", 0.5):
        operation, prompt = "ADD_AGENT", f"{step} Hand on what you find to the next agent."
    else:
        rewriter = CriticInput({"prompt": prompts.get(agent, ""), "gradients": step}, brief.random, brief.error_rate)
        operation, prompt = "REWRITE_PROMPT", prompt_rewrite(rewriter)["prompt"]
    reason = f"The work lacks a step. {step}"
    return {"operation": operation, "agent": agent, "target": "", "role": step, "prompt": prompt, "reason": reason}
