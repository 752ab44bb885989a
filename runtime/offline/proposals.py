"""The critic of GEPA's library: it reads examples of an assistant's work in free text and words a new instruction.

The library's own prompt shows one agent's instructions, and of a few runs its task, its work and the feedback; nothing
else is known here.
"""

import re
from collections.abc import Callable
from functools import partial
from random import Random

from selfwire.runtime.offline.critic_input import CriticInput
from selfwire.runtime.offline.gradients import prompt_rewrite, read_score
from selfwire.runtime.offline.skills import PLACES

_REQUEST = re.compile(
    r"^I provided an assistant with the following instructions.*?:\n```\n(?P<prompt>.*?)\n```\n\n"
    r"The following are examples .*?:\n```\n(?P<examples>.*)\n```\n\n"
    r"Your task is to write a new instruction for the assistant\.",
    re.DOTALL,
)
_EXAMPLE = re.compile(r"^# Example \d+$", re.MULTILINE)
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
