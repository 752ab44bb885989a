"""REINFORCE: returns and advantages by hand, batches against one-by-one, what is switched and what is refused."""

import math

import numpy as np
import pytest
import torch

from selfwire.evolvers.router.batch import make_batch, pad_rows
from selfwire.evolvers.router.choosers import Exit, draw_layers
from selfwire.evolvers.router.config import SamplingConfig, TrainConfig, paper_training
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.router.head import RoutingHead
from selfwire.evolvers.router.reinforce import (
    Learner,
    advantages,
    compute_returns,
    exit_advantages,
    get_decisions,
)
from selfwire.models.embeddings import HashingEmbedder
from tests.evolvers.evomas.doubles import (
    AGENTS,
    EXITS,
    LEAVING,
    POOL,
    ROWS,
    SAMPLING,
    decided,
    episode,
    head,
    may_leave,
    vectors,
)

MIXED = (
    episode(1.0, decided(("sort",), ("paint",)), decided(("weigh", "sort"), ("sort",), rows=("there", "so far"))),
    episode(0.0, decided(("paint",), ("weigh",), masked=("sort",))),
    episode(0.0, decided(("paint", "sort"), rows=("so far",))),
)


def weights(learner: Learner) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in learner.head.parameters()]


def test_a_baseline_compares_equal_stages_and_falls_back_to_the_first() -> None:
    found = advantages([[1.0], [0.0], [0.0], [1.0]], baseline="loo")
    assert [one[0] for one in found] == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])
    found = advantages([[1.0, 0.8], [0.4], [0.1, 0.2]], baseline="loo")
    assert found[0] == pytest.approx([1.0 - 0.25, 0.8 - 0.2])
    assert advantages([[0.0, 0.5], [1.0], [0.0]], baseline="loo")[0][1] == pytest.approx(0.5 - 0.5)
    assert advantages([[1.0, 0.3]], baseline="loo") == [[0.0, 0.0]]


def test_d7_episodes_are_compared_with_those_of_their_question_and_without_any_with_all() -> None:
    asked = ("hard", "easy", "hard", "easy", "alone")
    found = advantages([[0.0], [1.0], [0.0], [0.8], [0.5]], baseline="loo", questions=asked)
    assert [one[0] for one in found] == pytest.approx([0.0, 0.2, 0.0, -0.2, 0.5 - 0.45])


def test_d9_process_rewards_count_from_their_stage_on() -> None:
    one = episode(1.0, decided(("sort",)), decided(("sort",)), decided(("sort",)), process=(1.0, 0.0, 1.0))
    assert compute_returns([one], stages=4, weight=0.2)[0] == pytest.approx([1.1, 1.05, 1.05])
    assert compute_returns([one], stages=4)[0] == [1.0, 1.0, 1.0]


def test_process_rewards_that_are_missing_are_refused() -> None:
    with pytest.raises(ValueError, match="1 stages have 0 process rewards"):
        compute_returns([episode(1.0)], stages=4, weight=0.2)
    with pytest.raises(ValueError, match="without a reward"):
        compute_returns([episode(None)], stages=4)


def test_a_padded_batch_has_the_gradient_of_its_episodes_one_by_one() -> None:
    learner = Learner(head(), TrainConfig(), SAMPLING)
    config, weighted = learner.head.config, [0.9, 0.5, -0.3, -0.2]

    def gradient(indices: list[int]) -> list[torch.Tensor]:
        decisions = get_decisions(MIXED)
        batch = make_batch([decisions[i] for i in indices], AGENTS, ROWS, config)
        score, _ = learner.objective(batch, np.array([weighted[i] for i in indices]), np.zeros(len(indices)), 1)
        return list(torch.autograd.grad(score, list(learner.head.parameters())))

    together = gradient([0, 1, 2, 3])
    alone = [gradient([index]) for index in range(4)]
    for place, expected in enumerate(together):
        assert torch.allclose(sum((one[place] for one in alone), torch.zeros(())), expected, atol=1e-5)


def test_what_was_rewarded_becomes_more_probable() -> None:
    learner = Learner(head(), TrainConfig(entropy=0.0), SAMPLING)
    batch = make_batch(get_decisions(MIXED), AGENTS, ROWS, learner.head.config)

    def log_p() -> float:
        with torch.no_grad():
            return float(learner.objective(batch, np.array([1.0, 1.0, 0.0, 0.0]), np.zeros(4), 1)[0])

    before = log_p()
    for _ in range(20):
        learner.update(MIXED, AGENTS, ROWS)
    assert log_p() > before + 0.1


def test_d7_a_batch_of_equal_returns_changes_nothing_unless_the_paper_says_so() -> None:
    equal = (episode(1.0), episode(1.0, decided(("weigh",), ("sort",))))
    for config, moves in ((TrainConfig(), False), (paper_training(), True)):
        learner = Learner(head(), config, SAMPLING)
        before = weights(learner)
        update = learner.update(equal, AGENTS, ROWS)
        assert update.skipped is not moves
        assert any(not torch.equal(a, b) for a, b in zip(before, weights(learner), strict=True)) is moves
    learner = Learner(head(), TrainConfig(baseline="none"), SAMPLING)
    assert learner.update(equal, AGENTS, ROWS).skipped
    assert not learner.update(MIXED, AGENTS, ROWS).skipped


