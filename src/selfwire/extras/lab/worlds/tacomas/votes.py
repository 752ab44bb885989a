"""Do the weights of Eq. 2 make a better answer out of reliable and unreliable agents?

Voters answer one question, round after round, each right with a probability of its own; the last agent sums up the
evidence that reaches it, of which a limited inbox leaves each voter as much as its weight allows (D1). All systems run
in TacoMAS's own LangGraph with the same replies. What the weights are worth is computed exactly: the probability that
the answer is right, over all that voters may say in the round after the last update.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np
from pydantic import BaseModel

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_layers
from selfwire.core.trajectory import Message
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evals.statistics import compute_mean
from selfwire.evolvers.tacomas.config import FastConfig, TacomasConfig
from selfwire.evolvers.tacomas.fast import weigh_messages
from selfwire.evolvers.tacomas.initial_team import METHOD
from selfwire.evolvers.tacomas.schemas import AgentScore, Checklist, ChecklistItem, Contributions, Refinement, Verdict
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.extras.lab.worlds.tacomas.survey import ENTRY, SINK, find_blocks
from selfwire.graphs.tacomas import Tacomas
from selfwire.models.embeddings import HashingEmbedder

MAIN, UNIFORM, BEST = "weights (Eq. 2)", "uniform weights", "best possible vote"
NO_FLOOR, BY_CHANCE = f"{MAIN}, no floor", f"{MAIN}, contributions by chance"
ROOMY = f"{MAIN}, the default inbox"
SEEN, RIGHT, WRONG = "Seen: ", "1a2b", "3c4d"
TASK = "Which is it?"


class VotesParameters(FrozenModel):
    """Parameters that worlds are drawn from.

    Args:
        reliable, others: bounds of a voter's probability of being right.
        counts: how many voters there are of each kind.
        judge: probability that a contribution is judged by what the voter said, and not by chance.
        lines: of evidence that each voter gives.
        inbox: characters that the last agent can read.
        rounds: of a run.
        tasks: tasks per seed.
    """

    reliable: tuple[float, float] = (0.75, 0.9)
    others: tuple[float, float] = (0.3, 0.5)
    counts: tuple[int, int] = (2, 5)
    judge: float = 0.8
    lines: int = 24
    inbox: int = 900
    rounds: int = 10
    tasks: int = 4

    def draw(self, seed: int, number: int) -> dict[str, float]:
        """A task's voters with their probabilities, in any order."""
        random = np.random.default_rng([seed, number])
        bounds = [self.reliable] * self.counts[0] + [self.others] * self.counts[1]
        chances = random.permutation([random.uniform(*bound) for bound in bounds])
        return {f"v{at}": float(chance) for at, chance in enumerate(chances)}


@dataclass(frozen=True)
class VotesModel:
    """Plays all voters, the last agent and the judges; no agent is coached, and no answer is good enough."""

    chances: Mapping[str, float]
    given: VotesParameters

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **options: Any) -> Reply:
        """An agent."""
        if scope.node == SINK:
            return Reply(content=sum_up(messages[-1].content))
        if scope.node == ENTRY:
            return Reply(content="Go.")
        right = scope.random("luck").random() < self.chances[scope.node]
        return Reply(content=write_evidence(right, self.given.lines))

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, **options: Any
    ) -> tuple[Schema, Usage]:
        """A checklist whose items all fail, contributions, or no advice."""
        random, found = scope.random("judge"), list[AgentScore]()
        if schema is Contributions:
            for agent, work in find_blocks(messages[-1].content):
                right, fair, noise = SEEN + RIGHT in work, random.random() < self.given.judge, random.random() < 0.5
                score = 0.5 if agent in (ENTRY, SINK) else float(right if fair else noise)
                found.append(AgentScore(agent=agent, score=score, reason="As its work shows."))
        items = [ChecklistItem(criterion=f"Item {at} is so.", operator="correctness") for at in range(4)]
        replies: Mapping[Any, BaseModel] = {
            Checklist: Checklist(items=items), Verdict: Verdict(results=[False] * len(items)),
            Contributions: Contributions(scores=found), Refinement: Refinement(agents=[]),
        }  # fmt: skip
        return cast(Schema, replies[schema]), Usage(calls=1)


def write_evidence(right: bool, lines: int) -> str:
    """The text of a voter."""
    return "\n\n".join([f"{SEEN}{RIGHT if right else WRONG}."] * lines)


