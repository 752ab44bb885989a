"""Does KABB find the two agents that each room needs? Shelf marks without a language model, with four or eight agents.

A source hands a task on to agents side by side. A room needs two of them, each agent serves three rooms, and any other
choice spoils the mark. Agents say in their prompts which rooms they serve, or say nothing of rooms, so that only what
was solved before tells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.protocols import Router
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_layers
from selfwire.core.values import FrozenModel
from selfwire.evals.table import Column, build_table
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.gradients import Backward
from selfwire.evolvers.hiva.knowledge import TaskConcepts, concept_name
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import SYSTEM, Scale, WorldResult, list_claim_columns
from selfwire.extras.lab.worlds.hiva.branching import SINK, SOURCE, Run, judge_agent, record_run, route_task
from selfwire.extras.lab.worlds.hiva.kabb import INDEXES, LAST, MAIN, ORACLE, UNIFORM, Chooser, KabbChooser, play
from selfwire.models.embeddings import HashingEmbedder

ROOMS = "map music print coin photo poster stamp glass textile fossil medal clock".split()
PARTS = (
    "the year mirrored", "the maker's initials", "the title without its vowels", "the digit sum of the width",
    "the last word of the title", "the century", "the first letter of the maker", "the number of its words",
)  # fmt: skip
"""What each agent writes of a mark."""
KABB: Mapping[str, KabbConfig] = {
    MAIN: KabbConfig(),
    "KABB, always two, lambda = 1": KabbConfig(distance_weight=1.0, fits_weights=False, within=0.0),
    "KABB, always two": KabbConfig(within=0.0),
}
"""The bandit as it is by default, and with the two best whatever beliefs say, lambda fitted or fixed."""

Flags = npt.NDArray[np.bool_]


class RoomsParameters(FrozenModel):
    """Sizes and probabilities.

    Args:
        arms: numbers of agents of the teams; even, 8 at most.
        right: probability that an agent's part is right.
        critic: probability that an agent's gradient of a failed task is right about it.
        tasks: of all rooms alike, in an order of the seed's.
        batch: tasks between two updates of what is learned.
    """

    arms: tuple[int, ...] = (4, 8)
    right: float = 0.95
    critic: float = 0.75
    tasks: int = 150
    batch: int = 10


@dataclass(frozen=True)
class Rooms:
    """A team and its tasks.

    Attributes:
        rooms: (tasks,) room of each task.
        luck: (tasks, agents) whether an agent's part would be right.
        fair: (tasks, agents) whether the critic would be right about an agent.
    """

    team: Team
    rooms: npt.NDArray[np.int64]
    luck: Flags
    fair: Flags


def list_pairs(arms: int) -> tuple[frozenset[str], ...]:
    """The two agents of each room: neighbours on a ring and opposite ones, so that each agent serves three rooms."""
    ring = [(place, (place + 1) % arms) for place in range(arms)]
    across = [(place, place + arms // 2) for place in range(arms // 2)]
    return tuple(frozenset((f"a{first}", f"a{second}")) for first, second in (*ring, *across))


def make_team(arms: int, *, claims: bool) -> Team:
    """The team, whose agents claim their rooms or none."""
    pairs, agents = list_pairs(arms), list[Agent]()
    for place, part in enumerate(PARTS[:arms]):
        served = [f"the {room} room" for room, pair in zip(ROOMS, pairs, strict=False) if f"a{place}" in pair]
        claim = f"You serve {', '.join(served)}. " if claims else ""
        agents.append(Agent(id=f"a{place}", prompt=f"{claim}Give {part} as a part of the mark."))
    source, sink = Agent(id=SOURCE, prompt="Hands on."), Agent(id=SINK, prompt="Answers.", kind="aggregator")
    team = Team(
        method="hiva",
        agents=(source, *agents, sink),
        topology=make_layers((SOURCE,), [agent.id for agent in agents], (SINK,)),
    )
    return HivaMemory().restrict_to(team).save_to(team)


def get_concepts(room: int) -> TaskConcepts:
    """The concepts of a room's tasks."""
    return TaskConcepts(
        main=concept_name(f"{ROOMS[room]} room mark"), broader=("shelf mark task",), skills=("catalogue",)
    )


