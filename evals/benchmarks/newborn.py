"""Newborn: bridges of the archive whose second half lies in a collection that no agent of the initial team can search.

The initial team of TacoMAS searches the files on institutions and novels, which name a person or a city. What a
question asks of that person or city stands in another collection, and tools are fixed at birth: no prompt, note or
weight can bring it in. The searches of three more collections are on offer to newborns, one of them of no use. An
agent in reserve, which has no place in the team and never works, carries the offer. Other methods' initial teams hold
the search of the first collection alone.
"""

import random
from collections.abc import Mapping
from functools import lru_cache

from selfwire.core.agent import Agent
from selfwire.core.chat import load_prompts
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.evals.benchmarks.archive import (
    ENVIRONMENT,
    MOST,
    Names,
    PartedArchive,
    bridge,
    choose_first_option,
    documents,
    make_task,
    neighbourhood,
)
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader, refuse_size
from selfwire.evolvers.tacomas.initial_team import METHOD, make_initial_team
from selfwire.tools.search import Document, SearchTool

HELD = "search_works"
COLLECTIONS: Mapping[str, str] = {
    HELD: "institutions and novels",
    "search_people": "founders and authors",
    "search_staff": "employees and their years of work",
    "search_cities": "cities",
}
"""What each search finds, by its name, in the order of `documents`; no question asks for employees."""
RESERVE = "reserve"
_PLACES = (0, 0, 1, 1, 2, 2, 0, 0, 3, 3)
"""The collection of each of a neighbourhood's ten documents."""


@lru_cache(maxsize=4)
def generate_sorted_archive(size: int, seed: int = 0) -> PartedArchive:
    """Generate `size` bridges, one about each neighbourhood; ConfigError if the size is not from 1 to `MOST`."""
    refuse_size(size, MOST, "tasks of newborn")
    rng = random.Random(f"newborn {seed}")
    names, tasks = Names(rng), list[Task]()
    found: dict[str, list[Document]] = {name: [] for name in COLLECTIONS}
    for number in range(size):
        place = neighbourhood(names, rng)
        for collection, document in zip(_PLACES, documents(place, rng), strict=True):
            found[list(COLLECTIONS)[collection]].append(document)
        tasks.append(make_task(f"newborn-{seed}-{number}", bridge, place, rng))
    return PartedArchive(tuple(tasks), found)


def make_newborn_team() -> Team:
    """The initial team of TacoMAS, which holds one search, and an agent in reserve with those that are on offer."""
    team = make_initial_team(load_prompts("evolvers", METHOD), tools=[HELD])
    offered = tuple(name for name in COLLECTIONS if name != HELD)
    reserve = Agent(id=RESERVE, role="has no place in the team", prompt="You do not work.", tools=offered)
    return team.replace(agents=(*team.agents, reserve))


def newborn(size: int = 600, seed: int = 0) -> Benchmark:
    """The benchmark over one generated archive; splits have another seed."""
    made = generate_sorted_archive(size, seed)
    toolbox = {
        name: SearchTool(made.documents[name], name=name, description=f"Search the files on {what}, and nothing else.")
        for name, what in COLLECTIONS.items()
    }
    return Benchmark(
        name="newborn",
        description="Generated questions over collections of which the initial team can search one.",
        load=make_disjoint_loader(lambda: made.tasks),
        environment=ENVIRONMENT,
        toolbox=toolbox,
        tools=(HELD,),
        initial_teams={METHOD: make_newborn_team()},
        baseline=TrivialRule("first option", choose_first_option),
    )
