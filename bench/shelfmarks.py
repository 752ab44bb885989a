"""Scores that teams could reach on shelf marks.

`python -m bench.shelfmarks FILE --method NAME` writes the branching team, for `selfwire evolve --team FILE`; with
`--rooms` its agents say which rooms they serve.

Agents follow the benchmark's rules from the start, which nobody else is told. The best chain and the best single agent
are the best of all, chosen on the tasks that are measured; the branching team has one agent per rule.
"""

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean

from bench.measuring import Row
from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, RemoveEdge, Rewiring
from selfwire.core.protocols import Environment, Model, Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Routing
from selfwire.evals.benchmarks.shelfmarks import ENVIRONMENT, ROOMS, RULES, shelfmarks
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.team import TeamContext, make_fixed_router, route_to_all, run_team
from selfwire.models.metered_chat import MeteredModel
from selfwire.nodes.agent import make_agent_runner
from selfwire.store.journal import NullRecorder

TITLE = "shelf marks: what teams could reach"
TASKS = 60
OPENS = Agent(id="open", prompt="You pass the task on.")
CLOSES = Agent(id="close", prompt="You give the team's final answer.")
SPECIALISTS = {
    rule: Agent(id=rule.replace(" ", "-"), prompt=f"Give {stated.text} as a part of the mark.")
    for rule, stated in RULES.items()
}
RouterByTask = Callable[[Task], Router]


def make_single(rules: Sequence[str]) -> Team:
    """A single agent with these rules in its prompt."""
    prompt = "\n".join(SPECIALISTS[rule].prompt for rule in rules)
    agent = Agent(id="single", prompt=f"You answer the task.\n{prompt}")
    return Team(method="single", agents=(agent,), topology=make_chain("single"))


def make_chain_of(rules: Sequence[str]) -> Team:
    """Agents with one rule each, one after another."""
    agents = (OPENS, *(SPECIALISTS[rule] for rule in rules), CLOSES)
    return Team(method="chain", agents=agents, topology=make_chain(*(agent.id for agent in agents)))


def make_branching(method: str = "branching", *, rooms: bool = False) -> Team:
    """An agent per rule, side by side; with `rooms` each says which it serves."""
    pair = Team(method=method, agents=(OPENS, CLOSES), topology=make_chain(OPENS.id, CLOSES.id))
    edits = [
        edit
        for agent in (name_rooms(rule) if rooms else prompt for rule, prompt in SPECIALISTS.items())
        for edit in (
            AddAgent(agent),
            AddNode(agent.id, agent.id),
            AddEdge(OPENS.id, agent.id),
            AddEdge(agent.id, CLOSES.id),
        )
    ]
    return pair.apply(Rewiring(RemoveEdge(OPENS.id, CLOSES.id), *edits, why="a branch per rule"))


def name_rooms(rule: str) -> Agent:
    """The agent of a rule, who says which rooms it serves."""
    first, second, third = (room for room, rules in ROOMS.items() if rule in rules)
    agent = SPECIALISTS[rule]
    return agent.replace(prompt=f"You serve the {first}, the {second} and the {third}. {agent.prompt}")


def route_by_room(task: Task) -> Router:
    """The router that knows which two rules a task needs."""
    wanted = [SPECIALISTS[rule].id for rule in ROOMS[task.kind]]
    return make_fixed_router({OPENS.id: wanted, **{rule: [CLOSES.id] for rule in wanted}})


def route_to_any_two(task: Task) -> Router:
    """A router that draws two branches for each task."""

    def choose(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        drawn = known.scope.at(node=node).random("two").permutation(len(successors))[:2]
        return Routing(chosen=tuple(successor for at, successor in enumerate(successors) if at in drawn))

    return choose


async def measure_team(
    team: Team,
    tasks: Sequence[Task],
    model: Model,
    find_router: RouterByTask = lambda task: route_to_all,
    environment: Environment = ENVIRONMENT,
) -> float:
    """The mean score of a team."""
    act, scores = make_agent_runner(model, {}), list[float]()
    for task in tasks:
        scope = Scope(phase="eval", task=task.id)
        run = TeamContext.of(team, task.question, scope, act, router=find_router(task))
        done = await run_team(team.topology, run)
        scores.append((await environment.grade(task, done.answer or "", scope=scope)).score)
    return mean(scores)


async def measure_teams(tasks: Sequence[Task], model: Model) -> dict[str, float]:
    """Measure the score of each kind of team."""
    rules = list(RULES)
    some = [few for size in range(1, len(rules) + 1) for few in combinations(rules, size)]
    branching = make_branching()
    singles = [await measure_team(make_single(few), tasks, model) for few in some if len(few) <= 2]
    chains = [await measure_team(make_chain_of(few), tasks, model) for few in some]
    return {
        "best single agent": max(singles),
        "single agent with all rules": await measure_team(make_single(rules), tasks, model),
        "best chain": max(chains),
        "chain of all rules": chains[-1],
        "all branches": await measure_team(branching, tasks, model),
        "any two branches": await measure_team(branching, tasks, model, route_to_any_two),
        "the right two branches": await measure_team(branching, tasks, model, route_by_room),
    }


def measure() -> list[Row]:
    """Score of each kind of team on the test tasks, as rows of a table."""
    tasks = shelfmarks().splits(0, train=0, gate=0, test=TASKS).test
    reached = asyncio.run(measure_teams(tasks, MeteredModel(OfflineChat(), journal=NullRecorder())))
    return [Row(what=name, value=score, column="score") for name, score in reached.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the branching team."""
    parser = ArgumentParser(prog="python -m bench.shelfmarks", description="Write the branching team.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--method", default="branching", help="whose team the file holds")
    parser.add_argument("--rooms", action="store_true", help="the agents say which rooms they serve")
    given = parser.parse_args(arguments)
    given.file.write_text(make_branching(given.method, rooms=given.rooms).model_dump_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
