"""A router on a graph of the user's own: of several successors of a node one runs, which it has learned to choose.

A train task is put to the whole graph, and then so that each successor runs without the others. Each run is an
episode of the router (`evolvers.router`), whose reward is the score less the price of the run. REINFORCE raises the
probability of the successors that did better than the others on the same task. The batch is known as a whole, so that
all steps are taken on it. Elsewhere the most probable successor runs, and nothing is drawn.

The router reads the question and the texts of the state; of a successor its name and the prompts that it alone sends.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, Rewiring
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import DECISIONS, Trajectory
from selfwire.core.values import FrozenMap, fingerprint, is_id
from selfwire.evolvers.prompted_model import DeclinedProposal
from selfwire.evolvers.router.choosers import LearnedChooser
from selfwire.evolvers.router.config import ROUTER, RouterConfig, TrainConfig
from selfwire.evolvers.router.decisions import (
    EPISODE,
    Decision,
    Episode,
    LayeredWorkflow,
    count_decisions,
    read_decisions,
    to_router_episode,
)
from selfwire.evolvers.router.reinforce import update_router
from selfwire.evolvers.router.weights import load_head, with_weights
from selfwire.graphs.insertions import ROUTED, Choose, RoutedFork, list_routes
from selfwire.graphs.method import EvolveResult
from selfwire.graphs.router import SHOWN, SINGLE, describe_state

CONFIG = RouterConfig(sampling=SINGLE, transfer=True)
OPERATION = "ROUTE"


def make_pool(team: Team, routes: Sequence[RoutedFork], texts: Mapping[str, Sequence[str]]) -> Team:
    """Make the team that the router chooses from, with the weights of a team of the graph if it has any.

    Args:
        texts: prompts that a node alone sends, by node, as they stand in the source.
    """
    ends = dict.fromkeys(end for route in routes for end in route.ends)
    agents = [Agent(id=name_agent(end), role=end, prompt="\n\n".join(texts.get(end, ()))) for end in ends]
    memory = {ROUTER: team.memory[ROUTER]} if ROUTER in team.memory else {}
    return Team(method="router", agents=agents, topology=make_chain(*(a.id for a in agents)), memory=memory)


def name_agent(node: str) -> str:
    """Name the agent of the pool that stands for a node, whose name may be any text."""
    return node if is_id(node) else fingerprint(node)


async def make_chooser(
    pool: Team, question: Question, embedder: Embedder, scope: Scope, forced: Mapping[str, str] = FrozenMap()
) -> tuple[Choose, list[Decision]]:
    """Make the function that chooses the successors in a run, and the list of decisions that it adds to.

    Args:
        forced: successors that run whatever the router says, by the route's agent.

    Raises:
        ConfigError, LibraryError: the weights cannot be used or have not been loaded.
    """
    head = await load_head(pool, CONFIG.head, embedder, transfer=True)
    chooser, made = LearnedChooser(head, CONFIG.sampling, embedder), list[Decision]()

    async def choose(route: RoutedFork, state: Any) -> str:
        texts = [f"Question: {question.input}", *describe_state(state)]
        rows = tuple(" ".join(text.split())[:SHOWN] for text in texts)
        agents = {end: pool.agents_by_id[name_agent(end)] for end in route.ends}
        chosen, shares = forced.get(route.agent, ""), tuple[Mapping[str, float], ...]()
        if not chosen:
            shares = (await chooser(rows, [*agents.values()], scope=scope)).probabilities
            chosen = max(route.ends, key=lambda end: shares[0][agents[end].id])
        drawn = LayeredWorkflow(layers=((agents[chosen].id,),), probabilities=shares)
        made.append(Decision(rows=rows, agents=tuple(agent.id for agent in agents.values()), layered=drawn))
        return chosen

    return choose, made


def note_decisions(made: Sequence[Decision]) -> dict[str, Any]:
    """Notes of a run on what its router has decided; {} without a decision."""
    if not made:
        return {}
    counted = count_decisions(decision.layered for decision in made)
    episode = Episode(decisions=tuple(made)).model_dump(mode="json")
    return {EPISODE: episode} | ({DECISIONS: counted.model_dump(mode="json")} if counted else {})


def add_routes(team: Team, routes: Sequence[RoutedFork]) -> tuple[Team, tuple[Rewiring, ...]]:
    """Add routes to a team, which may have some of them already; returns the rewirings that it took too."""
    why = "no successor is needed where another one answers as well"
    rewirings = [
        Rewiring(
            AddAgent(Agent(id=route.agent, role=route.describe(), prompt="")),
            why=why,
            operation=OPERATION,
            by=route.agent,
        )
        for route in routes
        if route.agent not in team.agents_by_id
    ]
    for rewiring in rewirings:
        team = team.apply(rewiring)
    known = {route.agent: route for route in (*list_routes(team), *routes)}
    return team.with_memory(**{ROUTED: [route.model_dump(mode="json") for route in known.values()]}), tuple(rewirings)


async def learn_routes(
    team: Team,
    runs: Sequence[Trajectory],
    routes: Sequence[RoutedFork],
    texts: Mapping[str, Sequence[str]],
    train: TrainConfig,
    embedder: Embedder,
) -> EvolveResult:
    """Learn from graded runs in which each successor was alone: the team with its routes, and a trained router.

    A route whose program fails whenever one of the successors is alone is declined.

    Args:
        routes: that the graph may have.
        texts: as for `make_pool`.
        train: `updates` is the number of steps on these runs.
    """
    declined = list[DeclinedProposal]()
    for route in routes:
        for end in route.ends:
            alone = [run for run in runs if any(is_alone(decision, route, end) for decision in read_decisions(run))]
            if faults := [run.error for run in alone if run.error is not None]:
                if len(faults) == len(alone):
                    others = ", ".join(other for other in route.ends if other != end)
                    reason = f"{others} cannot be left out, as {end} alone fails: {faults[0]}"
                    declined.append(DeclinedProposal(by=route.agent, operation=OPERATION, reason=reason))
    kept = [route for route in routes if route.agent not in {note.by for note in declined}]
    known = {tuple(map(name_agent, route.ends)) for route in kept}
    episodes = list[Episode]()
    for run in runs:
        episode = to_router_episode(run, train)
        if episode and (decisions := tuple(made for made in episode.decisions if made.agents in known)):
            episodes.append(episode.replace(decisions=decisions))
    notes: dict[str, Any] = {"declined": [note.model_dump(mode="json") for note in declined]}
    if not any(episode.reward is not None for episode in episodes):
        return EvolveResult(workflow=team, notes=notes)
    pool = make_pool(team, kept, texts)
    pool, weights, update = await update_router(pool, episodes, CONFIG, train, embedder, steps=train.updates)
    pool = with_weights(pool, weights.without_optimiser())
    routed, rewirings = add_routes(team, kept)
    memory = {ROUTED: routed.memory[ROUTED], ROUTER: pool.memory[ROUTER]}
    notes["update"] = update.model_dump(mode="json")
    return EvolveResult.of(team, rewirings, memory=memory, notes=notes, needs_gate=True)


def is_alone(decision: Decision, route: RoutedFork, end: str) -> bool:
    """Whether a decision was to run this successor of a route."""
    ends = tuple(map(name_agent, route.ends))
    return decision.agents == ends and decision.layered.layers == ((name_agent(end),),)
