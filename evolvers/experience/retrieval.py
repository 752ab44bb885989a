"""Finds insights for a question (HERA, Alg. 4), and those that a new insight may change (Alg. 3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from selfwire.core.protocols import Embedder
from selfwire.evolvers.experience.library import ExperienceLibrary, Insight, LibraryConfig
from selfwire.evolvers.experience.profile import Profile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def rank_insights(library: ExperienceLibrary) -> ExperienceLibrary:
    """By descending rank (utility, and a bonus for the rarely used); ties by id."""
    return tuple(sorted(library, key=lambda one: (-round(one.rank, 6), one.id)))


async def retrieve_insights(
    library: ExperienceLibrary, profile: Profile, embedder: Embedder, config: LibraryConfig
) -> ExperienceLibrary:
    """The best insights that are similar to c, without redundant ones."""
    found = await find_similar(library, profile, embedder, config)
    if not found:
        return ()
    order = rank_insights(found)
    cosines = await _cosines([one.text for one in order], embedder)
    taken: list[int] = []
    for index in range(len(order)):
        if len(taken) < config.shown and all(cosines[index][other] < config.redundant for other in taken):
            taken.append(index)
    return tuple(order[index] for index in taken)


async def find_similar(
    library: ExperienceLibrary, profile: Profile, embedder: Embedder, config: LibraryConfig
) -> ExperienceLibrary:
    """Insights from questions of the same type, or with a summary close to this one's.

    "other" is no type: two questions outside the paper's types need not have anything in common (D13).
    """
    if not library:
        return ()
    close = (await _cosines([profile.summary, *(one.profile.summary for one in library)], embedder))[0]
    return tuple(
        one
        for one, cosine in zip(library, close[1:], strict=True)
        if (one.profile.type == profile.type != "other") or cosine >= config.similar
    )


async def find_matching(
    library: ExperienceLibrary, new: Insight, embedder: Embedder, config: LibraryConfig
) -> ExperienceLibrary:
    """The closest insights from similar questions, which the new one may complement or contradict."""
    found = await find_similar(library, new.profile, embedder, config)
    if not found:
        return ()
    cosines = (await _cosines([new.text, *(one.text for one in found)], embedder))[0][1:]
    nearest = sorted(range(len(found)), key=lambda index: (-cosines[index], found[index].id))
    return tuple(found[index] for index in nearest[: max(config.shown, 1)])


async def _cosines(texts: Sequence[str], embedder: Embedder) -> "npt.NDArray[np.float64]":
    """Cosines of shape (len(texts), len(texts)), rounded to six decimals."""
    import numpy as np

    rows = (await embedder.embed(texts)).astype(np.float64)
    return np.round(rows @ rows.T, 6)
