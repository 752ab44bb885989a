"""Values of the workflow library: versions, rollbacks, histories."""

from pydantic import Field

from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, Id
from selfwire.core.workflow import Lineage


class Version(FrozenModel):
    """One version of the workflow `name`, saved by a run at a step and a time (ISO 8601 in UTC).

    `facts` are score, cost, reasons, accepted, embedder, method, benchmark, ...
    """

    name: Id
    run: Id
    step: int = Field(ge=0)
    fingerprint: str
    saved: str
    facts: FrozenJson = Field(default_factory=FrozenMap)
    lineage: Lineage = Lineage()

    @property
    def version(self) -> str:
        """Its name in the history: `run.step`."""
        return f"{self.run}.{self.step}"

    @property
    def age(self) -> tuple[str, str, int]:
        """Sort key from old to new."""
        return (self.saved, self.run, self.step)

    @property
    def ref(self) -> str:
        """Its reference for `WorkflowLibrary.load`: `name@run.step`."""
        return f"{self.name}@{self.version}"


class Rollback(FrozenModel):
    """A move of the head from one version to another, at an ISO 8601 time."""

    source: str
    target: str
    at: str


class History(FrozenModel):
    """All versions and rollbacks of a workflow, oldest first; `head` is what `load(name)` gives, `tags` is by tag."""

    name: str
    head: str
    versions: tuple[Version, ...]
    rollbacks: tuple[Rollback, ...] = ()
    tags: FrozenJson = Field(default_factory=FrozenMap)
