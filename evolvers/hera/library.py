"""The experience library E of (profile c, insight z, utility u), and retrieval from it (Sec. 3.2, Alg. 3 and 4).

E is a value in the team's memory, so a saved version of the team holds it, by run and step. An insight names
its source trajectories by iteration, question and sample. Their run is that of the first version with the insight, and
is written into the source only when an insight leaves its library.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from selfwire.core.protocols import Embedder
from selfwire.core.team import Team
from selfwire.core.values import FrozenModel, fingerprint, to_plain_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MEMORY = "experience"  # name of the library in a team's memory
IMPORTS = "imports"  # name of the counts of imported insights, there
UsageCounts = Mapping[str, tuple[int, int]]
"""(uses, successes) by the id of an insight."""
TEXT_LENGTH = 400
SOURCES = 16  # most trajectories that an insight names; the oldest are dropped first
QueryType = Literal["bridge", "intersection", "comparison", "temporal", "causal", "ambiguous", "other"]
"""The paper's types of question (App. D.1), and one for all others."""
Difficulty = Literal["easy", "medium", "hard"]


class Profile(FrozenModel):
    """A query's characteristics c (App. D.1); `summary` says in a sentence what such a question takes."""

    type: QueryType = "other"
    difficulty: Difficulty = "medium"
    summary: str = ""

    @property
    def text(self) -> str:
        """The profile as models read it."""
        return f"{self.type} question, {self.difficulty}. {self.summary}".strip()


def parse_query_type(text: str) -> QueryType | None:
    """The first type that a model's words name; None where they name none."""
    types: tuple[QueryType, ...] = get_args(QueryType)
    lowered = text.lower()
    return next((name for name in types if name in lowered), None)


class LibraryConfig(FrozenModel):
    """Config fields of the experience library (Sec. 3.2, Alg. 3 and 4).

    Args:
        shown: insights in the orchestrator's prompt. Paper: unstated. Ours: 5.
        similar: cosine from which a profile of another query type counts as similar. Paper: unstated. Ours: 0.5.
        redundant: cosine from which two insights say the same. Paper: unstated. Ours: 0.85.
        size: most insights that are kept; the worst is dropped first. Paper: "bounded". Ours: 100.
        proven: uses from which an insight can be pruned for its utility. Paper: unstated. Ours: 3.
    """

    shown: int = Field(default=5, ge=0, le=50)
    similar: float = Field(default=0.5, ge=-1, le=1)
    redundant: float = Field(default=0.85, ge=-1, le=1)
    size: int = Field(default=100, ge=1, le=10_000)
    proven: int = Field(default=3, ge=1, le=1000)


class InsightSource(FrozenModel):
    """A trajectory that an insight came from.

    Args:
        sample: which of the group.
        run: where it ran, for insights from another library; "" for the run that saved this one.
    """

    question: str
    sample: int = Field(default=0, ge=0)
    iteration: int = Field(default=0, ge=0)
    run: str = ""

    def __str__(self) -> str:
        """The trajectory as run/iteration/question#sample."""
        place = f"{self.iteration}/{self.question}#{self.sample}"
        return f"{self.run}/{place}" if self.run else place


class Insight(FrozenModel):
    """An entry of the library: profile c of the question that taught it, text z, n uses of which s succeeded.

    Its sources are the trajectories that taught it, oldest first.
    """

    profile: Profile
    text: str = Field(min_length=1, max_length=TEXT_LENGTH)
    uses: int = Field(default=0, ge=0)
    successes: int = Field(default=0, ge=0)
    sources: tuple[InsightSource, ...] = ()

    @field_validator("sources")
    @classmethod
    def _bounded(cls, sources: tuple[InsightSource, ...]) -> tuple[InsightSource, ...]:
        return tuple(dict.fromkeys(sources))[-SOURCES:]

    @model_validator(mode="after")
    def _of_its_uses(self) -> "Insight":
        if self.successes > self.uses:
            raise ValueError(f"{self.successes} successes are more than {self.uses} uses")
        return self

    @property
    def id(self) -> str:
        """A hash of type and text, equal in every library."""
        return fingerprint([self.profile.type, self.text])[:8]

    @property
    def utility(self) -> float:
        """U = (s + 1) / (n + 2): the success rate, nearer to 1/2 the less evidence there is."""
        return (self.successes + 1) / (self.uses + 2)

    @property
    def rank(self) -> float:
        """Order of retrieval: utility, and a bonus for rarely used insights, 0.1 / sqrt(1 + n)."""
        return self.utility + 0.1 / sqrt(1 + self.uses)

    def with_uses(self, uses: int, successes: int) -> "Insight":
        """The insight after further rollouts with it."""
        return self.replace(uses=self.uses + uses, successes=self.successes + successes)

    def merge(self, other: "Insight", text: str) -> "Insight":
        """Merge with another insight: counts are added, sources joined."""
        return self.with_uses(other.uses, other.successes).replace(text=text, sources=(*self.sources, *other.sources))


