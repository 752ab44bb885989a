"""A task of several steps for a team that lacks some of the skills, and scripted models that work, judge and coach.

Every step needs a skill of its own. A worker gets the step of its skill right with a probability that is low until a
note tells it how. Half of the team's workers have skills that this task does not need, and there is hardly any room for
others. No language model acts: coach, meta-model and judges read their prompts and are right with stated probabilities.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from pydantic import BaseModel

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits, make_layers
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.tacomas.initial_team import METHOD
from selfwire.evolvers.tacomas.schemas import (
    AgentRefinement,
    AgentScore,
    BirthDeathPair,
    Checklist,
    ChecklistItem,
    Contributions,
    NewAgent,
    Refinement,
    SlowUpdate,
    Verdict,
)
from selfwire.nodes.agent import split_request

ENTRY, SINK = "planner", "editor"
SKILLS = tuple("algebra botany cartography demography etymology folklore geology heraldry imaging law".split())
_BLOCK = re.compile(r"^\[([\w-]+)\](.*?)(?=^\[[\w-]+\]|\Z)", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^(\w+): ([0-9a-f]{8})$", re.MULTILINE)
_SCORES = (0.0, 0.5, 1.0)
PAIRS = 2
"""Most births and deaths of an update."""
FEWEST_ITEMS = 4
"""Of a checklist; a task of fewer steps has items about the same one."""


class SurveyParameters(FrozenModel):
    """Parameters that worlds are drawn from.

    Args:
        steps: of a task, each with a skill of its own.
        present: workers at first whose skills are needed, and as many whose skills are not.
        room: agents by which the team may grow.
        alone, taught: a worker's probability of success before and after a note tells it how.
        coach: probability that the coach's note does.
        meta: probability that the meta-model is right about the agent to add, and about the one to let go for it.
        hasty: probability that it also replaces an agent that contributes little, by any other.
        judge: probability that a contribution is judged by what the agent did, and not by chance.
        verdict: probability that the judge is right about an item of the checklist.
        rounds: most rounds.
        tasks: tasks per seed.
    """

    steps: int = 4
    present: int = 2
    room: int = 1
    alone: float = 0.3
    taught: float = 0.9
    coach: float = 0.5
    meta: float = 0.6
    hasty: float = 0.4
    judge: float = 0.9
    verdict: float = 0.95
    rounds: int = 10
    tasks: int = 4

    @property
    def never_wrong(self) -> "SurveyParameters":
        """Parameters of these tasks with coach, meta-model and judges that are always right."""
        return self.replace(coach=1.0, meta=1.0, hasty=0.0, judge=1.0, verdict=1.0)

    @property
    def cap(self) -> int:
        """Most agents of a team."""
        return 2 * self.present + 2 + self.room


@dataclass(frozen=True)
class Survey:
    """A task: the right result of each step by its skill, and the team that it starts with."""

    results: Mapping[str, str]
    team: Team

    def count_right(self, answer: str | None) -> int:
        """The steps that are right."""
        return len(self.results.items() & dict(_STEP.findall(answer or "")).items())

    def solves(self, answer: str | None) -> bool:
        """Whether all steps are right."""
        return self.count_right(answer) == len(self.results)


def make_survey(given: SurveyParameters, seed: int, number: int) -> Survey:
    """Draw a task."""
    random = np.random.default_rng([seed, number])
    skills = random.permutation(SKILLS).tolist()
    needed, others = skills[: given.steps], skills[given.steps :]
    results = {skill: f"{random.integers(2**32):08x}" for skill in needed}
    workers = sorted([*needed[: given.present], *others[: given.present]])
    prompts = {ENTRY: "Open the work.", **{skill: f"Do the step of {skill}." for skill in workers}, SINK: "Sum it up."}
    topology = make_layers((ENTRY,), workers, (SINK,), caps=TopologyLimits(nodes=given.cap))
    agents = tuple(Agent(id=name, role=text, prompt=text) for name, text in prompts.items())
    return Survey(results, Team(method=METHOD, agents=agents, topology=topology))


@dataclass(frozen=True)
class SurveyModel:
    """Plays all parts by what the prompts show; luck is of a place in the run, and so shared by all systems.

    Attributes:
        guesses: whether the meta-model proposes as many changes as ever, but any.
    """

    survey: Survey
    given: SurveyParameters
    guesses: bool = False

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **options: Any) -> Reply:
        """An agent: a worker does the step of its skill, the last one sums up what it reads."""
        request = split_request(messages[-1].content)
        assert request is not None, "agents of a team are asked so"
        if scope.node == ENTRY:
            return Reply(content="Go.")
        if scope.node == SINK:
            found = dict(reversed(_STEP.findall(request.sent)))  # of two results the first that is read stays
            steps = [f"{skill}: {value}" for skill, value in found.items() if skill in self.survey.results]
            return Reply(content="\n".join(sorted(steps)) or "nothing")
        skill, random = find_skill(request.instructions), scope.random("luck")
        chance = self.given.taught if f"tables of {skill}" in request.instructions else self.given.alone
        right = random.random() < chance and skill in self.survey.results
        return Reply(content=f"{skill}: {self.survey.results[skill] if right else f'{random.integers(2**32):08x}'}")

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, **options: Any
    ) -> tuple[Schema, Usage]:
        """The judge, the coach or the meta-model."""
        sections = dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", messages[-1].content, re.DOTALL))
        replies = {
            Checklist: self._draft, Verdict: self._judge, Contributions: self._score,
            Refinement: self._coach, SlowUpdate: self._rewire,
        }  # fmt: skip
        reply: BaseModel = replies[cast(Any, schema)](sections, scope.random(schema.__name__))
        return cast(Schema, reply), Usage(calls=1)

    def _draft(self, shown: Mapping[str, str], random: np.random.Generator) -> Checklist:
        steps = list(self.survey.results)
        items = [
            ChecklistItem(criterion=f"The step of {steps[place % len(steps)]} is right.", operator="correctness")
            for place in range(max(len(steps), FEWEST_ITEMS))
        ]
        return Checklist(items=items)

    def _judge(self, shown: Mapping[str, str], random: np.random.Generator) -> Verdict:
        answer = dict(_STEP.findall(shown.get("answer", "")))
        skills = [find_skill(line) for line in shown["checklist"].splitlines()]
        return Verdict(
            results=[self._is_right(answer, skill) == (random.random() < self.given.verdict) for skill in skills]
        )

    def _score(self, shown: Mapping[str, str], random: np.random.Generator) -> Contributions:
        scores = []
        for agent, work in find_blocks(shown["agents"]):
            did = dict(_STEP.findall(work))
            true = 0.5 if agent in (ENTRY, SINK) else float(any(self._is_right(did, skill) for skill in did))
            noisy, fair = random.choice(_SCORES), random.random() < self.given.judge
            scores.append(AgentScore(agent=agent, score=true if fair else noisy, reason="As the work shows."))
        return Contributions(scores=scores)

    def _coach(self, shown: Mapping[str, str], random: np.random.Generator) -> Refinement:
        advice = []
        for agent, told in find_blocks(shown["agents"]):
            right, skill = random.random() < self.given.coach, find_skill(told)
            update = f"Use the tables of {skill}." if right and skill else "Take more care."
            advice.append(AgentRefinement(agent=agent, errors="", plan="", kind="prompt", update=update))
        return Refinement(agents=advice)

    def _rewire(self, shown: Mapping[str, str], random: np.random.Generator) -> SlowUpdate:
        """A birth for each step that no agent takes, with a death where the team is full; and hasty ones."""
        blocks = {agent: text for agent, text in find_blocks(shown["agents"]) if agent not in (ENTRY, SINK)}
        skills = {agent: find_skill(text) for agent, text in blocks.items()}
        missing = [skill for skill in find_skills(shown["goal"]) if skill not in skills.values()]
        flagged = [agent for agent, text in blocks.items() if "(a candidate for death)" in text]
        weak, room, pairs = list(blocks) if self.guesses else flagged, self.given.cap - len(blocks) - 2, []
        hasty = int((random.random(len(flagged)) < self.given.hasty).sum())
        for skill in [*missing, *[""] * hasty][:PAIRS]:
            knows, meant = (random.random(2) < self.given.meta) & (not self.guesses) & bool(skill)
            born, dead = skill if knows else str(random.choice(SKILLS)), None
            if (room <= 0 or not skill) and weak:
                useless = [agent for agent in weak if skills[agent] not in self.survey.results]
                dead = str(random.choice(useless if meant and useless else weak))
                weak.remove(dead)
            room -= dead is None
            pairs.append(BirthDeathPair(v_dead=dead, v_new=NewAgent(role=born, goal=f"Do the step of {born}.")))
        return SlowUpdate(birth_death_pairs=pairs)

    def _is_right(self, answer: Mapping[str, str], skill: str) -> bool:
        return skill in self.survey.results and answer.get(skill) == self.survey.results[skill]


def find_skills(text: str) -> list[str]:
    """The skills that a text names, in its order."""
    return [word for word in re.findall(r"\w+", text) if word in SKILLS]


def find_skill(text: str) -> str:
    """The first skill that a text names; "" if it names none."""
    return next(iter(find_skills(text)), "")


def find_blocks(text: str) -> list[tuple[str, str]]:
    """The agents that a prompt lists, with what it says of each."""
    return _BLOCK.findall(text)
