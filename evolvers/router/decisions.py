"""Decisions of a router, and the episodes of decisions that training learns from (Sec. 3.2)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from pydantic import Field, model_validator

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.trajectory import DecisionCount, Trajectory
from selfwire.core.usage import ZERO_USAGE, Objective
from selfwire.core.values import FrozenModel, Id, fingerprint, to_plain_json
from selfwire.evolvers.router.config import TrainConfig

EXIT_KIND = "signal"
"""Kind of an agent that does nothing but end the run."""
PROMPT_SHOWN = 400
"""Characters of an agent's prompt that are embedded; small embedders read no more."""
EPISODE = "episode"
"""Name of the note with the router's decisions in a trajectory."""


class LayeredWorkflow(FrozenModel):
    """The workflow of a stage, G_t: layers of agents, every agent of a layer joined to every agent of the next.

    Args:
        layers: agent ids per layer, in the order in which they were drawn.
        probabilities: p of the first draw over the agents that could be drawn, per layer; without masked agents.
        log_probability: log P(G_t | s_t), the sum over layers; 0 without a draw.
        masked: agents that could not be drawn.
        masked_first: further agents that could not be drawn in the first layer.
        exit: agent whose draw ends the run and was decided apart, before each layer (D28): it is then the last layer
            alone. None where it could not be drawn, or was drawn among the others.
    """

    layers: tuple[tuple[Id, ...], ...] = Field(min_length=1)
    probabilities: tuple[Mapping[Id, float], ...] = ()
    log_probability: float = Field(default=0.0, le=1e-9)
    masked: tuple[Id, ...] = ()
    masked_first: tuple[Id, ...] = ()
    exit: Id | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.probabilities) not in (0, len(self.layers)):
            raise ValueError(f"{len(self.layers)} layers have {len(self.probabilities)} probabilities")
        for layer in self.layers:
            if not layer or len(set(layer)) != len(layer):
                raise ValueError(f"a layer holds at least one agent and none of them twice, not {list(layer)}")
        return self


class Decision(FrozenModel):
    """A stage as training reads it.

    Args:
        rows: texts of the rows of the task state, active subtask first.
        agents: ids of the pool, in its order.

    Raises:
        ValueError: a drawn agent is masked or not in the pool, and so has no probability.
    """

    rows: tuple[str, ...] = Field(min_length=1)
    agents: tuple[Id, ...] = Field(min_length=1)
    layered: LayeredWorkflow

    @model_validator(mode="after")
    def _check(self) -> Self:
        drawn = {agent for layer in self.layered.layers for agent in layer}
        opening = set(self.layered.layers[0]) & set(self.layered.masked_first)
        if strangers := sorted(opening | drawn - (set(self.agents) - set(self.layered.masked))):
            free = ", ".join(agent for agent in self.agents if agent not in self.layered.masked)
            raise ValueError(f"{', '.join(strangers)} cannot have been drawn; free were {free or 'none'}")
        return self


class Episode(FrozenModel):
    """The decisions of a task from the first stage to the last, with their rewards.

    Args:
        decisions: one per stage, in order.
        reward: U, the score of the answer in [0, 1] (D22), less the price of the run where it has one; None after an
            infrastructure error, which teaches nothing.
        process: reward of each stage; empty without process rewards.
        question: id of the question; episodes of one question are compared with each other.
    """

    decisions: tuple[Decision, ...] = Field(min_length=1)
    reward: float | None = Field(default=None, ge=-1, le=1)
    process: tuple[float, ...] = ()
    question: str = ""


def count_decisions(drawn: Iterable[LayeredWorkflow]) -> DecisionCount | None:
    """The draws of a run, one per layer, free where there were two agents to draw from; None without a draw."""
    made = [shares for layered in drawn for shares in layered.probabilities]
    return DecisionCount(made=len(made), free=sum(len(shares) > 1 for shares in made)) if made else None


def to_router_episode(trajectory: Trajectory, train: TrainConfig = TrainConfig()) -> Episode | None:
    """The episode of a trajectory, rewarded with the answer's score (D22) or with success; None without decisions.

    Of the reward goes the price of the run, where the training has one.
    After an error it has no reward (D8). A failed agent is an error too, as the drawn agents were not those that ran.
    So is the status failure, as the run was cut short.
    """
    note = trajectory.notes.get(EPISODE)
    if note is None:
        return None
    failed = any(step.error for step in trajectory.steps) or trajectory.notes.get("status") == "failure"
    feedback = trajectory.feedback
    episode = Episode.model_validate(to_plain_json(note)).replace(question=trajectory.question.id)
    if trajectory.error is not None or failed or feedback is None:
        return episode.replace(reward=None)
    price = Objective.parse(train.objective).compute_price(ZERO_USAGE, trajectory.usage)
    score = feedback.score if train.partial else float(feedback.solved)
    return episode.replace(reward=max(-1.0, score - price))


def read_decisions(trajectory: Trajectory) -> tuple[Decision, ...]:
    """The decisions of a run's router, stage by stage; empty without a note."""
    note = trajectory.notes.get(EPISODE)
    return Episode.model_validate(to_plain_json(note)).decisions if note else ()


class Masks(NamedTuple):
    """Agents that must not be chosen, by id.

    Attributes:
        always: in any layer.
        first: further ones in the first layer; never all agents are in one of both.
    """

    always: frozenset[Id] = frozenset()
    first: frozenset[Id] = frozenset()

    @property
    def at_first(self) -> frozenset[Id]:
        """All that must not be chosen for the first layer."""
        return self.always | self.first


class LayerChooser(Protocol):
    """Chooses a stage's layers from the rows of a state."""

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], masks: Masks = Masks(), *, scope: Scope
    ) -> LayeredWorkflow:
        """Choose; equal input at an equal scope gives equal layers.

        Args:
            rows: texts, active subtask first.
            scope: of the decision; its `random` is the only randomness.

        Raises:
            ValueError: the pool is empty, has duplicates, or is masked as a whole.
        """
        ...


def agent_text(agent: Agent) -> str:
    """The embedded text of an agent: its role, its tools, and the beginning of its prompt for its capabilities."""
    tools = f"Tools: {', '.join(agent.tools)}" if agent.tools else ""
    beginning = " ".join(agent.prompt.split())[:PROMPT_SHOWN]
    return "\n".join(part for part in (agent.role.strip() or agent.id, tools, beginning) if part)


def pool_fingerprint(pool: Sequence[Agent]) -> str:
    """Identifies a pool by the embedded texts of its agents, in any order."""
    return fingerprint({agent.id: agent_text(agent) for agent in pool})


def candidates(pool: Sequence[Agent], masked: frozenset[Id]) -> list[Agent]:
    """The agents of the pool that may be drawn, in its order.

    Raises:
        ValueError: the pool is empty, has duplicates, or is masked as a whole.
    """
    ids = [agent.id for agent in pool]
    if not ids:
        raise ValueError("the pool is empty; give the router at least one agent")
    if twice := sorted({agent for agent in ids if ids.count(agent) > 1}):
        raise ValueError(f"the pool holds {', '.join(twice)} more than once; every agent needs an id of its own")
    free = [agent for agent in pool if agent.id not in masked]
    if not free:
        raise ValueError(f"all agents of the pool are masked ({', '.join(ids)}); leave at least one to choose")
    return free
