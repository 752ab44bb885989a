"""Group-relative comparison, by hand-worked cases."""

from hypothesis import given
from hypothesis import strategies as st

from selfwire.evolvers.hera.groups import classify_group, count_uses, make_groups, rank_trajectories
from tests.evolvers.hera.doubles import ran


def test_score_ranks_first_and_fewer_tokens_second() -> None:
    batch = [ran(score=s, tokens=t, sample=i) for i, (s, t) in enumerate([(0.8, 900), (1, 1500), (0.8, 700), (0, 100)])]
    assert rank_trajectories(batch, range(4)) == (1, 2, 0, 3)  # b, c, a, d


def test_mixed_needs_success_and_failure() -> None:
    assert classify_group([0.8, 0], 0.6) == "mixed"
    assert classify_group([0.5, 0.4], 0.6) == "other"
    assert classify_group([0.6, 1], 0.6) == "other"
    assert classify_group([0, 0, 0, 0], 0.6) == "zero"
    assert classify_group([], 0.6) == "other"


def test_groups_come_in_the_order_of_their_questions_and_name_the_best_failure() -> None:
    batch = [ran("b", 0.0, sample=0), ran("a", 1.0), ran("b", 0.5, sample=1), ran("b", 1.0, sample=2)]
    first, second = make_groups(batch, 0.6)
    assert (first.question, first.order, first.outcome, first.failed) == ("b", (3, 2, 0), "mixed", 2)
    assert (second.question, second.outcome, second.failed) == ("a", "other", None)


def test_what_the_orchestrator_spends_does_not_rank() -> None:
    cheap, dear = ran(score=1, tokens=10, sample=0), ran(score=1, tokens=20, sample=1)
    cheap = cheap.replace(overhead={"input_tokens": 10_000})
    assert rank_trajectories([dear, cheap], (0, 1)) == (1, 0)


def test_d11_infrastructure_errors_teach_nothing() -> None:
    broken = ran("q1", None, sample=1, insights=("i",), error="the provider is down")
    fine = ran("q1", 0.0, insights=("i",))
    [group] = make_groups([fine, broken], 0.6)
    assert (group.order, group.outcome) == ((0,), "zero")
    assert count_uses([fine, broken], 0.6) == {"i": (1, 0)}
    assert make_groups([broken], 0.6) == ()


def test_d1_every_graded_rollout_counts_whatever_its_group() -> None:
    good = [ran("a", 1.0, insights=("i", "j")), ran("a", 1.0, sample=1, insights=("i",))]
    batch = [*good, ran("b", 0.0, insights=("j",))]
    assert count_uses(batch, 0.6) == {"i": (2, 2), "j": (2, 1)}


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5)), max_size=8), st.randoms())
def test_the_order_in_which_rollouts_finish_does_not_matter(runs: list[tuple[float, int]], random: object) -> None:
    batch = [ran("q", score, tokens, sample) for sample, (score, tokens) in enumerate(runs)]
    other = list(batch)
    random.shuffle(other)  # type: ignore[attr-defined]
    assert [batch[at].sample for g in make_groups(batch, 0.6) for at in g.order] == [
        other[at].sample for g in make_groups(other, 0.6) for at in g.order
    ]