ExperienceLibrary = tuple[Insight, ...]
"""Insights, each id once, oldest first."""


def get_library(team: Team) -> ExperienceLibrary:
    """The library in a team's memory."""
    return tuple(Insight.model_validate(to_plain_json(insight)) for insight in team.memory.get(MEMORY, ()))


def with_library(team: Team, library: ExperienceLibrary) -> Team:
    """The team with another library; an empty library is written only over another."""
    if not library and MEMORY not in team.memory:
        return team
    return team.with_memory(**{MEMORY: [insight.model_dump(mode="json") for insight in library]})


def make_insight(profile: Profile, text: str, sources: Iterable[InsightSource] = ()) -> Insight | None:
    """A new insight from a model's words; None where they are blank."""
    flat = " ".join(text.split())[:TEXT_LENGTH]
    return Insight(profile=profile, text=flat, sources=tuple(sources)) if flat else None


def add_insight(library: ExperienceLibrary, new: Insight, size: int) -> ExperienceLibrary:
    """ADD: a known insight gets the evidence of the new one. The worst is dropped where there are too many."""
    if any(insight.id == new.id for insight in library):
        return tuple(insight.merge(new, insight.text) if insight.id == new.id else insight for insight in library)
    return limit_size((*library, new), size)


def merge_insights(
    library: ExperienceLibrary, new: Insight, targets: Sequence[str], text: str, size: int
) -> ExperienceLibrary:
    """MERGE: the other targets and the new insight are merged into the first target."""
    into = [entry for entry in library if entry.id in targets]
    if not into:
        return add_insight(library, new, size)
    first, *others = into
    whole = first
    for other in (*others, new):
        whole = whole.merge(other, text)
    kept = [whole if entry is first else entry for entry in library if entry is first or entry.id not in targets]
    twin = next((entry for entry in kept if entry is not whole and entry.id == whole.id), None)
    if twin is not None:  # the merged text equals that of another entry
        kept = [entry.merge(whole, entry.text) if entry is twin else entry for entry in kept if entry is not whole]
    return tuple(kept)


def find_prunable(library: ExperienceLibrary, matches: Sequence[Insight], config: LibraryConfig) -> ExperienceLibrary:
    """Matching entries that may be pruned: used often enough, and worse than the best of what they conflict with.

    That is the new insight, whose utility without evidence is 1/2, and the other matches.
    """
    best = max([0.5, *(entry.utility for entry in matches)])
    proven = (entry for entry in library if entry in matches and entry.uses >= config.proven)
    return tuple(entry for entry in proven if entry.utility < best)


def remove_insights(library: ExperienceLibrary, ids: Iterable[str]) -> ExperienceLibrary:
    """PRUNE."""
    gone = set(ids)
    return tuple(insight for insight in library if insight.id not in gone)


def limit_size(library: ExperienceLibrary, size: int) -> ExperienceLibrary:
    """At most `size` insights: the lowest utilities are dropped first, among equals the oldest."""
    excess = len(library) - size
    if excess <= 0:
        return library
    worst = sorted(range(len(library)), key=lambda index: (library[index].utility, index))[:excess]
    return tuple(insight for index, insight in enumerate(library) if index not in worst)


def update_utilities(library: ExperienceLibrary, shown: Mapping[str, tuple[int, int]]) -> ExperienceLibrary:
    """The library with further (uses, successes) by insight id."""
    return tuple(insight.with_uses(*shown[insight.id]) if insight.id in shown else insight for insight in library)