async def run_seed(given: RoomsParameters, seed: int) -> WorldResult:
    """All systems in a seed's worlds."""
    figures: dict[str, dict[str, float]] = {}
    for arms, claims in product(given.arms, (True, False)):
        team, random = make_team(arms, claims=claims), np.random.default_rng([seed, arms])
        rooms = random.permutation(np.resize(np.arange(len(list_pairs(arms))), given.tasks))
        luck, fair = random.random((given.tasks, arms)) < given.right, random.random((given.tasks, arms)) < given.critic
        run = partial(run_room, Rooms(team, rooms, luck, fair), right=given.right)
        named = name_setting(arms, claims=claims)
        systems: dict[str, Chooser] = {
            name: KabbChooser(team, config, HashingEmbedder(), get_concepts) for name, config in KABB.items()
        }
        systems |= {name: make() for name, make in INDEXES.items() if name != UNIFORM}
        best = given.right**2
        bounds = {UNIFORM: best / len(list(combinations(range(arms), 2))), ORACLE: best}
        for name, value in bounds.items():
            figures.setdefault(name, {}).update({named: value, f"{named}, last": value})
        for name, system in systems.items():
            scores, decided = await play(system, run, rooms, given.batch, seed)
            mine = figures.setdefault(name, {"made": 0, "free": 0})
            mine |= {named: float(scores.mean()), f"{named}, last": float(scores[-LAST:].mean())}
            mine["made"] += decided.made
            mine["free"] += decided.free
    return WorldResult(seed=seed, figures=figures)


def run_room(world: Rooms, router: Router, number: int, scope: Scope, *, right: float) -> Run:
    """Let a router decide on a task; it is solved by the room's two agents, if both are right, and by no others."""
    team, room, arms = world.team, int(world.rooms[number]), len(world.team.agents) - 2
    question = Question(id=f"t{number}", input=ROOMS[room])
    routed = route_task(team, router, question, scope.at(task=question.id))
    chosen, wanted = [name for name in routed[SOURCE].chosen if name != SINK], list_pairs(arms)[room]
    good = {name: name in wanted and bool(world.luck[number, int(name[1:])]) for name in chosen}
    is_pair = set(chosen) == wanted
    solved = is_pair and all(good.values())
    gradients = [
        judge_agent(question.id, name, good[name] == bool(world.fair[number, int(name[1:])])) for name in chosen
    ]
    return Run(
        value=right**2 * is_pair,
        trajectory=record_run(team, question, routed, solved),
        passed=Backward(gradients=() if solved else tuple(gradients)),
    )


def name_setting(arms: int, *, claims: bool) -> str:
    """The name of a world."""
    return f"{arms} agents, {'claims' if claims else 'no claims'}"


def format_tables(results: Sequence[WorldResult]) -> str:
    """The part of the possible gain that each system gets, in all tasks and in the last ones."""
    settings = [name for name in results[0].figures[ORACLE] if not name.endswith("last")]

    def share(figure: str) -> Column[str]:
        scale = Scale(figure, UNIFORM, ORACLE, MAIN)
        gain, least = (scale.estimate(results, name).value for name in (ORACLE, UNIFORM))

        def format_share(name: str) -> str:
            found = scale.estimate(results, name)
            value, low, high = ((score - least) / (gain - least) for score in (found.value, found.low, found.high))
            return f"{value:.2f} [{low:.2f}, {high:.2f}]"

        return Column(figure, format_share)

    names = WORLD.scale.rank(results)
    shown = [
        f"{len(results)} seeds; share of the gain from uniform to oracle [95 %], over all tasks:",
        build_table((SYSTEM, *map(share, settings)), names).markdown,
        f"In the last {LAST} tasks:",
        build_table((SYSTEM, *(share(f"{name}, last") for name in settings)), names).markdown,
        build_table(list_claim_columns(results), WORLD.claims).markdown,
    ]
    return "\n\n".join(shown)


PARAMETERS = RoomsParameters()
FOUR, EIGHT = (Scale(name_setting(arms, claims=True), UNIFORM, ORACLE, MAIN, digits=3) for arms in PARAMETERS.arms)
WORLD = World(
    PARAMETERS,
    run_seed,
    scale=FOUR,
    claims=(
        FOUR.claim("lambda fitted, 4 agents", "KABB, always two, lambda = 1"),
        EIGHT.claim("lambda fitted, 8 agents", "KABB, always two, lambda = 1"),
        EIGHT.claim("a bandit that reads claims, 8 agents", "greedy per kind"),
    ),
    tables=format_tables,
)
