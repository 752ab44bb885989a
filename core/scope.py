"""A place in a run: one value that keys randomness, the journal and the trace tags."""

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from selfwire.core.values import FrozenModel, to_canonical_json

if TYPE_CHECKING:
    import numpy as np


class Scope(FrozenModel):
    """A place in a run.

    Args:
        run: name of the run; keys the journal, not the randomness.
        seed: seed of the run; keys the randomness.
        iteration: iteration of an outer loop, from 0.
        phase: step of the algorithm, such as rollout or gate.
        node: id of the node, or of the agent where there is no node.
        visit: earlier visits of this node in this run of the team.
        sample: number of the sample among equal ones.
    """

    run: str = ""
    seed: int = 0
    iteration: int = Field(default=0, ge=0)
    phase: str = ""
    task: str = ""
    node: str = ""
    visit: int = Field(default=0, ge=0)
    sample: int = Field(default=0, ge=0)

    def at(self, **place: str | int) -> "Scope":
        """Return the scope with some coordinates replaced, such as `scope.at(task="t1")`."""
        for name, value in place.items():
            if getattr(self, name, None) != value:
                return self.replace(**place)
        return self

    @cached_property
    def key(self) -> str:
        """The scope as text, the same in every process."""
        return self.model_dump_json()

    def random(self, purpose: str) -> "np.random.Generator":
        """A counter-based generator for one purpose at this place.

        Equal for equal scope (without run) and purpose, whatever ran before or at the same time.
        """
        import numpy as np  # which few answers need

        place = to_canonical_json({**self.model_dump(exclude={"run"}), "purpose": purpose})
        digest = hashlib.sha256(place.encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
