"""What `selfwire run` says before it asks a team: what the offline model knows, and how much a method will ask."""

import shlex
from collections.abc import Mapping
from typing import Any

from selfwire.core.workflow import Workflow
from selfwire.runs.estimates import estimate_question_calls
from selfwire.runtime.offline.vocabulary import family_of

KNOWN = ("Who founded Klumeileth Works?", "archive")
"""A question that the offline model can answer, and the benchmark whose tools it needs."""
MODEL = "openai:gpt-4o-mini"
"""A real model, as an example."""
MANY = 20
"""Calls for one question of which a user is told before they are made."""


def explain_offline(target: str, question: str, benchmark: str | None) -> tuple[str, ...]:
    """Lines for a question to the offline model that it cannot answer: one that it can, and how to ask a real model."""
    family = family_of(question)
    if family is not None and benchmark is not None:
        return ()
    known, lends = KNOWN
    ask = f"selfwire run {shlex.quote(target)}"
    return (
        f'the offline model answers only the tasks of generated benchmarks: {ask} "{known}" --benchmark {lends}',
        f"a real model answers this one: {ask} {shlex.quote(question)} --model {MODEL}"
        " (needs OPENAI_API_KEY; --base-url ADDRESS for a server of your own)",
    )


def warn_of_many_calls(method: str, config: Mapping[str, Any], team: Workflow) -> tuple[str, ...]:
    """A line for a method that asks the model many times for one question."""
    calls = estimate_question_calls(method, config, team)
    if calls <= MANY:
        return ()
    return (f"{method} makes about {calls:.0f} model calls for one question; --budget-calls N stops it earlier",)
