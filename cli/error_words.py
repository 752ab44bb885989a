"""Faults of values in the words of the command line: `--batch must be 1 or more`, not `EvolutionConfig.batch`."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from selfwire.core.errors import format_validation_error
from selfwire.core.secrets import mask_secrets
from selfwire.core.values import mask_controls

OPTIONS: dict[str, dict[str, str]] = {
    "ModelNames": {"agent": "--model", "meta": "--meta-model", "judge": "--judge-model"},
    "Sizes": {"gate": "--gate-size"},
    "Evolving": {"gate": "--gate-size", "names": "--evolve"},
    "Budget": {
        "calls": "--budget-calls",
        "tokens": "--budget-tokens",
        "dollars": "--budget-usd",
        "seconds": "--budget-seconds",
    },
    "EvolutionConfig": {},
    "EvolveRequest": {},
    "EvaluationRequest": {},
    "SystemSpec": {"name": "the name before ="},
    "Study": {},
    "ErrandStudy": {},
    "TrainConfig": {},
}
"""Requests out of options: the option of a field by the request's class, where the two are not called alike."""
REASONS = {
    "greater_than_equal": "must be {ge:g} or more",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be {le:g} or less",
    "less_than": "must be less than {lt:g}",
    "literal_error": "must be {expected}",
    "finite_number": "must be a finite number",
    "string_pattern_mismatch": "must be at most 64 letters, digits, _ and -, and begin with a letter or a digit",
}
"""Reasons by pydantic's kind of fault."""


def _format_faults(error: ValidationError) -> str:
    """The first faults of an error, each with the option that it comes from."""
    return "; ".join(_format_fault(error.title, found) for found in error.errors()[:3])


def _format_fault(title: str, found: ErrorDetails) -> str:
    if not found["loc"]:
        return format_validation_error(found)
    if title not in OPTIONS or len(found["loc"]) > 1:
        return f"{title}.{format_validation_error(found)}"
    field = str(found["loc"][0])
    option = OPTIONS[title].get(field) or f"--{field.replace('_', '-')}"
    reason = REASONS.get(found["type"])
    if reason is None:
        return f"{option}: {format_validation_error(found).partition(': ')[2]}"
    return f"{option} {reason.format(**found.get('ctx', {}))}, not {found['input']!r}"


def format_in_one_line(error: Exception) -> str:
    """An error's message in one line; of a ValidationError the options and their faults."""
    said = _format_faults(error) if isinstance(error, ValidationError) else str(error)
    return mask_controls(mask_secrets(" ".join(said.split()))) or type(error).__name__
