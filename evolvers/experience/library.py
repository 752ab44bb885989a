"""The experience library E of (profile c, insight z, utility u), as a value in the workflow's memory (Sec. 3.2).

A saved version of the workflow carries it, keyed by run and step; an insight names the trajectories that it came
from by iteration, question and sample. The run is that of the version which holds the insight first, and is
written into the source only where an insight leaves its library.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Any

from pydantic import Field, field_validator, model_validator

from selfwire.core.values import FrozenModel, fingerprint, to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.evolvers.experience.profile import Profile

MEMORY = "experience"
"""Name of the library in a workflow's memory."""
IMPORTS = "imports"
"""Name of what was taken in from other libraries, there."""
UsageCounts = Mapping[str, tuple[int, int]]
"""(uses, successes) by the id of an insight."""
TEXT_LENGTH = 400
SOURCES = 16
"""Most trajectories that an insight names; the oldest go first."""


class LibraryConfig(FrozenModel):
    """Knobs of the experience library (Sec. 3.2, Alg. 3 and 4).

    Args:
        shown: insights that the orchestrator is shown. Paper: unstated. Ours: 5.
        similar: cosine from which a profile of another query type counts as similar. Paper: unstated. Ours: 0.5.
        redundant: cosine from which two insights say the same. Paper: unstated. Ours: 0.85.
        size: most insights that are kept; the worst goes first. Paper: "bounded". Ours: 100.
        proven: uses from which an insight's utility can have it pruned. Paper: unstated. Ours: 3.
    """

    shown: int = Field(default=5, ge=0, le=50)
    similar: float = Field(default=0.5, ge=-1, le=1)
    redundant: float = Field(default=0.85, ge=-1, le=1)
    size: int = Field(default=100, ge=1, le=10_000)
    proven: int = Field(default=3, ge=1, le=1000)


class Source(FrozenModel):
    """A trajectory that an insight came from.

    Args:
        question: its id.
        sample: which of the group.
        iteration: of the evolution.
        run: where it ran, for insights that came from another library; "" for the run that saved this one.
    """

    question: str
    sample: int = Field(default=0, ge=0)
    iteration: int = Field(default=0, ge=0)
    run: str = ""

    def __str__(self) -> str:
        """Write it as run/iteration/question#sample."""
        place = f"{self.iteration}/{self.question}#{self.sample}"
        return f"{self.run}/{place}" if self.run else place


class Insight(FrozenModel):
    """An entry (c, z, u) of the library.

    Args:
        profile: c, of the question that it was learned on.
        text: z.
        uses: n, rollouts that were shown it.
        successes: s, those of them that succeeded.
        sources: trajectories that it came from, oldest first.
    """

    profile: Profile
    text: str = Field(min_length=1, max_length=TEXT_LENGTH)
    uses: int = Field(default=0, ge=0)
    successes: int = Field(default=0, ge=0)
    sources: tuple[Source, ...] = ()

    @field_validator("sources")
    @classmethod
    def _bounded(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(sources))[-SOURCES:]

    @model_validator(mode="after")
    def _of_its_uses(self) -> "Insight":
        if self.successes > self.uses:
            raise ValueError(f"{self.successes} successes are more than {self.uses} uses")
        return self

    @property
    def id(self) -> str:
        """Follows from type and text, so that it is the same wherever the insight goes."""
        return fingerprint([self.profile.type, self.text])[:8]

    @property
    def utility(self) -> float:
        """U = (s + 1) / (n + 2): the success rate, drawn toward 1/2 where there is little evidence."""
        return (self.successes + 1) / (self.uses + 2)

    @property
    def rank(self) -> float:
        """What orders retrieval: utility, and a bonus for rarely used insights, 0.1 / sqrt(1 + n)."""
        return self.utility + 0.1 / sqrt(1 + self.uses)

    def with_uses(self, uses: int, successes: int) -> "Insight":
        """The insight after further rollouts that were shown it."""
        return self.replace(uses=self.uses + uses, successes=self.successes + successes)

    def merge(self, other: "Insight", text: str) -> "Insight":
        """Both in one: counts are added, sources joined."""
        return self.with_uses(other.uses, other.successes).replace(text=text, sources=(*self.sources, *other.sources))


ExperienceLibrary = tuple[Insight, ...]
"""Insights, each id once, in the order in which they came."""


def get_library(workflow: Workflow) -> ExperienceLibrary:
    """What the workflow remembers."""
    return tuple(Insight.model_validate(to_plain_json(one)) for one in workflow.memory.get(MEMORY, ()))


def with_library(workflow: Workflow, library: ExperienceLibrary) -> Workflow:
    """The workflow with another library; one that is empty and was never there leaves no trace."""
    if not library and MEMORY not in workflow.memory:
        return workflow
    return workflow.with_memory(**{MEMORY: [one.model_dump(mode="json") for one in library]})


