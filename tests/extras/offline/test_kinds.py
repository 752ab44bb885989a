"""The offline model finds its critic by the kind of reply that is asked for, and says where it has none."""

import importlib
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from pydantic import BaseModel

from selfwire.core.chat import ReplySchema
from selfwire.evals.judge import RubricScore
from selfwire.evolvers.dytopo.schemas import turn_schema
from selfwire.extras.contestants.aflow.method import TeamEdit
from selfwire.extras.offline import critics
from selfwire.extras.offline.model import OfflineChat
from selfwire.nodes.ensemble import EnsembleChoice
from tests.extras.offline.replies import replied

COMPARISON = "Which was founded earlier, Brol Works or Tas Press?"
GRAPH = "entry: planner\nsink: reflector\nplanner -> searcher\nsearcher -> reflector\nreflector -> nobody"
AGENTS = "\n\n".join(
    f"[{name}] works\ntools: none\ncontributions, oldest first: 0.7\nprompt: Work." for name in ("planner", "reflector")
)


def families(schema: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in schema.__subclasses__():
        yield child
        yield from families(child)


def requested_schemas() -> list[type[BaseModel]]:
    """Every schema of the project that is asked for as a whole."""
    for file in sorted((Path(__file__).parents[3] / "evolvers").glob("*/*.py")):
        if "(ReplySchema" in file.read_text(encoding="utf-8"):
            importlib.import_module(f"selfwire.evolvers.{file.parent.name}.{file.stem}")
    for answers, checks, tools in product((False, True), repeat=3):
        turn_schema(answers=answers, checks=checks, tools=tools)
    found = [one for one in families(ReplySchema) if one.__module__.startswith("selfwire.")]
    nested = {name for schema in found for name in schema.model_json_schema().get("$defs", {})}
    return [schema for schema in found if schema.__name__ not in nested]


SCHEMAS = requested_schemas()


@pytest.fixture(autouse=True)
def forget_warnings() -> None:
    critics.warn_once.cache_clear()


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
@pytest.mark.parametrize("error_rate", [0, 1])
def test_every_reply_schema_has_a_critic_that_fills_it(schema: type[BaseModel], error_rate: float) -> None:
    for seed in range(20):
        assert replied(schema, seed=seed, error_rate=error_rate)
        assert replied(schema, seed=seed, error_rate=error_rate, task=COMPARISON, graph=GRAPH, agents=AGENTS)
        assert replied(schema, seed=seed, error_rate=error_rate, task=COMPARISON, state="[s1] TODO: x", outcome="y")


def test_every_kind_is_the_title_of_a_schema_and_the_reverse() -> None:
    assert {schema.model_json_schema()["title"] for schema in SCHEMAS} == set(critics.CRITICS)
    assert {one.__name__ for one in (EnsembleChoice, RubricScore, TeamEdit)} <= {one.__name__ for one in SCHEMAS}


class Advice(ReplySchema, title="PromptRewrite"):
    prompt: str


class GlobalGradients(ReplySchema):
    grounds: str
    weight: float = 1.0


class OtherPlan(ReplySchema, title="Plan"):
    summary: str
    cost: int


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_a_schema_of_another_package_declares_a_known_kind(method: str) -> None:
    model = OfflineChat(critic_error_rate=0).with_structured_output(Advice, method=method)
    advice = model.invoke("<prompt>You help.</prompt><gradients>Split the question.</gradients>")
    assert isinstance(advice, Advice)
    assert advice.prompt.startswith("You help.\n")


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_an_unknown_kind_is_named_once_with_the_nearest_known_one(method: str) -> None:
    model = OfflineChat().with_structured_output(GlobalGradients, method=method)
    with pytest.warns(UserWarning, match="grounds, weight .*no critic is of kind 'GlobalGradients'") as caught:
        replies = [model.invoke("anything") for _ in range(2)]
    assert [str(warning.message).count("title='GlobalGradient'") for warning in caught] == [1]
    assert replies == [GlobalGradients(grounds="", weight=1.0)] * 2


def test_a_known_kind_with_other_fields_is_named() -> None:
    with pytest.warns(UserWarning, match="cost .*the critic of 'Plan' does not fill"):
        assert replied(OtherPlan, task=COMPARISON) == OtherPlan(summary="", cost=0)


def test_an_object_without_a_schema_needs_no_critic() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert OfflineChat().bind(response_format={"type": "json_object"}).invoke("x").text == "{}"