def test_d7_the_entropy_bonus_raises_entropy() -> None:
    ends = []
    for bonus in (0.0, 5.0):
        learner = Learner(head(), TrainConfig(entropy=bonus, rate=1e-2, batch=len(MIXED)), SAMPLING)
        for _ in range(30):
            update = learner.update(MIXED, AGENTS, ROWS)
        ends.append(update.entropy)
    assert ends[1] > ends[0] + 0.1


def test_a_quarter_of_a_batch_takes_half_a_step() -> None:
    moved = []
    for batch in (len(MIXED), 4 * len(MIXED)):
        learner = Learner(head(), TrainConfig(batch=batch), SAMPLING)
        before = learner.head.query.detach().clone()
        learner.update(MIXED, AGENTS, ROWS)
        moved.append(float((learner.head.query.detach() - before).norm()))
    assert moved[1] == pytest.approx(moved[0] / 2, rel=1e-3)


def test_d7_clipping_limits_the_step_and_reports_the_length_before() -> None:
    learner = Learner(head(), TrainConfig(clip=1e-3), SAMPLING)
    assert learner.update(MIXED, AGENTS, ROWS).gradient_norm > 1e-3
    length = math.sqrt(sum(float((w.grad**2).sum()) for w in learner.head.parameters() if w.grad is not None))
    assert length == pytest.approx(1e-3, rel=1e-3)


def test_d8_an_episode_that_ended_as_an_error_teaches_nothing() -> None:
    one, two = (Learner(head(), TrainConfig(), SAMPLING) for _ in range(2))
    first = one.update(MIXED, AGENTS, ROWS)
    second = two.update((*MIXED, episode(None)), AGENTS, ROWS)
    assert (first.errors, second.errors) == (0, 1)
    assert first.reward == second.reward == pytest.approx(1 / 3)
    assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))
    nothing = two.update([episode(None)], AGENTS, ROWS)
    assert (nothing.skipped, nothing.reward, nothing.errors) == (True, None, 1)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -1.1, 1.5])
def test_a_reward_that_is_no_share_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="reward"):
        episode(reward)


def test_agents_that_nobody_knows_are_refused() -> None:
    with pytest.raises(ValueError, match="decisions name weigh, who are not in the pool; it holds sort, paint"):
        Learner(head(), TrainConfig(), SAMPLING).update(MIXED, {name: AGENTS[name] for name in ("sort", "paint")}, ROWS)


@pytest.mark.parametrize(("drawn", "masked"), [("nobody", ()), ("sort", ("sort",))])
def test_what_cannot_have_been_drawn_is_no_decision(drawn: str, masked: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"{drawn} cannot have been drawn"):
        Decision(rows=("x",), agents=("sort", "paint"), layered=LayeredWorkflow(layers=((drawn,),), masked=masked))


def test_weights_that_are_not_finite_are_refused_before_they_spread() -> None:
    learner = Learner(head(), TrainConfig(), SAMPLING)
    with torch.no_grad():
        learner.head.query[0, 0] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        learner.update(MIXED, AGENTS, ROWS)


def test_d28_early_exit_has_a_gradient_of_its_own_that_agrees_with_finite_differences() -> None:
    learner = Learner(head().double(), TrainConfig(), SAMPLING)
    made = make_batch(get_decisions(EXITS), LEAVING, ROWS, learner.head.config)
    doubles = {name: getattr(made, name).astype(np.float64) for name in ("rows", "agents", "contexts")}
    batch, drawn, exits = made._replace(**doubles), np.array([0.4, -0.7, 0.2]), np.array([0.9, -0.3, -0.6])
    weights = dict(learner.head.named_parameters())
    with torch.no_grad():
        weights["exit"][:-1] = torch.linspace(-0.1, 0.1, len(weights["exit"]) - 1)

    def objective(left: np.ndarray[tuple[int], np.dtype[np.float64]] = exits) -> torch.Tensor:
        return learner.objective(batch, drawn, left, 3)[0]

    found = dict(zip(weights, torch.autograd.grad(objective(), list(weights.values())), strict=True))
    without = dict(zip(weights, torch.autograd.grad(objective(0 * exits), list(weights.values())), strict=True))
    assert all(torch.equal(found[name], without[name]) for name in ("query", "key", "value"))
    assert not without["exit"].any()
    step = 1e-6
    for place in range(len(weights["exit"])):
        with torch.no_grad():
            kept, ends = weights["exit"][place].item(), []
            for moved in (kept + step, kept - step):
                weights["exit"][place] = moved
                ends.append(objective().item())
            weights["exit"][place] = kept
        slope = (ends[0] - ends[1]) / (2 * step)
        assert slope == pytest.approx(found["exit"][place].item(), rel=1e-5, abs=1e-8)
        assert abs(slope) > 1e-4