def count_successes(shown: Iterable[tuple[str, float]], success_at: float) -> UsageCounts:
    """(uses, successes) by id, from the ids of insights that were shown, each with the score of the run."""
    counted = dict[str, tuple[int, int]]()
    for insight, score in shown:
        uses, successes = counted.get(insight, (0, 0))
        counted[insight] = uses + 1, successes + (score >= success_at)
    return counted


def load_import_counts(team: Team, origin: str) -> UsageCounts:
    """Counts of what the team has imported from another library."""
    taken = team.memory.get(IMPORTS, {}).get(origin, {})
    return {id: (uses, successes) for id, (uses, successes) in taken.items()}


def with_import_counts(team: Team, origin: str, taken: UsageCounts) -> Team:
    """The team with the counts of what it has imported from another library."""
    known = to_plain_json(team.memory.get(IMPORTS, {}))
    return team.with_memory(**{IMPORTS: {**known, origin: {id: list(counts) for id, counts in taken.items()}}})


def import_insights(
    library: ExperienceLibrary, others: ExperienceLibrary, size: int, taken: UsageCounts
) -> tuple[ExperienceLibrary, UsageCounts]:
    """Import one library into another; insights in both get the evidence of both, each counted once.

    `taken` are the counts that were imported from there before: an insight without new evidence is left out, even if
    this library has merged or pruned it. Returns the library, and the counts of all that is imported now.
    """
    now = dict(taken)
    for insight in others:
        uses, successes = taken.get(insight.id, (0, 0))
        more = max(0, insight.uses - uses)
        if insight.id in taken and not more:
            continue
        new_evidence = insight.replace(uses=more, successes=min(more, max(0, insight.successes - successes)))
        library = add_insight(library, new_evidence, size)
        now[insight.id] = (max(insight.uses, uses), max(insight.successes, successes))
    return library, now


def to_json(library: ExperienceLibrary) -> list[dict[str, Any]]:
    """The library for display and export."""
    return [
        {"id": insight.id, "utility": round(insight.utility, 6), **insight.model_dump(mode="json")}
        for insight in library
    ]


def rank_insights(library: ExperienceLibrary) -> ExperienceLibrary:
    """Sort by descending rank (utility, and a bonus for the rarely used); ties by id."""
    return tuple(sorted(library, key=lambda insight: (-round(insight.rank, 6), insight.id)))


async def select_insights(
    library: ExperienceLibrary, profile: Profile, embedder: Embedder, config: LibraryConfig
) -> ExperienceLibrary:
    """Select the best insights from questions similar to c, without redundant ones (Retrieve)."""
    found = await find_similar(library, profile, embedder, config)
    if not found:
        return ()
    order = rank_insights(found)
    cosines = await _cosines([insight.text for insight in order], embedder)
    taken: list[int] = []
    for index in range(len(order)):
        if len(taken) < config.shown and all(cosines[index][other] < config.redundant for other in taken):
            taken.append(index)
    return tuple(order[index] for index in taken)


async def find_similar(
    library: ExperienceLibrary, profile: Profile, embedder: Embedder, config: LibraryConfig
) -> ExperienceLibrary:
    """Find insights from questions of the same type, or with a summary close to this one's.

    "other" is no type: two questions outside the paper's types need not have anything in common (D13).
    """
    if not library:
        return ()
    close = (await _cosines([profile.summary, *(insight.profile.summary for insight in library)], embedder))[0]
    return tuple(
        insight
        for insight, cosine in zip(library, close[1:], strict=True)
        if (insight.profile.type == profile.type != "other") or cosine >= config.similar
    )


async def find_matching(
    library: ExperienceLibrary, new: Insight, embedder: Embedder, config: LibraryConfig
) -> ExperienceLibrary:
    """Find the closest insights from similar questions, which the new one may complement or contradict."""
    found = await find_similar(library, new.profile, embedder, config)
    if not found:
        return ()
    cosines = (await _cosines([new.text, *(insight.text for insight in found)], embedder))[0][1:]
    nearest = sorted(range(len(found)), key=lambda index: (-cosines[index], found[index].id))
    return tuple(found[index] for index in nearest[: max(config.shown, 1)])


async def _cosines(texts: Sequence[str], embedder: Embedder) -> "npt.NDArray[np.float64]":
    """Compute cosines of shape (len(texts), len(texts)), rounded to six decimals."""
    import numpy as np

    rows = (await embedder.embed(texts)).astype(np.float64)
    return np.round(rows @ rows.T, 6)
