"""Edits for people: what each changes, and prompts line by line."""

from collections.abc import Iterator, Sequence

from selfwire.core.edits import ReplaceAgent, Rewiring, RewritePrompt, format_edit
from selfwire.core.team import Team
from selfwire.core.text import compare_lines
from selfwire.core.values import to_plain_json
from selfwire.extras.pages.data import EditGroup, EditLine


def describe_edits(parent: Team, applied: Sequence[object], refused: Sequence[object]) -> tuple[EditGroup, ...]:
    """The rewirings that a version has on record, applied ones first, as JSON."""
    prompts = {agent.id: agent.prompt for agent in parent.agents}
    groups = [_describe(Rewiring.model_validate(to_plain_json(rewiring)), prompts) for rewiring in applied]
    for refusal in refused:
        found = to_plain_json(refusal)
        groups.append(_describe(Rewiring.model_validate(found["rewiring"]), dict(prompts), found["reason"]))
    return tuple(groups)


def _describe(rewiring: Rewiring, prompts: dict[str, str], refused: str = "") -> EditGroup:
    """Describe a rewiring; `prompts` is updated with the prompts that it writes."""
    lines = tuple(line for edit in rewiring.edits for line in _describe_edit(edit, prompts))
    return EditGroup(operation=rewiring.operation, by=rewiring.by, why=rewiring.why, lines=lines, refused=refused)


def _describe_edit(edit: object, prompts: dict[str, str]) -> Iterator[EditLine]:
    match edit:
        case RewritePrompt():
            yield EditLine(sign=" ", text=f"RewritePrompt({edit.agent})")
            yield from diff_lines(prompts.get(edit.agent, ""), edit.prompt)
            prompts[edit.agent] = edit.prompt
        case ReplaceAgent():
            yield EditLine(sign=" ", text=f"ReplaceAgent({edit.agent}, {edit.replacement.id})")
            yield from diff_lines(prompts.get(edit.agent, ""), edit.replacement.prompt)
            prompts[edit.replacement.id] = edit.replacement.prompt
        case _:
            yield EditLine(sign=" ", text=format_edit(edit))  # type: ignore[arg-type]
            if (agent := getattr(edit, "agent", None)) is not None and hasattr(agent, "prompt"):
                prompts[agent.id] = agent.prompt
                yield from diff_lines("", agent.prompt)


def diff_lines(before: str, after: str) -> Iterator[EditLine]:
    """Lines that differ, and those that stay."""
    signs = {"-": "-", "+": "+", " ": "="}
    for line in compare_lines(before, after):
        if line[0] in signs:
            yield EditLine(sign=signs[line[0]], text=line[2:])