def test_d28_an_exit_before_a_layer_that_might_not_be_it_was_no_decision() -> None:
    barred = may_leave(("sort",), ("leave",), masked_first=("leave",))
    batch = make_batch([*get_decisions(EXITS), barred, decided(("sort",))], LEAVING, ROWS, head().config)
    assert batch.exited.tolist() == [[0, 1], [0, 0], [1, -1], [-1, 1], [-1, -1]]
    assert not batch.free[:4, :, 3].any()
    assert (batch.order[3] == [[0, -1], [-1, -1]]).all()


def test_d28_early_exit_is_compared_with_runs_that_could_have_drawn_it() -> None:
    def run(reward: float, *decisions: Decision, question: str = "a") -> Episode:
        return episode(reward, *decisions).replace(question=question)

    never, may = decided(("sort",)), may_leave(("sort",))
    batch = (run(0.0, never), run(0.0, never), run(1.0, never, may), run(0.5, never, may), run(0.8, may, question="b"))
    found = compute_returns(batch, stages=2)
    flat = [pytest.approx(weights) for weights in ([0.0], [0.0], [0.0, 0.5], [0.0, -0.5], [0.05])]
    assert exit_advantages(batch, found, baseline="loo") == flat
    assert exit_advantages(batch, found, baseline="none") == [[0.0], [0.0], [0.0, 1.0], [0.0, 0.5], [0.8]]
    apart = advantages(found, baseline="loo", questions=[one.question for one in batch])
    assert apart[2][0] == pytest.approx(1.0 - 0.5 / 3)


WORK = vectors(("wood", "stone", "settled", "open", "saw", "chisel", "leave"), d=384)
"""Rows, and the agents saw and chisel with Early-exit."""
TOOLS = {name: WORK[name] for name in ("saw", "chisel", "leave")}


@pytest.mark.parametrize("frozen", [False, True])
def test_d28_where_half_of_the_questions_are_settled_exit_and_agent_are_learned_apart(frozen: bool) -> None:
    """The first stage needs the agent of the material; the second one ends where all is settled, and else goes on."""
    sampling = SamplingConfig(layers=1, width=1)
    learner = Learner(RoutingHead(384), TrainConfig(entropy=0.0), sampling)
    learner.head.exit.requires_grad_(not frozen)
    random = np.random.default_rng(3)

    def choose(rows: tuple[str, ...], count: int, leave: Exit | None) -> list[str]:
        states = pad_rows([rows] * count, WORK)
        free = np.array([[[True, True, False]]])
        agents = np.stack(list(TOOLS.values()))
        drawn = draw_layers(learner.head, states, agents, sampling=sampling, random=random, free=free, leave=leave)
        return [list(TOOLS)[place] for place in drawn.order[:, 0, 0]]

    def run(material: str, left: str, count: int) -> list[tuple[Episode, bool, bool]]:
        exit = Exit(2, np.array([True]))
        done = []
        for first, second in zip(choose((material,), count, None), choose((material, left), count, exit), strict=True):
            right, ended = first == {"wood": "saw", "stone": "chisel"}[material], second == "leave"
            good = ended == (left == "settled")
            decisions = tuple(
                Decision(
                    rows=rows, agents=tuple(TOOLS), layered=LayeredWorkflow(layers=((name,),), masked=hid, exit=out)
                )
                for rows, name, hid, out in (
                    ((material,), first, ("leave",), None),
                    ((material, left), second, (), "leave"),
                )
            )
            made = Episode(decisions=decisions, reward=(right + good) / 2, question=f"{material} {left}")
            done.append((made, right, good))
        return done

    kinds = [(material, left) for material in ("wood", "stone") for left in ("settled", "open")]
    for _ in range(60):
        learner.update([made for kind in kinds for made, _, _ in run(*kind, 4)], TOOLS, WORK)
    ends = [outcome for kind in kinds for outcome in run(*kind, 100)]
    assert np.mean([right for _, right, _ in ends]) > 0.9
    good = np.mean([good for _, _, good in ends])
    assert 0.4 < good < 0.65 if frozen else good > 0.9


async def test_learning_embeds_what_the_episodes_saw() -> None:
    learner = Learner(RoutingHead(64), TrainConfig(), SAMPLING)
    update = await learner.learn(MIXED, POOL, HashingEmbedder(64))
    assert (update.number, update.episodes, update.skipped) == (1, 3, False)
    assert 0 < update.entropy <= math.log(3)
    with pytest.raises(ValueError, match="more than once"):
        await learner.learn(MIXED, (*POOL, POOL[0]), HashingEmbedder(64))


def test_episodes_survive_json() -> None:
    for one in MIXED:
        assert Episode.model_validate(one.model_dump(mode="json")) == one
