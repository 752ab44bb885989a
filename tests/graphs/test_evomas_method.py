"""EvoMAS as evaluations call it: what a trajectory holds, what is learned of it, and that every switch changes it."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from pydantic import ValidationError

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import to_canonical_json, to_plain_json
from selfwire.evals.benchmarks.archive import archive
from selfwire.evals.benchmarks.plancraft import PLANCRAFT
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.router.config import ROUTER, TrainConfig, paper_training
from selfwire.evolvers.router.decisions import Episode, to_router_episode
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs import evomas as served
from selfwire.graphs.evomas import Evomas
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import find_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model

BENCH = archive(40)
ASKED = Question(id="q1", input=BENCH.splits(0, train=8, gate=0, test=0).train[1].input)


def begun(evomas: Evomas) -> Team:
    return evomas.seed(BENCH.tools, toolbox=tuple(BENCH.toolbox))


def given(evomas: Evomas, model: MeteredModel | None = None, *, seed: int = 0) -> Ctx[EvomasConfig]:
    model = model or MeteredModel(OfflineChat(critic_error_rate=0.0, error_rate=0.0))
    return evomas.make_ctx(model, BENCH.toolbox, HashingEmbedder(64), scope=Scope(run="r", seed=seed))


async def solved(evomas: Evomas, *, seed: int = 0, team: Team | None = None) -> Trajectory:
    return await evomas.answer(team or begun(evomas), ASKED, given(evomas, seed=seed))


def stages(done: Trajectory) -> list[Stage]:
    return [Stage.model_validate(one) for one in to_plain_json(done.notes["stages"])]


def graded(done: Trajectory, score: float) -> Trajectory:
    return done.with_feedback(Feedback(score=score, solved=score >= 1, text=""))


async def test_a_trajectory_holds_all_stages_and_what_the_router_decided() -> None:
    done = await solved(Evomas())
    told = stages(done)
    assert {step.visit for step in done.steps} == set(range(len(told)))
    assert len({(step.visit, step.node) for step in done.steps}) == len(done.steps)
    for one in told:
        assert one.layered is not None
        ran = {step.agent for step in done.steps if step.visit == one.number}
        assert ran <= {agent for layer in one.layered.layers for agent in layer}
    noted = Episode.model_validate(to_plain_json(done.notes["episode"]))
    assert [d.layered for d in noted.decisions] == [one.layered for one in told]
    assert noted.reward is None
    assert done.notes["status"] in ("done", "early_exit", "stages")
    layers = sum(len(one.layered.layers) for one in noted.decisions)
    assert done.decisions is not None
    assert (done.decisions.made, 0 < done.decisions.free <= layers) == (layers, True)
    assert done.usage.calls == sum(one.usage.calls for one in told)


async def test_equal_scopes_give_equal_runs_and_samples_differ() -> None:
    evomas = Evomas(samples=3, adapter="random")
    assert account(await solved(evomas)) == account(await solved(evomas))
    found = await evomas.explore(begun(evomas), ASKED, given(evomas))
    assert [one.sample for one in found] == [0, 1, 2]
    assert len({to_canonical_json(one.notes["episode"]) for one in found}) == 3


SWITCHES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"adapter": "random"}),
    ({}, {"adapter": "fixed"}),
    ({}, {"pool": 4}),
    ({}, {"task_state": False}),
    ({"adapter": "fixed"}, {"adapter": "fixed", "task_state": False}),
    ({"adapter": "random"}, {"adapter": "random", "pool": 4}),
    ({}, {"verify": True}),
    ({}, {"stages": 1}),
]


def account(done: Trajectory) -> list[Any]:
    return [[s.visit, s.node, s.output] for s in done.steps] + [to_plain_json(done.notes["episode"]), done.usage.calls]


@pytest.mark.parametrize(("one", "other"), SWITCHES, ids=lambda fields: to_canonical_json(fields))
async def test_every_switch_changes_the_trajectory(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert account(await solved(Evomas(**one))) != account(await solved(Evomas(**other)))


@pytest.mark.slow
async def test_a_frozen_adapter_is_the_head_as_it_starts_whatever_was_learned() -> None:
    learning, frozen = Evomas(train={"rate": 0.5, "entropy": 0}), Evomas(adapter="frozen")
    start = begun(learning)
    assert account(await solved(learning)) == account(await solved(frozen))
    found = [graded(await solved(learning, seed=seed), float(seed % 2)) for seed in range(4)]
    trained = (await learning.propose(start, found, given(learning))).workflow
    assert account(await solved(frozen, team=trained)) == account(await solved(frozen))
    assert account(await solved(learning, team=trained)) != account(await solved(learning))


async def test_a_proposal_learns_weights_and_nothing_else() -> None:
    evomas = Evomas(train={"rate": 0.01})
    start = begun(evomas)
    found = [graded(await solved(evomas, seed=seed), float(seed % 2)) for seed in range(4)]
    evolved = await evomas.propose(start, found, given(evomas))
    assert (evolved.workflow.agents, evolved.workflow.topology) == (start.agents, start.topology)
    assert evolved.workflow.lineage.parent == start.fingerprint
    assert set(evolved.workflow.memory) == {ROUTER}
    assert evolved.notes["update"]["episodes"] == 4
    assert evolved.notes["update"]["gradient_norm"] > 0
    again = await evomas.propose(evolved.workflow, found, given(evomas))
    assert again.notes["update"]["number"] == 2


async def test_process_reward_reaches_the_update() -> None:
    found = [graded(await solved(Evomas(), seed=seed), 0.0) for seed in range(4)]
    notes = []
    for switch in (False, True):
        evomas = Evomas(process_reward=switch)
        evolved = await evomas.propose(begun(evomas), found, given(evomas))
        notes.append(evolved.notes["update"])
    assert [one["skipped"] for one in notes] == [True, False]  # all rewards are equal, the process rewards are not
    assert notes[0]["returned"] == 0 < notes[1]["returned"]


@pytest.mark.parametrize("adapter", ["random", "fixed", "frozen"])
async def test_nothing_is_learned_where_nobody_asks_the_trained_head(adapter: str) -> None:
    evomas = Evomas(adapter=adapter)
    start = begun(evomas)
    found = [graded(await solved(evomas), 1.0)]
    assert (await evomas.propose(start, found, given(evomas))).workflow == start


async def test_d22_the_reward_of_an_episode_is_the_score_of_its_answer() -> None:
    episode = to_router_episode((await solved(Evomas())).with_feedback(Feedback(score=0.6, solved=False, text="")))
    assert episode is not None
    assert episode.reward == 0.6


async def test_d22_the_preset_paper_rewards_success_alone() -> None:
    done = await solved(Evomas())
    for solved_it, reward in ((False, 0.0), (True, 1.0)):
        graded_so = done.with_feedback(Feedback(score=0.6, solved=solved_it, text=""))
        episode = to_router_episode(graded_so, paper_training())
        assert episode is not None
        assert episode.reward == reward


async def test_a_run_pays_for_its_calls_where_training_has_a_price() -> None:
    done = (await solved(Evomas())).with_feedback(Feedback(score=0.6, solved=False, text=""))
    calls = done.usage.calls
    assert calls > 2
    for objective, reward in (
        ("score", 0.6),
        ("score - 0.01*calls", 0.6 - 0.01 * calls),
        ("2*score - 0.02*calls", 0.6 - 0.01 * calls),
        ("score - calls", -1.0),
        ("score - tokens/1000000", 0.6 - done.usage.tokens / 1e6),
    ):
        episode = to_router_episode(done, TrainConfig(objective=objective))
        assert episode is not None
        assert episode.reward == pytest.approx(reward)
    for objective, fault in (
        ("cheapest", "of a single run"),
        ("score - dollars", "of a single run"),
        ("score + calls", "calls would"),
    ):
        with pytest.raises(ValueError, match=fault):
            TrainConfig(objective=objective)


async def test_a_router_with_a_price_learns_from_runs_that_score_alike_and_cost_more() -> None:
    """Two runs of a question score alike; only with a price is there something to learn from the dearer one."""
    learned = []
    for objective in ("score", "score - 0.01*calls"):
        evomas = Evomas(train={"objective": objective})
        start = begun(evomas)
        cheap = graded(await solved(evomas), 1.0)
        dear = cheap.replace(overhead=cheap.overhead + Usage(calls=40))
        found = await evomas.propose(start, [cheap, dear], given(evomas))
        learned.append(not to_plain_json(found.notes)["update"]["skipped"])
    assert learned == [False, True]


async def test_without_part_marks_it_learns_from_success_alone() -> None:
    rewards = []
    for partial in (True, False):
        evomas = Evomas(train={"partial": partial})
        start = begun(evomas)
        done = [(await solved(evomas)).with_feedback(Feedback(score=0.6, solved=False, text=""))]
        found = await evomas.propose(start, done, given(evomas))
        rewards.append(to_plain_json(found.notes)["update"]["reward"])
    assert rewards == [0.6, 0.0]


async def test_d8_what_an_error_ended_has_no_reward_and_teaches_nothing() -> None:
    ungraded = await solved(Evomas())
    done = graded(ungraded, 1.0)
    broken = done.replace(steps=(*done.steps, Step(node="L1-io", agent="io", visit=9, error="401")))
    rewards = [to_router_episode(one) for one in (done, broken, done.as_failed("down"), ungraded)]
    assert all(one is not None for one in rewards)
    assert [one and one.reward for one in rewards] == [1.0, None, None, None]
    assert to_router_episode(done.replace(notes={})) is None


async def test_what_a_rejected_candidate_has_learned_is_kept() -> None:
    evomas = Evomas()
    start = begun(evomas)
    learned = start.with_memory(**{ROUTER: {"weights": "sha256:0"}})
    assert evomas.keep_memory(start, learned).memory == learned.memory
    assert evomas.keep_memory(start, start) == start
    assert evomas.propose_pruning(start, {}) is None
    assert await evomas.fit(start, [], given(evomas)) == start


class DownChat(OfflineChat):
    """A model whose server gives no answer."""

    def _reply(self, *args: Any, **kwargs: Any) -> AIMessage:
        raise TimeoutError("the server is down")


async def test_a_model_that_fails_outside_the_team_ends_the_trajectory_as_an_error() -> None:
    model = MeteredModel(DownChat(), policy=CallSettings(retries=0))
    evomas = Evomas(adapter="random")
    done = await evomas.answer(begun(evomas), ASKED, given(evomas, model))
    assert done.answer is None
    assert "ModelError" in (done.error or "")
    assert to_router_episode(done) is None


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"adapter": "random"}, {"adapter": "fixed", "task_state": False}, {"pool": 4}])
async def test_plancraft_runs_from_end_to_end(fields: dict[str, Any]) -> None:
    model, evomas = MeteredModel(make_chat_model("offline")), Evomas(**fields)
    team = evomas.seed(PLANCRAFT.tools, toolbox=tuple(PLANCRAFT.toolbox))
    ctx = evomas.make_ctx(model, PLANCRAFT.toolbox, HashingEmbedder(64), scope=Scope(run="r"))
    for task in PLANCRAFT.splits(0, train=2, gate=0, test=0).train:
        done = await evomas.answer(team, task.question, ctx)
        assert done.error is None
        feedback = await PLANCRAFT.environment.grade(task, done.answer or "", scope=Scope())
        assert 0 <= feedback.score <= 1


def test_the_ablations_by_name_are_configs() -> None:
    for name, variant in find_method("evomas").variants.items():
        assert EvomasConfig.model_validate(to_plain_json(variant.config)), name


def test_a_pool_whose_agent_is_called_as_an_end_of_a_stage_is_refused() -> None:
    start = Evomas().seed()
    other = start.replace(agents=(*start.agents, Agent(id="outcome", role="Reads the outcome.", prompt="You read.")))
    with pytest.raises(ConfigError, match="outcome is what an end of every stage is called"):
        served.build(initial=other)


async def test_a_pool_of_early_exit_alone_ends_as_an_error_that_says_why() -> None:
    alone = Agent(id="early_exit", prompt="", kind="signal")
    done = await solved(Evomas(), team=Team(method="evomas", agents=(alone,), topology=make_chain("early_exit")))
    assert done.answer is None
    assert done.error == "no stage came to an outcome; the last one: only Early-exit was chosen"


@pytest.mark.parametrize(
    ("fields", "told"),
    [({"plan": [["io"]]}, "set both or none"), ({"adapter": "fixed", "plan": [[]]}, "at least 1 item")],
)
def test_a_plan_that_nobody_runs_or_could_run_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        EvomasConfig.model_validate(fields)
