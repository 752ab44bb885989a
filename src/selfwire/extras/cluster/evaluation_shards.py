"""Some tasks of one system of an evaluation."""

from collections.abc import Sequence

from selfwire.evals.table import TRIVIAL
from selfwire.extras.cluster.shards import Shard
from selfwire.runs.record import ROWS


class SystemShard(Shard):
    """Some tasks of one system of an evaluation; `name` is the system's."""

    @property
    def scopes(self) -> Sequence[str]:
        """The system, and the rule that is measured beside the first."""
        return [f"{self.run}/{name}" for name in (self.name, TRIVIAL)]

    @property
    def notes(self) -> Sequence[str]:
        """The rows of results, and what all shards have."""
        return (f"{ROWS}/", *super().notes)
