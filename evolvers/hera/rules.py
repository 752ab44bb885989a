"""A prompt in three parts: core, operational rules, behavioural principles; and Pi_C, which keeps it within limits.

The core says who the agent is and how it uses its tools; HERA never changes it (constraint 3 of App. B). Rules and
principles stand below it under fixed headings, one per line, so that people can read and edit the prompt as one text.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from selfwire.core.values import FrozenModel
from selfwire.evolvers.hera.schemas import PromptDiff

RULES, PRINCIPLES = "Rules learned from failures:", "Principles:"
LINE_LENGTH = 300


class Prompt(FrozenModel):
    """A prompt in its parts; rules and principles are oldest first."""

    core: str
    principles: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> "Prompt":
        """Parse a text; without our headings all of it is core."""
        text, rules = _cut(text, RULES)
        core, principles = _cut(text, PRINCIPLES)
        return cls(core=core, principles=principles, rules=rules)

    @property
    def text(self) -> str:
        """The prompt as the agent reads it."""
        parts = [(PRINCIPLES, self.principles), (RULES, self.rules)]
        return "\n\n".join([self.core, *("\n- ".join([head, *some]) for head, some in parts if some)])


class PromptChange(FrozenModel):
    """The difference between two prompts, as instructions; `replaced` holds (old, new) pairs."""

    added: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.added or self.deleted or self.replaced)

    def __str__(self) -> str:
        """The diff in one line."""
        parts = [f"+ {text}" for text in self.added] + [f"- {text}" for text in self.deleted]
        return "; ".join([*parts, *(f"{old} -> {new}" for old, new in self.replaced)])


def to_plain_line(text: str) -> str:
    """An instruction as one line without a bullet."""
    return " ".join(text.split()).lstrip("-* ").strip()[:LINE_LENGTH].strip()


def apply_prompt_diff(prompt: Prompt, wanted: PromptDiff, *, rules: int, length: int) -> tuple[Prompt, PromptChange]:
    """Rho' = Pi_C(rho + delta rho): the wanted diff as far as C allows it.

    The core stays. Principles may be reworded within `length` characters, but are never removed for a rule. The oldest
    rules are removed where there are more than `rules` or the prompt is too long; what does not fit even then is left
    out.
    """
    left_out: list[str] = []
    found = _reword(prompt, wanted, length, left_out)
    found = _extend(found, wanted, length, left_out)
    kept = list(found.rules)
    while kept and (len(kept) > rules or len(found.replace(rules=tuple(kept)).text) > length):
        oldest = kept.pop(0)
        if oldest not in prompt.rules:
            left_out.append(f"{oldest}: no room for it")
    found = found.replace(rules=tuple(kept))
    return found, _difference(prompt, found, wanted, left_out)


def _reword(prompt: Prompt, wanted: PromptDiff, length: int, left_out: list[str]) -> Prompt:
    """Replace lines, all at once, and delete rules; what takes the place of a line is not deleted."""
    before, wording = (*prompt.rules, *prompt.principles), dict[str, str]()
    for pair in wanted.replaced:
        old, new = to_plain_line(pair.old), to_plain_line(pair.new)
        if old not in before or not new:
            left_out.append(f"{old} -> {new}: there is nothing to replace, or nothing to put in its place")
        elif wording.get(old, new) != new:
            left_out.append(f"{old} -> {new}: the line has another replacement")
        elif old != new:
            wording[old] = new
    deleted = list(map(to_plain_line, wanted.deleted))
    while fault := _find_fault(prompt, found := _replace_lines(prompt, wording, deleted), length):
        old, reason = fault
        left_out.append(f"{old} -> {wording.pop(old)}: {reason}")
    for text in deleted:
        if text in wording.values():
            left_out.append(f"deletion of {text}: it takes the place of another line")
        elif text not in before or text in found.principles:
            left_out.append(f"deletion of {text}: only rules are deleted")
    return found


def _replace_lines(prompt: Prompt, wording: Mapping[str, str], deleted: Collection[str]) -> Prompt:
    """The prompt with other lines and without the deleted rules; a rule that several become stands there once."""
    principles = tuple(wording.get(text, text) for text in prompt.principles)
    gone = {text for text in deleted if text not in wording and text not in wording.values()}
    rules = [wording.get(text, text) for text in prompt.rules if text not in gone]
    newest = list(dict.fromkeys(text for text in reversed(rules) if text not in principles))
    return prompt.replace(rules=tuple(reversed(newest)), principles=principles)


def _find_fault(prompt: Prompt, found: Prompt, length: int) -> tuple[str, str] | None:
    """Find the last rewording of a principle that cannot be made: the principle, and why."""
    full = _measure_without_rules(found, found.principles) > length
    for old, new in zip(reversed(prompt.principles), reversed(found.principles), strict=True):
        if old != new and found.principles.count(new) > 1:
            return old, "only rules are deleted"
        if full and len(new) > len(old):
            return old, "no room for it"
    return None


def _extend(prompt: Prompt, wanted: PromptDiff, length: int, left_out: list[str]) -> Prompt:
    """Add new principles while core and principles fit, then new rules that would fit without the old ones."""
    for text in _new(wanted.added_principles, (*prompt.principles, *prompt.rules)):
        if _measure_without_rules(prompt, more := (*prompt.principles, text)) > length:
            left_out.append(f"{text}: no room for it")
        else:
            prompt = prompt.replace(principles=more)
    fresh = _new(wanted.added_rules, (*prompt.principles, *prompt.rules))
    fitting = [text for text in fresh if len(prompt.replace(rules=(text,)).text) <= length]
    left_out += [f"{text}: no room for it" for text in fresh if text not in fitting]
    return prompt.replace(rules=(*prompt.rules, *fitting))


def _measure_without_rules(prompt: Prompt, principles: Sequence[str]) -> int:
    return len(prompt.replace(principles=tuple(principles), rules=()).text)


def _difference(before: Prompt, after: Prompt, wanted: PromptDiff, left_out: Sequence[str]) -> PromptChange:
    old, new = (*before.principles, *before.rules), (*after.principles, *after.rules)
    pairs = [(to_plain_line(pair.old), to_plain_line(pair.new)) for pair in wanted.replaced]
    replaced = tuple((a, b) for a, b in pairs if a in old and a not in new and b in new and b not in old)
    moved = {text for pair in replaced for text in pair}
    return PromptChange(
        added=tuple(text for text in new if text not in old and text not in moved),
        deleted=tuple(text for text in old if text not in new and text not in moved),
        replaced=replaced,
        left_out=tuple(left_out),
    )


def _new(texts: Iterable[str], there: Sequence[str]) -> list[str]:
    known = {text.lower() for text in there}
    return [text for text in dict.fromkeys(map(to_plain_line, texts)) if text and text.lower() not in known]


def _cut(text: str, heading: str) -> tuple[str, tuple[str, ...]]:
    """A text without the list below a heading at its end, and the list."""
    before, _, after = text.rpartition(f"\n\n{heading}\n")
    listed = after.rstrip().split("\n")
    if not before or not all(line.startswith("- ") for line in listed):
        return text, ()
    return before, tuple(line.removeprefix("- ") for line in listed)
