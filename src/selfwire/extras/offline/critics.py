"""Critics, judges and evolvers, chosen by the kind of reply that is asked for.

They see what the prompt shows them in sections such as <trace>...</trace>, run no worker skill, and go wrong at
the model's `critic_error_rate`. Fields that no critic fills get neutral values, and a warning names them.
"""

import difflib
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import compress, product
from random import Random
from typing import Any

from selfwire.extras.offline import dytopo as rounds
from selfwire.extras.offline import evomas as stages
from selfwire.extras.offline import hera as orchestration
from selfwire.extras.offline import hiva as gradients
from selfwire.extras.offline import proposals, tool_repair
from selfwire.extras.offline import tacomas as coevolution
from selfwire.extras.offline.critic_input import Critic, CriticInput
from selfwire.extras.offline.instructions import Voice
from selfwire.extras.offline.worker import PlainMessage

_NO_REFERENCE = re.compile(r"\(There is none\b")


def rubric_score(brief: CriticInput) -> dict[str, Any]:
    """The share of the reference's words in the answer; without a reference, whether there is an answer."""
    answer, wanted = _words(brief["answer"]), _words(brief["reference"])
    if _NO_REFERENCE.match(brief["reference"]) or not wanted:
        score = 0.5 if answer else 0.0
    else:
        score = round(sum((answer & wanted).values()) / sum(wanted.values()), 2)
    if brief.errs("score"):
        score = round(1 - score, 2)
    return {"grounds": "By the words that answer and reference share.", "score": score}


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


_HARMLESS = ("NO_CHANGE", "KEEP", "none", "neutral", "other")


def neutral(schema: Mapping[str, Any]) -> Any:
    """The most harmless value that a JSON schema allows: defaults, empty texts and lists, middles of ranges."""
    return _value(schema, schema.get("$defs", {}))


def _value(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if options := schema.get("enum"):
        return next((harmless for harmless in _HARMLESS if harmless in options), options[0])
    for union in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(union):
            nulls = [option for option in options if option.get("type") == "null"]
            return _value((nulls or options)[0], defs)
    return _typed(schema, defs)


def _typed(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "object")
    if kind == "string":
        return "-" * int(schema.get("minLength", 0))
    if kind == "boolean":
        return False
    if kind in ("number", "integer"):
        return _middle(schema, whole=kind == "integer")
    if kind == "array":
        return [_value(schema.get("items", {}), defs)] * int(schema.get("minItems", 0))
    if kind == "null":
        return None
    required = schema.get("required", list(schema.get("properties", {})))
    return {name: _value(schema["properties"][name], defs) for name in required}


def _middle(schema: Mapping[str, Any], *, whole: bool) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None and high is None:
        return 0
    middle = low if high is None else high if low is None else (low + high) / 2
    if middle in (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")):
        middle += 1 if high is None else -1
    return int(middle) if whole else float(middle)


_EXTRAS = ("WithAnswer", "WithVerdict", "WithCalls")

CRITICS: Mapping[str, Critic] = {
    "Instruction": gradients.instruction,
    "TaskProfile": gradients.task_profile,
    "GlobalGradient": gradients.global_gradient,
    "AgentGradient": gradients.agent_gradient,
    "PromptRewrite": gradients.prompt_rewrite,
    "TopologyDecision": gradients.topology_decision,
    "ProgramEdit": gradients.program_edit,
    "ToolDecision": tool_repair.tool_decision,
    "ToolSource": tool_repair.tool_source,
    "SelfCriticism": gradients.self_criticism,
    "Checklist": coevolution.checklist,
    "Verdict": coevolution.verdict,
    "Contributions": coevolution.contributions,
    "Refinement": coevolution.refinement,
    "SlowUpdate": coevolution.slow_update,
    **{"".join(["Turn", *compress(_EXTRAS, some)]): rounds.member for some in product((False, True), repeat=3)},
    "Halting": rounds.manager,
    "RubricScore": rubric_score,
    "QueryProfile": orchestration.profile,
    "TopologyPlan": orchestration.plan,
    "Reflection": orchestration.reflection,
    "LibraryOperations": orchestration.operations,
    "FailedAgent": orchestration.blame,
    "Mutation": orchestration.mutation,
    "PromptVariant": orchestration.prompt_variant,
    "Contrast": orchestration.contrast,
    "PromptDiff": orchestration.prompt_diff,
    "Plan": stages.planner,
    "Assessed": stages.evaluator,
    "TeamEdit": proposals.team_edit,
    "Choice": stages.ensemble,
    "LastAnswer": stages.synthesis,
}
"""Who fills an object, by the kind of reply: the title of its JSON schema (`core.chat`)."""


def reply(
    kind: str,
    schema: Mapping[str, Any],
    messages: Sequence[PlainMessage],
    random: Callable[[str], Random],
    error_rate: float,
    slip_rate: float = 0.0,
    voice: Voice = "all",
) -> dict[str, Any]:
    """Fill the object that is asked for; the rates are shares of wrong judgements and of wrong steps of work."""
    fields, filled = schema.get("properties", {}), dict[str, Any]()
    if critic := CRITICS.get(kind):
        system = "\n".join(message.text for message in messages if message.role == "system")
        given = critic(CriticInput(sections(messages), random, error_rate, system, slip_rate, voice))
        filled = {name: value for name, value in given.items() if name in fields}
    if unfilled := tuple(name for name in fields if name not in filled):
        warn_once(kind, unfilled)
        filled |= {name: value for name, value in neutral(schema).items() if name in unfilled}
    return filled


@cache
def warn_once(kind: str, unfilled: tuple[str, ...]) -> None:
    """Warn that fields of a kind of reply get neutral values; once per process."""
    if kind in CRITICS:
        reason = f"the critic of {kind!r} does not fill them"
    else:
        nearest = difflib.get_close_matches(kind, CRITICS, n=1, cutoff=0)[0]
        reason = f"no critic is of kind {kind!r}; the nearest known kind is {nearest!r}, declared by title={nearest!r}"
    warnings.warn(f"the offline model gives {', '.join(unfilled)} neutral values: {reason}", stacklevel=3)


def sections(messages: Sequence[PlainMessage]) -> dict[str, str]:
    """The tagged sections of the users' messages; what stands between the first and the last tag of a name."""
    text = "\n".join(message.text for message in messages if message.role == "user")
    names = dict.fromkeys(re.findall(r"<([a-z_]+)>", text))
    found = {name: re.search(rf"<{name}>(.*)</{name}>", text, re.DOTALL) for name in names}
    return {name: match[1].strip() for name, match in found.items() if match}
