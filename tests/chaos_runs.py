"""Disturbs runs of every kind at random and resumes them: `python -m tests.chaos_runs --minutes 15 --seed 1`.

A run goes through the real command line and the real OpenAI client against a local server that serves the offline
model. It is disturbed some times, each time in another way, and then resumed to its end. After that its result is that
of the run that nobody disturbed, no more requests were paid again than were in flight, no process and no lock is left.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from selfwire.models.providers import make_chat_model
from tests import kills, processes
from tests.chaos_kinds import KINDS, Kind, Result
from tests.disturbances import DISTURBANCES, KILLS, LONG, Disturbed
from tests.machine_kills import MACHINE_KILLS, start_on_machines
from tests.machines import Machines
from tests.wire.proxy import Proxy
from tests.wire.server import WireServer, served

OFTEN = [name for name in DISTURBANCES for _ in range(1 if name in LONG else 24 if name in KILLS else 12)]
"""Disturbances, each as often as it is chosen."""
PATIENCE = 120.0
"""Seconds within which a run that is resumed must end, if the undisturbed one takes less than a tenth of that."""


class Whole(NamedTuple):
    """A run that nobody disturbs: its result, its requests and its seconds."""

    result: Result
    requests: int
    seconds: float


class Outcome(NamedTuple):
    """A disturbed run: its seed, kind and disturbances, requests that were paid again, and what is wrong with it."""

    seed: int
    kind: str
    disturbances: tuple[str, ...]
    kills: Counter[str]
    again: int
    in_flight: int
    faults: tuple[str, ...]


class Chaos:
    """A server, and runs that are disturbed in homes of their own."""

    def __init__(self, folder: Path, server: WireServer, proxy: Proxy, machines: Machines) -> None:
        self.folder, self.server, self.proxy, self.machines = folder, server, proxy, machines
        self._whole: dict[str, Whole] = {}

    def whole(self, kind: Kind) -> Whole:
        """The run of a kind that nobody disturbs."""
        if kind.name not in self._whole:
            home, rng = self.folder / kind.name.replace(" ", ""), random.Random(0)
            one = Disturbed(home, self.server, self.proxy, self.machines, kind, rng)
            asked, began = len(self.server.asked), time.monotonic()
            printed, _ = processes.wait_for(one.start())
            seconds, requests = time.monotonic() - began, len(self.server.asked) - asked
            self._whole[kind.name] = Whole(kind.read(one.home, printed), requests, seconds)
        return self._whole[kind.name]

    def disturb(self, seed: int, kind: Kind, chosen: tuple[str, ...]) -> Outcome:
        """Disturb a run and resume it to its end; all follows from the seed, except when exactly it happens."""
        rng, whole, asked = random.Random(seed), self.whole(kind), len(self.server.asked)
        home, sizes = self.folder / f"seed-{seed}", (whole.seconds, whole.requests)
        one = Disturbed(home, self.server, self.proxy, self.machines, kind, rng, *sizes)
        try:
            for name in chosen:
                {**DISTURBANCES, **MACHINE_KILLS}[name](one)
            last = start_on_machines(one) if kind.machines else one.start()
            printed, errors = last.communicate(max(PATIENCE, 10 * whole.seconds))
        except TimeoutError as error:
            return Outcome(seed, kind.name, chosen, one.kills, 0, one.in_flight, (*one.faults, str(error)))
        again = len(self.server.asked) - asked - one.injected - whole.requests
        if last.returncode != 0:
            one.faults.append(f"it ended with {last.returncode}: {errors.strip()[-300:]}")
        else:
            one.faults += one.check(whole.result, printed)
            if kind.resumes and again > one.in_flight:
                one.faults.append(f"{again} requests again, {one.in_flight} in flight")
        return Outcome(seed, kind.name, chosen, one.kills, again, one.in_flight, tuple(one.faults))


@contextmanager
def open_chaos() -> Iterator[Chaos]:
    """A server for runs in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder, WireServer(served(make_chat_model("offline"))) as server:
        with Proxy(server.port) as proxy, Machines() as machines:
            yield Chaos(Path(folder), server, proxy, machines)


def disturb_all(seeds: Iterable[int], kinds: Sequence[Kind] = KINDS, names: Sequence[str] = OFTEN) -> Iterator[Outcome]:
    """Disturb a run per seed, which chooses its kind and from one to four disturbances."""
    with open_chaos() as chaos:
        for seed in seeds:
            rng = random.Random(seed)
            [kind] = rng.choices(kinds, [one.weight for one in kinds])
            among = [*MACHINE_KILLS] if kind.machines else names
            yield chaos.disturb(seed, kind, tuple(rng.choices(among, k=rng.randint(1, 4))))


def main() -> None:
    """Print a row per run and a summary; the exit status is 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[one.name for one in KINDS], action="append", help="only these")
    parser.add_argument("--disturbance", choices=list(DISTURBANCES), action="append", help="only these")
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    names = given.disturbance or OFTEN
    kinds = [one for one in KINDS if one.name in (given.kind or [one.name])]
    found: list[Outcome] = []
    for one in disturb_all(_seeds(given.seed, lambda: time.monotonic() > end), kinds, names):
        found.append(one)
        kills.told(format_outcome(one))
    kills.told(format_summary(found))
    sys.exit(any(one.faults for one in found))


def _seeds(first: int, is_enough: Callable[[], bool]) -> Iterator[int]:
    while not is_enough():
        yield first
        first += 1


def format_outcome(one: Outcome) -> str:
    """A row of the table."""
    verdict = "; ".join(one.faults) or "equal"
    killed = " ".join(f"{name}:{count}" for name, count in sorted(one.kills.items()) if count)
    again = f"again {one.again:3} of {one.in_flight:2} in flight, killed {killed or 0}"
    return f"seed {one.seed:4}  {one.kind:20} {again}  {', '.join(one.disturbances)}: {verdict}"


def format_summary(found: Sequence[Outcome]) -> str:
    """What was disturbed how often, and how many runs ended as if nobody had."""
    disturbed = Counter(name for one in found for name in one.disturbances)
    kinds = Counter(one.kind for one in found)
    equal = sum(not one.faults for one in found)
    killed = sum((one.kills for one in found), Counter[str]())
    return "\n".join(
        [
            f"{equal} of {len(found)} runs equal, after {killed.total()} kills: "
            + ", ".join(f"{count} {name}" for name, count in sorted(killed.items())),
            "disturbances: " + ", ".join(f"{count} {name}" for name, count in sorted(disturbed.items())),
            "runs: " + ", ".join(f"{count} {name}" for name, count in sorted(kinds.items())),
        ]
    )


if __name__ == "__main__":
    main()
