"""Each mechanism pays with a model that works carefully: the run is right with it, and wrong with it switched off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.graphs.method import make_method
from selfwire.models import embeddings
from tests.asks import local
from tests.graphs.careful import (
    Family,
    Passages,
    Plans,
    Play,
    Programs,
    make_answer,
    play_dytopo,
    play_evomas,
    play_hera,
    play_hiva,
    play_tacomas,
)
from tests.wire.server import WireServer


@dataclass(frozen=True)
class Mechanism:
    """A mechanism of a method.

    Attributes:
        families: tasks on which it is tried.
        config: in which it alone is on.
        off: what switches it off.
        learns: whether graded questions come before the one that is asked.
    """

    name: str
    method: str
    play: Play
    families: Sequence[Family]
    config: Mapping[str, Any]
    off: Mapping[str, Any]
    learns: bool = False


TEXTS, PROGRAMS, PLANS = Passages(), Programs(), Plans()
ALL = (TEXTS, PROGRAMS, PLANS)
FAST_LOOP = {"rounds": 3, "topology": False}
SLOW_LOOP = {"rounds": 2, "interval": 1, "capability": False}
ONE_AGENT = {"adapter": "fixed", "plan": [["io"]], "stages": 3}
PROMPTS = {"topology_evolution": False}
TEAM = {"semantic_evolution": False}
INSIGHTS = {"rope": False, "mutation": False, "group": 2}
VARIANTS = {"library": False, "mutation": False, "group": 1}
MUTANTS = {"rope": False, "group": 2}
MECHANISMS = (
    Mechanism("match", "dytopo", play_dytopo, (TEXTS, PLANS), {"rounds": 5}, {"topology": "none"}),
    Mechanism("match", "dytopo", play_dytopo, (PROGRAMS,), {"rounds": 5, "domain": "code"}, {"topology": "none"}),
    Mechanism("coach", "tacomas", play_tacomas, (TEXTS, PROGRAMS), FAST_LOOP, {"fast": {"refines": False}}),
    Mechanism("birth", "tacomas", play_tacomas, (PLANS,), SLOW_LOOP, {"topology": False}),
    Mechanism("review", "evomas", play_evomas, ALL, ONE_AGENT, {"task_state": False}),
    Mechanism("rewrite", "hiva", play_hiva, (PLANS,), PROMPTS, {"semantic_evolution": False}, learns=True),
    Mechanism("tool", "hiva", play_hiva, (TEXTS,), PROMPTS, {"tool_evolution": False}, learns=True),
    Mechanism("newcomer", "hiva", play_hiva, (PROGRAMS,), TEAM, {"topology_evolution": False}, learns=True),
    Mechanism("experience", "hera", play_hera, (TEXTS,), INSIGHTS, {"library": False}, learns=True),
    Mechanism("variants", "hera", play_hera, (PROGRAMS,), VARIANTS, {"rope": False}, learns=True),
    Mechanism("mutation", "hera", partial(play_hera, draws=False), (PLANS,), MUTANTS, {"mutation": False}, learns=True),
)
RUNS = [(mechanism, family) for mechanism in MECHANISMS for family in mechanism.families]


@pytest.fixture(autouse=True)
def _by_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed as on a machine without MiniLM's weights, which take seconds to load."""
    monkeypatch.setattr(embeddings, "_find_packaged_folder", lambda: None)
    monkeypatch.setattr(embeddings, "_find_cached_folder", lambda: None)


async def is_solved(mechanism: Mechanism, family: Family, config: Mapping[str, Any], home: Path) -> bool:
    """Whether a method answers a question, after it has learned from two others where it learns."""
    method = make_method(mechanism.method, config)
    with WireServer(make_answer(mechanism.play, family)) as server:
        given: dict[str, Any] = {"model": local(server.url), "home": home}
        team: Any = method
        if mechanism.learns:
            parts: dict[str, Any] = {"iterations": 1, "batch": 2, "gate": "off", **given}
            tasks = [family.make(number) for number in (1, 2)]
            team = (await selfwire.aevolve(method, tasks, family.grade, valset=[family.make(4)], **parts)).team
        asked = family.make(3)
        done = await selfwire.arun(team, asked, method=method, **given)
    assert done.answer is not None, done.error
    return family.grade(asked, done.answer)[0]


@pytest.mark.parametrize(("mechanism", "family"), RUNS, ids=[f"{m.method}-{m.name}-{f.name}" for m, f in RUNS])
async def test_a_careful_model_is_right_by_the_mechanism_and_wrong_without_it(
    mechanism: Mechanism, family: Family, tmp_path: Path
) -> None:
    assert await is_solved(mechanism, family, mechanism.config, tmp_path / "on")
    assert not await is_solved(mechanism, family, {**mechanism.config, **mechanism.off}, tmp_path / "off")
