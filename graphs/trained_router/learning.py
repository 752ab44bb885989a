"""One update of a workflow's router: from workflow and episodes to the workflow with new weights."""

import asyncio
from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.protocols import Embedder
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.config import RouterConfig, TrainConfig
from selfwire.evolvers.trained_router.decisions import Episode
from selfwire.evolvers.trained_router.reinforce import Learner, Update
from selfwire.evolvers.trained_router.weights import Weights, get_weights, refuse_other_pool
from selfwire.graphs.trained_router.heads import get_sampling, load_weights, with_weights

EPISODE = "episode"
"""Name of the note with the router's decisions in a trajectory."""


async def update_router(
    workflow: Workflow, episodes: Sequence[Episode], config: RouterConfig, train: TrainConfig, embedder: Embedder
) -> tuple[Workflow, Weights, Update]:
    """Learn from a batch of episodes.

    Returns:
        The workflow with the new weights, the weights with the optimiser's state, and the record of the update.

    Raises:
        ConfigError: the weights cannot be used.
        ValueError: an episode names an unknown agent, or a gradient is not finite.
    """
    dimensions = (await embedder.embed(["task"])).shape[1]
    learner = await asyncio.to_thread(_make_learner, workflow, config, train, embedder.name, dimensions)
    update = await learner.learn(episodes, workflow.agents, embedder)
    weights = get_weights(learner, workflow.agents, embedder.name)
    return with_weights(workflow, weights), weights, update


def _make_learner(
    workflow: Workflow, config: RouterConfig, train: TrainConfig, embedder: str, dimensions: int
) -> Learner:
    from selfwire.evolvers.trained_router.head import RoutingHead, get_device

    weights = load_weights(workflow)
    if weights is not None:
        refuse_other_pool(weights.card, workflow.agents, embedder, transfer=config.transfer)
    head = weights.make_head() if weights else RoutingHead(dimensions, config.head)
    learner = Learner(
        head.to(get_device(train.device)),
        train,
        get_sampling(workflow, config),
        stages=config.stages,
        process=config.process_reward,
    )
    if weights is not None:
        weights.resume(learner)
    return learner


def to_router_episode(trajectory: Trajectory, *, partial: bool = True) -> Episode | None:
    """The episode of a trajectory, rewarded with the answer's score (D22) or with success: None without decisions.

    After an error it has no reward (D8). A failed agent is an error too, as the drawn agents were not those that ran.
    So is the status failure, as the run was cut short.
    """
    note = trajectory.notes.get(EPISODE)
    if note is None:
        return None
    failed = any(step.error for step in trajectory.steps) or trajectory.notes.get("status") == "failure"
    feedback = trajectory.feedback
    episode = Episode.model_validate(to_plain_json(note))
    if trajectory.error is not None or failed or feedback is None:
        return episode.replace(reward=None)
    return episode.replace(reward=feedback.score if partial else float(feedback.solved))


def add_pool_agent(workflow: Workflow, agent: Agent) -> Workflow:
    """The workflow with one more agent in its pool; the router can choose it at once.

    Raises:
        ValueError: the pool has an agent of that id.
    """
    return workflow.replace(agents=(*workflow.agents, agent)).with_lineage(workflow, ())
