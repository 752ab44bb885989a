"""Dealt: questions of the archive whose documents lie with eight holders, so that no agent can answer alone.

A question needs documents of two holders. In a bridge the second holder does not know which document is meant until it
hears what the first has found; in a comparison a third agent needs both values. DyTopo's initial team has a holder for
each eighth and a writer who holds nothing; agents of other methods' initial teams hold all eight searches.
"""

import random
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
    comparison,
    documents,
    make_task,
    neighbourhood,
)
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader, refuse_size
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.tools.search import Document, SearchTool

HOLDERS = tuple(f"Holder{number}" for number in range(1, 9))
WRITER = "Writer"
KINDS = (bridge, comparison)


@lru_cache(maxsize=4)
def generate_dealt_archive(size: int, seed: int = 0) -> PartedArchive:
    """Generate `size` tasks, a bridge and a comparison about each neighbourhood.

    Of a neighbourhood's ten documents a holder gets one, or two that no question asks for together.

    Raises:
        ConfigError: the size is not from 1 to `MOST`.
    """
    refuse_size(size, MOST, "dealt tasks")
    rng = random.Random(f"dealt archive {seed}")
    names, tasks = Names(rng), list[Task]()
    dealt = {holder: list[Document]() for holder in HOLDERS}
    while len(tasks) < size:
        place = neighbourhood(names, rng)
        owners = rng.sample(HOLDERS, len(HOLDERS))
        owners += owners[4:6]  # the two cities lie with the holders of the two colleagues
        for owner, document in zip(owners, documents(place, rng), strict=True):
            dealt[owner].append(document)
        for kind in KINDS:
            tasks.append(make_task(f"dealt-{seed}-{len(tasks)}", kind, place, rng))
    for part in dealt.values():
        rng.shuffle(part)
    return PartedArchive(tuple(tasks[:size]), dealt)


def name_search(holder: str) -> str:
    """The name of the search that a holder alone holds."""
    return f"search_{holder.lower()}"


def make_dealt_team() -> Team:
    """DyTopo's team of eight holders, each with a search of its own, and a writer who answers."""
    prompts, manager = load_prompts("evals", "dealt"), load_prompts("evolvers", "dytopo").text("role_manager").strip()
    holders = [
        Agent(
            id=holder,
            role="looks things up in a part of the archive that nobody else sees",
            prompt=prompts.text("holder").strip(),
            tools=(name_search(holder),),
        )
        for holder in HOLDERS
    ]
    writer = Agent(
        id=WRITER, role="takes the question apart and gives the answer", prompt=prompts.text("writer").strip()
    )
    return make_team([*holders, writer], Domain(name="dealt", answerers=(WRITER,)), manager=manager)


def dealt(size: int = 600, seed: int = 0) -> Benchmark:
    """The benchmark over one generated archive; splits have another seed."""
    made = generate_dealt_archive(size, seed)
    toolbox = {
        name_search(holder): SearchTool(part, name=name_search(holder)) for holder, part in made.documents.items()
    }
    return Benchmark(
        name="dealt",
        description="Generated questions over documents that are dealt out to eight holders.",
        load=make_disjoint_loader(lambda: made.tasks),
        environment=ENVIRONMENT,
        toolbox=toolbox,
        tools=tuple(toolbox),
        initial_teams={"dytopo": make_dealt_team()},
        baseline=TrivialRule("first option", choose_first_option),
    )
