"""Options that go together: a command takes a group as one parameter, and its help lists each of the options there."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

from selfwire.cli import options


@dataclass(frozen=True)
class Models:
    """Who plays which role, and how they are reached."""

    model: options.AgentModel = "offline"
    meta_model: options.MetaModel = None
    judge_model: options.JudgeModel = None
    base_url: options.BaseUrl = None
    timeout: options.Timeout = 120.0
    retries: options.Retries = 5
    embedder: options.EmbedderName = "auto"
    prices: options.PriceFile = None


@dataclass(frozen=True)
class Grading:
    """How answers are graded."""

    grader: options.GraderName = "exact"
    rubric: options.Rubric = None
    grading_timeout: options.GradingTimeout = 60.0


@dataclass(frozen=True)
class Results:
    """Where results go; nowhere, where only the cost is estimated."""

    langsmith: options.LangSmith = False
    upload_references: options.UploadReferences = False
    dry_run: options.DryRun = False
    out: options.Out = None


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: in the place of each parameter that is a dataclass stand the fields of that."""
    asked = signature(command).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in asked if is_dataclass(one.annotation)}
    parts = {name: signature(group).parameters for name, group in groups.items()}
    flat = [option for one in asked for option in parts.get(one.name, {one.name: one}).values()]

    @wraps(command)
    def called(**given: Any) -> None:
        made = {name: group(**{option: given.pop(option) for option in parts[name]}) for name, group in groups.items()}
        command(**given, **made)

    keyword_only = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in flat]
    called.__signature__ = Signature(keyword_only)  # type: ignore[attr-defined]  # inspect heeds it, and so typer
    return called
