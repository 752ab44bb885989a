"""Options that go together: a command takes a group as one parameter, and its help lists each of the options there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from selfwire.cli import options
from selfwire.core.errors import ConfigError
from selfwire.evals.judge import read_rubric
from selfwire.evals.own_data.fields import OwnData
from selfwire.graphs.ready_tools import absolute_names
from selfwire.runs.requests import ModelNames
from selfwire.runtime.executors import WorkerOptions


@dataclass(frozen=True)
class Models:
    """Which model plays which role, and how they are reached."""

    model: Annotated[
        str, typer.Option(help="Model of the agents: offline, or provider:name such as openai:gpt-4o-mini.")
    ] = "offline"
    meta_model: Annotated[
        str | None, typer.Option(help="Model of critics and evolvers; by default that of the agents.")
    ] = None
    judge_model: Annotated[str | None, typer.Option(help="Model of judges; by default that of the critics.")] = None
    base_url: options.BaseUrl = None
    timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = 120.0
    retries: Annotated[int, typer.Option(help="How often a request is repeated after a passing error.")] = 5
    requests_at_once: Annotated[
        int | None,
        typer.Option(help="Most requests at the same time to a provider, of all workers together.", show_default="32"),
    ] = None
    requests_per_minute: Annotated[
        float | None, typer.Option(help="Most requests a minute to a provider, of all workers together.")
    ] = None
    tokens_per_minute: Annotated[
        int | None, typer.Option(help="Most tokens a minute to and from a provider, of all workers together.")
    ] = None
    structured: Annotated[
        str, typer.Option(help="How JSON replies are asked for: native, tool, json or prompt; auto finds out.")
    ] = "auto"
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply.", show_default="2048")] = None
    embedder: options.EmbedderName = "auto"
    prices: Annotated[
        Path | None, typer.Option(help='Prices as JSON: {"openai:x": {"input": $, "output": $}}, per million tokens.')
    ] = None

    @property
    def names(self) -> ModelNames:
        """The names, as requests hold them."""
        return ModelNames.model_validate(
            {
                "agent": self.model,
                "meta": self.meta_model,
                "judge": self.judge_model,
                "base_url": self.base_url,
                "timeout": self.timeout,
                "retries": self.retries,
                "requests_at_once": self.requests_at_once,
                "requests_per_minute": self.requests_per_minute,
                "tokens_per_minute": self.tokens_per_minute,
                "structured": self.structured,
                "max_tokens": self.max_tokens,
                "embedder": self.embedder,
                "prices": None if self.prices is None else str(self.prices.resolve()),
            }
        )


@dataclass(frozen=True)
class Grading:
    """Tasks of the user's own: their fields, how answers are graded, and what agents may call to find them."""

    input_fields: options.InputFields = None
    reference_field: options.ReferenceField = None
    data_split: options.DataSplit = None
    grader: Annotated[str, typer.Option(help="For your own tasks: a named grader, judge or module:function.")] = "exact"
    rubric: options.Rubric = None
    tools: options.Tools = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a request."""
        return {
            "grader": self.grader,
            "rubric": None if self.rubric is None else read_rubric(self.rubric),
            "tools": None if self.tools is None else absolute_names(self.tools),
            "own_data": OwnData(
                input_fields=tuple(self.input_fields or ()),
                reference_field=self.reference_field,
                split=self.data_split,
            ),
        }


@dataclass(frozen=True)
class Results:
    """Where results go, unless only the cost is estimated."""

    langsmith: Annotated[
        bool,
        typer.Option("--langsmith", help="Upload dataset, experiments and traces to LangSmith (LANGSMITH_API_KEY)."),
    ] = False
    upload_references: Annotated[
        bool, typer.Option("--upload-references", help="With --langsmith: upload the references too.")
    ] = False
    dry_run: options.DryRun = False
    out: Annotated[Path | None, typer.Option(help="File of results (JSONL); by default in the run's folder.")] = None

    @property
    def langsmith_setting(self) -> str:
        """What is uploaded to LangSmith.

        Raises:
            ConfigError: references are to be uploaded, and nothing else is.
        """
        if self.upload_references and not self.langsmith:
            raise ConfigError("--upload-references says what --langsmith uploads; give both, or neither")
        return "references" if self.upload_references else "questions" if self.langsmith else "off"


@dataclass(frozen=True)
class Workers:
    """How many workers there are, and where."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes, or tasks of a cluster at once; results do not depend on them.",
            show_default="1 or 2 processes, or the cluster's processors",
        ),
    ] = None
    executor: Annotated[
        str, typer.Option(help="Where workers run: process, on this machine, or ray, on a cluster (selfwire[ray]).")
    ] = "process"
    ray_address: Annotated[
        str, typer.Option(envvar="RAY_ADDRESS", help="With --executor ray: address of a running cluster.")
    ] = ""

    @property
    def options(self) -> WorkerOptions:
        """The options for jobs.

        Raises:
            ConfigError: there is no such executor, or no address of a cluster.
        """
        if self.executor not in ("process", "ray"):
            raise ConfigError(f"there is no executor {self.executor!r}; give process or ray")
        if self.executor == "ray" and not self.ray_address:
            raise ConfigError(
                "--executor ray needs a running cluster: start one with `ray start --head`, and give --ray-address or "
                "set RAY_ADDRESS"
            )
        return WorkerOptions.model_validate(
            {"workers": self.workers, "executor": self.executor, "ray_address": self.ray_address}
        )


Group = TypeVar("Group")


def select_group(group: type[Group], given: Mapping[str, Any]) -> Group:
    """A group out of all parameters of a command."""
    return group(**{name: given[name] for name in signature(group).parameters})


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
