"""The routing head by its equations, its gradients by finite differences."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
import torch
from torch.nn import functional

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.layers import make_chooser
from selfwire.evolvers.router.batch import compute_contexts, embed_pool, embed_texts, make_batch, row_texts
from selfwire.evolvers.router.choosers import FixedChooser, LearnedChooser, RandomChooser, draw_layers, log_probability
from selfwire.evolvers.router.config import EXIT_START, PAPER_HEAD, HeadConfig, SamplingConfig, TrainConfig
from selfwire.evolvers.router.decisions import Decision, LayerChooser, Masks
from selfwire.evolvers.router.head import RoutingHead, entropy, get_device, sequence_log_probability
from selfwire.evolvers.router.reinforce import Learner
from selfwire.models.embeddings import HashingEmbedder

D = 16
POOL = tuple(Agent(id=name, role=f"{name} things", prompt="Work.") for name in ("sort", "weigh", "paint", "mend"))
ROWS = ("active subtask: paint the fence", "objective: a tidy garden")


def head(config: HeadConfig = HeadConfig(), d: int = D) -> RoutingHead:
    made = RoutingHead(d, config)
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=source))
    return made


def by_hand(made: RoutingHead, rows: torch.Tensor, agents: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
    """Eq. 22-26 and 10 for one state and one layer, a line per equation."""
    d = agents.shape[1]
    asking = functional.layer_norm(torch.cat([rows, context[None]]), (d,))
    shown = functional.layer_norm(agents, (d,))
    q, k, v = asking @ made.query, shown @ made.key, shown @ made.value
    h = (torch.softmax(q @ k.T / math.sqrt(d), dim=1) @ v).mean(dim=0)
    return torch.stack([functional.cosine_similarity(h, agent, dim=0) for agent in agents])


def test_a_padded_batch_scores_as_each_state_by_itself() -> None:
    made, random = head(), torch.Generator().manual_seed(0)
    agents = functional.normalize(torch.randn(5, D, generator=random), dim=1)
    states = [torch.randn(count, D, generator=random) for count in (1, 4, 2)]
    contexts = torch.randn(3, 2, D, generator=random)
    rows = torch.zeros(3, 4, D)
    filled = torch.zeros(3, 4, dtype=torch.bool)
    for index, state in enumerate(states):
        rows[index, : len(state)], filled[index, : len(state)] = state, True
    found = made(rows, filled, agents, torch.ones(3, 5, dtype=torch.bool), contexts)
    for index, state in enumerate(states):
        for layer in range(2):
            expected = by_hand(made, state, agents, contexts[index, layer])
            assert torch.allclose(found[index, layer], expected, atol=1e-5)


def test_an_agent_that_is_not_in_the_pool_changes_nothing() -> None:
    made, random = head(), torch.Generator().manual_seed(0)
    agents, rows = (torch.randn(*shape, generator=random) for shape in ((4, D), (1, 2, D)))
    filled, none = torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 1, D)
    small = made(rows, filled, agents[:3], torch.ones(1, 3, dtype=torch.bool), none)
    large = made(rows, filled, agents, torch.tensor([[True, True, True, False]]), none)
    assert torch.allclose(small[0, 0], large[0, 0, :3], atol=1e-6)


def test_the_context_is_the_mean_of_the_set_of_earlier_agents() -> None:
    agents = np.eye(4, dtype=np.float32)
    order = np.array([[[0, 1], [1, -1], [3, 2]]])
    assert compute_contexts(order, agents)[0].tolist() == [[0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]]


def test_log_probabilities_are_those_of_the_sampling_rule() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)) * 5
    order = np.array([[[0, 1, 2], [4, -1, -1], [3, 2, -1]], [[1, 0, 4], [2, 3, 1], [0, -1, -1]]])
    found = sequence_log_probability(torch.tensor(logits), torch.tensor(order))
    for place in np.ndindex(2, 3):
        expected = log_probability(logits[place], [one for one in order[place] if one >= 0])
        assert float(found[place]) == pytest.approx(expected, abs=1e-12)


def test_the_hand_worked_gradient_of_a_log_probability() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log().requires_grad_()
    (slope,) = torch.autograd.grad(sequence_log_probability(logits, torch.tensor([2, 0])), logits)
    assert slope.tolist() == pytest.approx([-0.125, -0.675, 0.8])


def test_masked_agents_and_empty_places_leave_no_nan_in_a_gradient() -> None:
    logits = torch.tensor([[0.0, 1.0, -math.inf], [0.0, 1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    total = sequence_log_probability(logits, torch.tensor([[0, 1], [-1, -1]])).sum() + entropy(logits).sum()
    (slope,) = torch.autograd.grad(total, logits)
    assert torch.isfinite(slope).all()
    assert torch.isfinite(total)


def test_entropy_is_in_nats() -> None:
    assert float(entropy(torch.zeros(4))) == pytest.approx(math.log(4))
    assert float(entropy(torch.tensor([0.0, -math.inf]))) == pytest.approx(0)


@pytest.mark.parametrize("config", [HeadConfig(), PAPER_HEAD])
def test_gradients_agree_with_finite_differences(config: HeadConfig) -> None:
    made, random = head(config, d=6).double(), torch.Generator().manual_seed(4)
    rows, agents, contexts = (
        torch.randn(*shape, generator=random).double() for shape in ((2, 3, 6), (4, 6), (2, 2, 6))
    )
    filled, present = torch.tensor([[True, True, False], [True, True, True]]), torch.ones(2, 4, dtype=torch.bool)
    order = torch.tensor([[[0, 2], [1, -1]], [[3, 1], [2, 0]]])

    def objective() -> torch.Tensor:
        logits = made(rows, filled, agents, present, contexts) / 0.1
        return sequence_log_probability(logits, order).sum() + 0.05 * entropy(logits).sum()

    step, weights = 1e-6, [made.query, made.key, made.value]
    for weight, slope in zip(weights, torch.autograd.grad(objective(), weights), strict=True):
        for place in ((0, 0), (2, 5), (5, 1)):
            with torch.no_grad():
                kept = weight[place].item()
                ends = []
                for moved in (kept + step, kept - step):
                    weight[place] = moved
                    ends.append(objective().item())
                weight[place] = kept
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope[place].item(), rel=1e-4, abs=1e-6)


async def test_d1_rows_are_fields_and_tokens_are_words() -> None:
    assert row_texts(("a b", " ", "c"), HeadConfig()) == ("a b", "c")
    assert row_texts(("a b", " ", "c"), PAPER_HEAD) == ("a", "b", "c")
    with pytest.raises(ValueError, match="no row"):
        row_texts(("", " "), HeadConfig())


async def test_d2_untrained_the_paper_head_hardly_sees_the_state() -> None:
    states = (("mend the old chair",), ("weigh the parcel",), ("sort the letters by street",), ("paint the wall blue",))

    async def spread(config: HeadConfig) -> float:
        chooser = LearnedChooser(RoutingHead(384, config), SamplingConfig(), HashingEmbedder())
        drawn = [await chooser(rows, POOL, scope=Scope()) for rows in states]
        shares = [np.array(list(one.probabilities[0].values())) for one in drawn]
        return float(max(abs(a - b).sum() / 2 for a in shares for b in shares))

    assert await spread(HeadConfig()) > 20 * await spread(PAPER_HEAD)


async def test_a_decision_recomputed_for_training_is_as_probable_as_it_was_when_drawn() -> None:
    embedder, made = HashingEmbedder(D), head()
    chooser = LearnedChooser(made, SamplingConfig(), embedder)
    decisions = []
    for seed in range(6):
        masked = frozenset({"mend"} if seed % 2 else ())
        first = frozenset({"sort", "paint"} if seed > 2 else ())
        drawn = await chooser(ROWS[: 1 + seed % 2], POOL, Masks(masked, first), scope=Scope(seed=seed))
        assert not masked & {one for layer in drawn.layers for one in layer}
        assert not first & {*drawn.layers[0], *drawn.probabilities[0]}
        assert first <= set(drawn.probabilities[1])
        decisions.append(Decision(rows=ROWS[: 1 + seed % 2], agents=tuple(agent.id for agent in POOL), layered=drawn))
    agents = dict(zip([agent.id for agent in POOL], await embed_pool(POOL, embedder), strict=True))
    batch = make_batch(decisions, agents, await embed_texts(ROWS, embedder), made.config)
    rows, filled, table, present, free, contexts, order, _ = map(torch.as_tensor, batch)
    logits = (made(rows, filled, table, present, contexts) / 0.1).masked_fill(~free, -math.inf)
    found = sequence_log_probability(logits.double(), order).sum(dim=1)
    assert found.tolist() == pytest.approx([one.layered.log_probability for one in decisions], abs=1e-3)


def test_batched_decisions_are_drawn_as_probabilities_say() -> None:
    made, random = head(), np.random.default_rng(0)
    agents = random.normal(size=(4, D)).astype(np.float32)
    rows = np.repeat(random.normal(size=(1, 2, D)), 4000, axis=0).astype(np.float32)
    filled = np.ones((4000, 2), dtype=bool)
    drawn = draw_layers(made, (rows, filled), agents, sampling=SamplingConfig(layers=2), random=random)
    first = np.bincount(drawn.order[:, 0, 0], minlength=4) / 4000
    assert first == pytest.approx(drawn.probabilities[0, 0], abs=0.04)
    assert drawn.probabilities.sum(axis=2) == pytest.approx(1)


LEAVE = Agent(id="leave", role="end the work", prompt="", kind="signal")


async def test_d28_early_exit_is_decided_before_each_layer_and_changes_no_other_draw() -> None:
    made, embedder, pool = head(), HashingEmbedder(D), (*POOL, LEAVE)
    with torch.no_grad():
        made.exit[:-1], made.exit[-1] = torch.linspace(-0.04, 0.04, D), 0.1
    chooser, decisions, ended = LearnedChooser(made, SamplingConfig(), embedder), list[Decision](), list[int]()
    for seed in range(120):
        barred = frozenset({"leave"}) if seed % 2 else frozenset[str]()
        drawn = await chooser(ROWS, pool, Masks(first=barred), scope=Scope(seed=seed))
        never = await chooser(ROWS, pool, Masks(frozenset({"leave"})), scope=Scope(seed=seed))
        worked = [layer for layer in drawn.layers if layer != ("leave",)]
        assert drawn.layers[: len(worked)] == never.layers[: len(worked)]
        assert (drawn.exit, never.exit) == ("leave", None)
        assert "leave" not in {name for layer in worked for name in layer}
        assert all(sum(shares.values()) == pytest.approx(1) for shares in drawn.probabilities)
        assert ("leave" in drawn.probabilities[0]) is not bool(barred)
        ended += [place for place, layer in enumerate(drawn.layers) if layer == ("leave",)]
        decisions.append(Decision(rows=ROWS, agents=tuple(agent.id for agent in pool), layered=drawn))
    assert {0, 1, 2} == set(ended)
    assert all(not d.layered.masked_first for d in decisions if d.layered.layers[0] == ("leave",))
    agents = dict(zip([agent.id for agent in pool], await embed_pool(pool, embedder), strict=True))
    learner = Learner(made, TrainConfig(), SamplingConfig())
    for decision in decisions[:20]:
        batch = make_batch([decision], agents, await embed_texts(ROWS, embedder), made.config)
        found = float(learner.objective(batch, np.ones(1), np.ones(1), 1)[0].detach())
        assert found == pytest.approx(decision.layered.log_probability, abs=1e-3)


async def test_d28_by_chance_and_untrained_early_exit_ends_one_layer_in_ten() -> None:
    pool = (*POOL, LEAVE)
    for chooser in (
        LearnedChooser(RoutingHead(D), SamplingConfig(), HashingEmbedder(D)),
        RandomChooser(SamplingConfig()),
    ):
        drawn = [await chooser(ROWS, pool, scope=Scope(seed=seed)) for seed in range(300)]
        assert {round(shares["leave"], 6) for one in drawn for shares in one.probabilities} == {EXIT_START}
        assert sum(one.layers[0] == ("leave",) for one in drawn) / 300 == pytest.approx(EXIT_START, abs=0.05)
        alone = await chooser(ROWS, (LEAVE,), scope=Scope())
        assert (alone.layers[0], alone.exit) == (("leave",), None)  # nobody else is there


@pytest.mark.parametrize("adapter", ["frozen", "random"])
async def test_d28_the_paper_draws_early_exit_among_the_agents(adapter: Literal["frozen", "random"]) -> None:
    config = EvomasConfig(adapter=adapter, head=HeadConfig(exit="agent"))
    team = Team(method="evomas", agents=(*POOL, LEAVE), topology=make_chain("sort", "leave"))
    chooser = await make_chooser(team, config, HashingEmbedder(D))
    drawn = [await chooser(ROWS, (*POOL, LEAVE), scope=Scope(seed=seed)) for seed in range(20)]
    assert any({"leave"} < set(layer) for one in drawn for layer in one.layers)
    assert {one.exit for one in drawn} == {None}
    assert PAPER_HEAD.exit == "agent"


def choosers() -> list[LayerChooser]:
    learned = LearnedChooser(head(), SamplingConfig(), HashingEmbedder(D))
    return [learned, RandomChooser(SamplingConfig()), FixedChooser([["sort", "mend"], ["mend"]])]


@pytest.mark.parametrize("chooser", choosers(), ids=lambda one: type(one).__name__)
async def test_choosers_repeat_themselves_at_a_scope_and_leave_masked_agents_out(chooser: LayerChooser) -> None:
    for seed in range(5):
        scope = Scope(seed=seed)
        one, two = [await chooser(ROWS, POOL, Masks(frozenset({"sort"})), scope=scope) for _ in range(2)]
        assert one == two
        assert "sort" not in {name for layer in one.layers for name in layer}
        assert all("sort" not in layer for layer in one.probabilities)
        assert one.masked == ("sort",)


@pytest.mark.parametrize("chooser", choosers(), ids=lambda one: type(one).__name__)
async def test_choosers_leave_agents_out_of_the_first_layer_alone(chooser: LayerChooser) -> None:
    drawn = [
        await chooser(ROWS, POOL, Masks(first=frozenset({"mend", "weigh"})), scope=Scope(seed=seed))
        for seed in range(8)
    ]
    assert not {"mend", "weigh"} & {name for one in drawn for name in one.layers[0]}
    assert "mend" in {name for one in drawn for layer in one.layers[1:] for name in layer}
    assert {one.masked_first for one in drawn} == {("mend", "weigh")}


async def test_a_plan_that_nobody_can_work_on_says_who_is_left_out() -> None:
    plan = FixedChooser([["sort"], ["sort"]])
    with pytest.raises(ConfigError, match="the plan has nobody to run at this stage: sort hold no tool"):
        await plan(ROWS, POOL, Masks(first=frozenset({"sort"})), scope=Scope())


@pytest.mark.parametrize("chooser", choosers(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("pool", "masked", "told"),
    [((), (), "empty"), ((*POOL, POOL[0]), (), "more than once"), (POOL, [a.id for a in POOL], "masked")],
)
async def test_a_pool_that_cannot_be_chosen_from_is_refused(
    chooser: LayerChooser, pool: Sequence[Agent], masked: Sequence[str], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        await chooser(ROWS, pool, Masks(frozenset(masked)), scope=Scope())
    with pytest.raises(ValueError, match=r"the plan names bake; the pool holds mend"):
        await FixedChooser([["bake"]])(ROWS, POOL, scope=Scope())


async def test_an_agent_that_joins_the_pool_is_chosen_without_training() -> None:
    newcomer = Agent(id="tune", role="tune the grand piano", prompt="Tune.")
    chooser = LearnedChooser(RoutingHead(384), SamplingConfig(), HashingEmbedder())
    drawn = await chooser(["tune the grand piano"], (*POOL, newcomer), scope=Scope())
    assert drawn.layers[0][0] == "tune"
    assert max(drawn.probabilities[0], key=lambda name: drawn.probabilities[0][name]) == "tune"


def test_a_device_that_is_not_there_is_refused() -> None:
    assert get_device("cpu").type == "cpu"
    if not torch.cuda.is_available():
        assert get_device("auto").type == "cpu"
        with pytest.raises(ValueError, match="cuda"):
            get_device("cuda")


def test_a_batch_of_no_decisions_is_refused() -> None:
    with pytest.raises(ValueError, match="no decision to learn from"):
        make_batch([], {}, {}, HeadConfig())


def test_a_linear_policy_averages_products_and_reads_what_it_is_told_to() -> None:
    random = torch.Generator().manual_seed(0)
    agents, rows = torch.randn(4, D, generator=random), torch.randn(1, 3, D, generator=random)
    contexts, full = torch.randn(1, 2, D, generator=random), torch.ones(1, 3, dtype=torch.bool)
    present = torch.ones(1, 4, dtype=torch.bool)

    def score(config: HeadConfig) -> torch.Tensor:
        return head(config).forward(rows, full, agents, present, contexts)[0]

    made = head(HeadConfig(design="linear"))
    products = functional.layer_norm(torch.cat([rows[0], contexts[0, :1]]), (D,)) @ made.query
    by_row = products @ (functional.layer_norm(agents, (D,)) @ made.key).T / D
    assert torch.allclose(score(made.config)[0], by_row.mean(dim=0), atol=1e-5)
    additive = score(HeadConfig(design="additive"))[0]
    pooled = by_row.mean(dim=0) @ functional.layer_norm(agents, (D,)) @ made.value
    assert torch.allclose(additive, functional.cosine_similarity(pooled, agents, dim=-1), atol=1e-5)
    for design in ("attention", "additive", "linear"):
        alone = score(HeadConfig(design=design, reads="state"))
        assert torch.equal(alone[0], alone[1])  # earlier layers change nothing
    assert torch.allclose(score(HeadConfig(design="linear", reads="state"))[0], by_row[:3].mean(dim=0), atol=1e-5)
    assert row_texts(("a b", "c"), HeadConfig(reads="subtask")) == ("a b",)
    assert row_texts(("a b", "c"), HeadConfig(state="paired")) == ("a b", "a b\nc")


@pytest.mark.parametrize("design", ["attention", "linear"])
def test_d1_rows_by_themselves_cannot_say_who_swaps_with_whom(design: Literal["attention", "linear"]) -> None:
    source = torch.Generator().manual_seed(0)
    agents, one, other = (torch.randn(2, D, generator=source) for _ in range(3))
    states = torch.stack([torch.stack([a, b]) for a in one for b in other])  # (4, 2, D), each of one with each of other
    full, present = torch.ones(4, 2, dtype=torch.bool), torch.ones(4, 2, dtype=torch.bool)
    seen = set()
    for _ in range(200):
        made = RoutingHead(D, HeadConfig(design=design))
        with torch.no_grad():
            for weight in made.parameters():
                weight.copy_(torch.randn(weight.shape, generator=source))
            best = made(states, full, agents, present, torch.zeros(4, 1, D))[:, 0].argmax(dim=-1)
        seen.add(tuple(best.tolist()))
    assert len(seen) > 6
    assert not seen & {(0, 1, 1, 0), (1, 0, 0, 1)}  # a head adds up its rows, so neither has weights