def sum_up(text: str) -> str:
    """The value with more evidence; of two that have as much, the one that is read first."""
    counts = {value: text.count(SEEN + value) for value in sorted((RIGHT, WRONG), key=text.find)}
    return max(counts, key=lambda value: counts[value])


def make_team(voters: Sequence[str]) -> Team:
    """Voters between an agent that opens the work and one that sums up."""
    agents = tuple(Agent(id=name, prompt="Answer.") for name in (ENTRY, *voters, SINK))
    return Team(method=METHOD, agents=agents, topology=make_layers((ENTRY,), voters, (SINK,)))


def compute_value(chances: Mapping[str, float], weights: Mapping[str, float], given: VotesParameters) -> float:
    """The exact probability that the sum of what voters say is right under these weights."""
    text = write_evidence(True, given.lines)  # the other value is as long, so that as much of it arrives
    inbox = [Message(source=name, target=SINK, text=text) for name in chances]
    weighed = weigh_messages(inbox, weights, given.inbox, about=TASK)
    read = {message.source: message.text.count(SEEN) for message in weighed}

    def answer(votes: Sequence[bool]) -> bool:
        said = dict(zip(chances, votes, strict=True))
        margin = sum(count if said[name] else -count for name, count in read.items())
        return margin > 0 or (margin == 0 and said[next(iter(read))])

    every = product((True, False), repeat=len(chances))
    return sum(compute_chance(chances, votes) for votes in every if answer(votes))


def compute_best_value(chances: Mapping[str, float]) -> float:
    """The probability of a right answer for a reader that knows all chances, where either value is as likely."""
    every = product((True, False), repeat=len(chances))
    return sum(max(compute_chance(chances, v), compute_chance(chances, [not x for x in v])) for v in every) / 2


def compute_chance(chances: Mapping[str, float], votes: Sequence[bool]) -> float:
    """The probability of some votes."""
    return prod(p if right else 1 - p for p, right in zip(chances.values(), votes, strict=True))


async def learn_weights(
    chances: Mapping[str, float], given: VotesParameters, scope: Scope, **fast: float
) -> Mapping[str, float]:
    """The weights of a run's last round."""
    config = TacomasConfig.model_validate(
        {"topology": False, "rounds": given.rounds, "fast": {"inbox_length": given.inbox, **fast}}
    )
    method = Tacomas(config)
    ctx = method.make_ctx(VotesModel(chances, given), {}, HashingEmbedder(), scope=scope)
    done = await method.answer(make_team(list(chances)), Question(id=scope.task, input=TASK), ctx)
    weights: Mapping[str, float] = done.notes["rounds"][-1]["weights"]
    return weights


async def run_seed(given: VotesParameters, seed: int) -> WorldResult:
    """All systems on all tasks of a seed."""

    async def run(number: int) -> dict[str, float]:
        chances, scope = given.draw(seed, number), Scope(seed=seed, task=f"t{number}", phase="test")
        learned = {
            MAIN: await learn_weights(chances, given, scope),
            NO_FLOOR: await learn_weights(chances, given, scope, floor=0),
            UNIFORM: await learn_weights(chances, given, scope, rate=0),
            BY_CHANCE: await learn_weights(chances, given.replace(judge=0.0), scope),
        }
        values = {name: compute_value(chances, weights, given) for name, weights in learned.items()}
        roomy = given.replace(inbox=FastConfig().inbox_length)
        values[ROOMY] = compute_value(chances, learned[MAIN], roomy)
        return values | {BEST: compute_best_value(chances), "most reliable voter": max(chances.values())}

    found = [await run(number) for number in range(given.tasks)]
    return WorldResult(
        seed=seed, figures={name: {"right": compute_mean([values[name] for values in found])} for name in found[0]}
    )


SCALE = Scale("right", least=UNIFORM, most=BEST, main=MAIN)
CLAIMS = (
    SCALE.claim("weights (Eq. 2)", UNIFORM),
    SCALE.claim("weights, against contributions by chance", BY_CHANCE),
    SCALE.claim("no floor (the paper's form)", MAIN, main=NO_FLOOR),
    SCALE.claim("weights, where the inbox has room for all", UNIFORM, main=ROOMY),
)
STUDY = VotesParameters()
WORLD = World(STUDY, run_seed, SCALE, CLAIMS)