def make_insight(profile: Profile, text: str, sources: Iterable[Source] = ()) -> Insight | None:
    """A fresh insight out of a model's words; None where they are blank."""
    flat = " ".join(text.split())[:TEXT_LENGTH]
    return Insight(profile=profile, text=flat, sources=tuple(sources)) if flat else None


def add_insight(library: ExperienceLibrary, new: Insight, size: int) -> ExperienceLibrary:
    """ADD; an insight that is there already gets the new one's evidence. The worst goes where there are too many."""
    if any(one.id == new.id for one in library):
        return tuple(one.merge(new, one.text) if one.id == new.id else one for one in library)
    return limit_size((*library, new), size)


def merge_insights(
    library: ExperienceLibrary, new: Insight, targets: Sequence[str], text: str, size: int
) -> ExperienceLibrary:
    """MERGE: the targets and the new insight become one, in the place of the first target."""
    into = [one for one in library if one.id in targets]
    if not into:
        return add_insight(library, new, size)
    whole = into[0]
    for other in (*into[1:], new):
        whole = whole.merge(other, text)
    kept = tuple(whole if one is into[0] else one for one in library if one is into[0] or one.id not in targets)
    twin = next((one for one in kept if one is not whole and one.id == whole.id), None)
    if twin is not None:  # the merged text says word for word what another entry says
        kept = tuple(one.merge(whole, one.text) if one is twin else one for one in kept if one is not whole)
    return kept


def find_prunable(library: ExperienceLibrary, matches: Sequence[Insight], config: LibraryConfig) -> ExperienceLibrary:
    """Matching entries that may be pruned: used often enough, and of lower utility than what they conflict with.

    They conflict with a new insight, whose utility without evidence is 1/2, and maybe with better entries.
    """
    best = max([0.5, *(one.utility for one in matches)])
    return tuple(one for one in library if one in matches and one.uses >= config.proven and one.utility < best)


def remove_insights(library: ExperienceLibrary, ids: Iterable[str]) -> ExperienceLibrary:
    """PRUNE."""
    gone = set(ids)
    return tuple(one for one in library if one.id not in gone)


def limit_size(library: ExperienceLibrary, size: int) -> ExperienceLibrary:
    """At most `size` insights: the lowest utilities go first, among equals the oldest."""
    excess = len(library) - size
    if excess <= 0:
        return library
    worst = sorted(range(len(library)), key=lambda place: (library[place].utility, place))[:excess]
    return tuple(one for place, one in enumerate(library) if place not in worst)


def update_utilities(library: ExperienceLibrary, shown: Mapping[str, tuple[int, int]]) -> ExperienceLibrary:
    """Utilities after rollouts: (uses, successes) by the id of each insight that they were shown."""
    return tuple(one.with_uses(*shown[one.id]) if one.id in shown else one for one in library)


def load_import_counts(workflow: Workflow, origin: str) -> UsageCounts:
    """What the workflow has taken in from another library before."""
    taken = workflow.memory.get(IMPORTS, {}).get(origin, {})
    return {id: (uses, successes) for id, (uses, successes) in taken.items()}


def with_import_counts(workflow: Workflow, origin: str, taken: UsageCounts) -> Workflow:
    """The workflow that remembers what it has taken in from another library."""
    known = to_plain_json(workflow.memory.get(IMPORTS, {}))
    return workflow.with_memory(**{IMPORTS: {**known, origin: {id: list(counts) for id, counts in taken.items()}}})


def import_insights(
    library: ExperienceLibrary, others: ExperienceLibrary, size: int, taken: UsageCounts
) -> tuple[ExperienceLibrary, UsageCounts]:
    """One library taken into another; what both hold has the evidence of both, each counted once.

    Args:
        library: that takes in.
        others: as they are now where they come from.
        size: most insights.
        taken: what was taken in from there before; an insight without more evidence since is left out, though the
            library may have merged or pruned it.

    Returns:
        The library, and all that is taken in now.
    """
    now = dict(taken)
    for one in others:
        uses, successes = taken.get(one.id, (0, 0))
        more = max(0, one.uses - uses)
        if one.id in taken and not more:
            continue
        fresh = one.replace(uses=more, successes=min(more, max(0, one.successes - successes)))
        library = add_insight(library, fresh, size)
        now[one.id] = (max(one.uses, uses), max(one.successes, successes))
    return library, now


def to_json(library: ExperienceLibrary) -> list[dict[str, Any]]:
    """The library as it is shown and exported."""
    return [{"id": one.id, "utility": round(one.utility, 6), **one.model_dump(mode="json")} for one in library]
