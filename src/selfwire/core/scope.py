"""A place in a run, which determines random numbers, journal keys and trace tags."""

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
        run: name of the run; part of journal keys, but not of random numbers.
        seed: seed of the run's random numbers.
        iteration: iteration of an outer loop, from 0.
        phase: step of the algorithm, such as rollout or gate.
        node: id of the node, or of the agent if there is no node.
        visit: number of earlier visits of this node in this run of the team.
        sample: number of the sample among equal requests.
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
        """The scope as text, equal in every process."""
        return self.model_dump_json()

    def random(self, purpose: str) -> "np.random.Generator":
        """Make a counter-based random generator for a purpose at this place.

        Equal scopes (the run apart) and purposes give equal numbers, whatever ran before or at the same time.
        """
        import numpy as np  # few answers need it

        place = to_canonical_json({**self.model_dump(exclude={"run"}), "purpose": purpose})
        digest = hashlib.sha256(place.encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
