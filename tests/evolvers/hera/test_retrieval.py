"""Which insights are shown, in which order (Alg. 4)."""

from selfwire.evolvers.hera.library import LibraryConfig, Profile, find_matching, rank_insights, select_insights
from tests.evolvers.hera.doubles import BRIDGE, COMPARISON, Angles, known

CONFIG = LibraryConfig()


def apart(*texts: str) -> Angles:
    return Angles(**{text: 70.0 * at for at, text in enumerate(texts)})


def test_d2_utility_ranks_and_the_rarely_used_are_preferred() -> None:
    fresh, good, poor = known("fresh"), known("good", 10, 9), known("poor", 10, 1)
    assert rank_insights((poor, fresh, good)) == (good, fresh, poor)
    often, rarely = known("often", 98, 49), known("rarely", 2, 1)  # both 1/2
    assert rank_insights((often, rarely)) == (rarely, often)


async def test_insights_of_the_type_or_with_a_close_profile_are_similar() -> None:
    near = Profile(type="other", summary="near")
    far = Profile(type="other", summary="far")
    library = (known("same", profile=BRIDGE), known("close", profile=near), known("away", profile=far))
    angles = Angles(same=0, close=70, away=140, near=60, far=61, **{BRIDGE.summary.replace(" ", "_"): 0})
    found = await select_insights(library, BRIDGE, angles, CONFIG)
    assert {one.text for one in found} == {"same", "close"}  # cos 60 = 0.5 is close, cos 61 is not


async def test_d13_other_is_no_type() -> None:
    counting, single = Profile(type="other", summary="counting"), Profile(type="other", summary="single")
    library = (known("a", profile=counting), known("b", profile=single))
    angles = Angles(counting=0, single=90, a=0, b=90)
    assert [one.text for one in await select_insights(library, counting, angles, CONFIG)] == ["a"]


async def test_d13_profiles_are_compared_by_their_summaries_alone() -> None:
    hard = Profile(type="causal", difficulty="hard", summary="near")
    easy = Profile(type="temporal", difficulty="easy", summary="near")
    words = Angles(near=0, a=0, **{one.text.replace(" ", "_"): angle for one, angle in ((hard, 0), (easy, 180))})
    assert [one.text for one in await select_insights((known("a", profile=hard),), easy, words, CONFIG)] == ["a"]


async def test_a_blank_summary_is_close_to_nothing() -> None:
    library = (known("a", profile=Profile(type="causal")),)
    assert await select_insights(library, Profile(type="bridge", summary="x"), Angles(x=0), CONFIG) == ()


async def test_what_says_the_same_as_one_taken_is_left_out() -> None:
    best, same, other = known("best", 9, 9), known("same", 9, 8), known("other", 9, 2)
    angles = Angles(best=0, same=31, other=120)  # cos 31 = 0.857
    assert await select_insights((other, same, best), BRIDGE, angles, CONFIG) == (best, other)
    angles = Angles(best=0, same=32, other=120)  # cos 32 = 0.848
    assert await select_insights((other, same, best), BRIDGE, angles, CONFIG) == (best, same, other)


async def test_at_most_five_are_shown() -> None:
    names = "abcdefg"
    library = tuple(known(name, 10, at) for at, name in enumerate(names))
    found = await select_insights(library, BRIDGE, apart(*names), LibraryConfig(redundant=1))
    assert [one.text for one in found] == ["g", "f", "e", "d", "c"]
    assert await select_insights(library, BRIDGE, apart(*names), LibraryConfig(shown=0)) == ()
    assert await select_insights((), BRIDGE, Angles(), CONFIG) == ()


async def test_a_new_insight_meets_the_closest_on_similar_questions() -> None:
    near, far, foreign = known("near"), known("far"), known("foreign", profile=COMPARISON)
    angles = Angles(
        near=10, far=80, foreign=0, new=0,
        **{BRIDGE.summary.replace(" ", "_"): 0, COMPARISON.summary.replace(" ", "_"): 90},
    )  # fmt: skip
    found = await find_matching((foreign, far, near), known("new"), angles, CONFIG)
    assert [one.text for one in found] == ["near", "far"]
    assert await find_matching((foreign,), known("new"), angles, CONFIG) == ()
