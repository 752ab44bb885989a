"""Baselines: single agents and fixed teams that methods are compared with.

Each round has its own nodes, so a team is an ordinary topology. Two kinds of nodes call no model: `opening` starts all
members, `vote` counts answers. A run makes no call that can decide nothing any more: after a critic who finds no fault,
after a leader who gives the answer, after votes that no further one can outvote.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import load_prompts
from selfwire.core.errors import ConfigError, ModelError, TaskBudgetError
from selfwire.core.protocols import AgentRunner
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain, make_topology
from selfwire.core.trajectory import CUT, Message, Step, Trajectory, mark_equal_messages
from selfwire.core.usage import sum_usages
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.evals.graders import to_ballot
from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.random_edits import edit_at_random
from selfwire.evolvers.trajectory_text import gather_all
from selfwire.graphs.machine import DETACHED, Ctx
from selfwire.graphs.method import Method
from selfwire.graphs.team import TeamContext, run_team


def load_prompt(name: str, **values: object) -> str:
    """Load the prompt of a baseline and fill it."""
    return load_prompts("evals", "baselines").text(name, **values).strip()


def merge_samples(samples: Sequence[Trajectory], *, cut: bool = False) -> Trajectory:
    """Make one run of several on a question, with all their steps and the most frequent answer.

    Args:
        cut: whether a sample had no room any more.
    """
    first = samples[0].replace(notes={CUT: True}) if cut else samples[0]
    if len(samples) == 1:
        return first
    first = first.replace(
        steps=tuple(step for sample in samples for step in sample.steps),
        overhead=sum_usages(sample.overhead for sample in samples),
    )
    answers = _list_answers(samples)
    return first.replace(answer=choose_by_vote(answers), error=None) if answers else first


def _list_answers(samples: Sequence[Trajectory]) -> list[str]:
    return [sample.answer for sample in samples if sample.answer is not None]


def choose_by_vote(answers: Sequence[str]) -> str:
    """Find the most frequent answer by `answers.to_ballot`; ties go to the first. ValueError without answers."""
    if not answers:
        raise ValueError("there are no answers to vote on")
    ballots = [to_ballot(answer) for answer in answers]
    winner, _ = Counter(ballots).most_common(1)[0]
    return answers[ballots.index(winner)]


def is_decided(answers: Sequence[str], left: float) -> bool:
    """Whether the vote on these answers has the same winner whatever `left` further ones are."""
    counts = Counter(to_ballot(answer) for answer in answers)
    if not counts:
        return False
    (first, most), *others = counts.most_common()
    order = list(counts)
    return left <= most and all(
        count + left < most or (count + left == most and order.index(first) < order.index(ballot))
        for ballot, count in others
    )


async def add_votes(
    asked: Mapping[str, list[Trajectory]], ask: Callable[[str], Coroutine[Any, Any, Trajectory]], calls: float
) -> None:
    """Ask anew, while the calls last, each task whose vote is open, in their order; then a vote may have one more.

    So nothing is spent on a vote that is decided, and all votes together cost what they may.

    Args:
        asked: the first answer of each task; further ones are added.
        ask: gives one more answer on a task.
        calls: for further answers on all tasks; one is expected to take as many as the first ones in the mean.
    """
    each = max(fmean(first.usage.calls for [first] in asked.values()), 1)  # a failed one counts too, so that this ends
    most = 3  # a second answer decides nothing, as a tie goes to the first
    while calls >= each - 1e-9:
        open_votes = [
            task
            for task, found in asked.items()
            if len(found) < most and not is_decided(_list_answers(found), most - len(found))
        ]
        further = open_votes[: int(calls / each + 1e-9)]
        for task, done in zip(further, await gather_all(map(ask, further)), strict=True):
            asked[task].append(done)
            calls -= max(done.usage.calls, 1)
        most += not further


class BaselineConfig(FrozenModel):
    """The config field of all baselines: the temperature of every call."""

    temperature: float = Field(default=1.0, ge=0, le=2)


MOST_ANSWERS = 1000
"""Most answers on a task that an agent votes on, however many calls it may make."""


class VotingConfig(BaselineConfig):
    """Config of an agent that votes on its own answers.

    Args:
        samples: answers per task; None for as many as the cap of calls allows, `MOST_ANSWERS` at most, or a single one
            without a cap.
    """

    samples: int | None = Field(default=None, ge=1, le=MOST_ANSWERS)


ANSWERS = 15
"""Answers of `single` in a comparison that sets no other number: for as many, of two calls each, 30 calls have room."""


class OneCallConfig(VotingConfig):
    """Config of an agent that is asked once by default."""

    samples: int | None = Field(default=1, ge=1, le=MOST_ANSWERS)


class SelfConsistencyConfig(VotingConfig):
    """Config of self-consistency. Wang et al. and ours: 5 samples."""

    samples: int | None = Field(default=5, ge=1, le=MOST_ANSWERS)


class RefineConfig(BaselineConfig):
    """Most turns of criticism and improvement in self-refine (Madaan et al., 2023). Paper: 4. Ours: 3."""

    iterations: int = Field(default=3, ge=1, le=20)


class TeamConfig(BaselineConfig):
    """Debates and fixed teams.

    Args:
        agents: that work side by side. Du et al.: 3.
        rounds: of work; the independent team has one. Du et al.: 2. Ours: 3 for debates, 2 for teams.
    """

    agents: int = Field(default=3, ge=2, le=20)
    rounds: int = Field(default=2, ge=1, le=20)


class DebateConfig(TeamConfig):
    """Config of debates."""

    rounds: int = Field(default=3, ge=1, le=20)


class RandomConfig(BaselineConfig):
    """Number and seed of random legal rewirings of the pair that HiVA starts from."""

    edits: int = Field(default=6, ge=0, le=100)
    seed: int = Field(default=0, ge=0)


Config = TypeVar("Config", bound=BaselineConfig)

OPENING, VOTE = "opening", "vote"
"""Kinds of agents that call no model."""

Nodes = Sequence[tuple[str, str]]
"""(node, agent) pairs."""


def select_messages(inbox: Sequence[Message]) -> list[Message]:
    """The messages that say something, nothing long twice."""
    return mark_equal_messages([message for message in inbox if message.text])


def make_voting_runner(act: AgentRunner) -> AgentRunner:
    """Make a runner that also runs the two kinds of agents without a model: openings and votes."""

    async def run(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        if agent.kind == OPENING:
            return Step(node=scope.node, agent=agent.id)
        if agent.kind == VOTE:
            if not inbox:
                raise ModelError("nobody has given an answer to vote on")
            return Step(node=scope.node, agent=agent.id, output=choose_by_vote([message.text for message in inbox]))
        return await act(agent, question, select_messages(inbox), scope=scope)

    return run


NO_FAULT = re.compile(r"\W*no faults? (?:was |were )?found\W*", re.IGNORECASE)
"""A critic's reply that finds no fault."""


def make_refining_runner(act: AgentRunner) -> AgentRunner:
    """Make a runner of drafts and critics who stop: an answer without a fault is handed on without a call."""
    faultless: set[str] = set()

    async def run(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        texts = [message.text for message in inbox]
        handed_on = Step(node=scope.node, agent=agent.id, inbox=tuple(inbox))
        if agent.kind == "critic" and faultless.issuperset(texts):
            return handed_on
        if agent.id == "refine" and any(not text.strip() or NO_FAULT.fullmatch(text) for text in texts[1:]):
            faultless.add(texts[0])
            return handed_on.replace(output=texts[0])
        return await act(agent, question, select_messages(inbox), scope=scope)

    return run


FINISHED = re.compile(r"\W*nothing is left to do[^\w\n]*\n(?P<answer>.*\S.*)", re.IGNORECASE | re.DOTALL)
"""A leader's reply that gives the team's answer."""


def make_led_runner(act: AgentRunner) -> AgentRunner:
    """Make a runner of a led team that stops: once a leader who has read reports gives the answer, nobody is called."""
    answers = list[str]()

    async def run(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        if answers:
            output = answers[0] if agent.kind == "aggregator" else ""
            return Step(node=scope.node, agent=agent.id, inbox=tuple(inbox), output=output)
        step = await act(agent, question, select_messages(inbox), scope=scope)
        if agent.kind == "leader" and inbox and (found := FINISHED.fullmatch(step.output)):
            answers.append(found["answer"].strip())
        return step

    return run


def make_pair(tools: Sequence[str]) -> Team:
    """The pair worker -> summary."""
    agents = (_worker("worker").replace(tools=tuple(tools)), _worker("summary", kind="aggregator"))
    return Team(method="random", agents=agents, topology=make_chain("worker", "summary"))


def _equals(name: str, agent: str, config: TeamConfig) -> Team:
    rounds = [_numbered(f"{agent}-{at}", config.agents) for at in range(1, config.rounds + 1)]
    members = _numbered(agent, config.agents)
    work = [pair for turns in rounds for pair in zip(turns, members, strict=True)]
    nodes = [("opening", "opening"), *work, ("vote", "vote")]
    edges = [*_all(["opening"], rounds[0]), *_between(rounds), *_all(rounds[-1], ["vote"])]
    workers = [_worker(agent, number=at).replace(id=member) for at, member in enumerate(members, 1)]
    agents = (_opening(), *workers, Agent(id="vote", role="counts answers", prompt="", kind=VOTE))
    return _workflow(name, agents, nodes, edges, "opening", "vote")


def _led(name: str, config: TeamConfig, *, peers: bool) -> Team:
    members = _numbered("member", config.agents)
    nodes: list[tuple[str, str]] = [("leader-1", "leader")]
    edges: list[tuple[str, str]] = []
    for at in range(1, config.rounds + 1):
        parts = ["report", "reply"] if peers else ["report"]
        stages = [[f"{member}-{part}-{at}" for member in members] for part in parts]
        after = f"leader-{at + 1}" if at < config.rounds else "summary"
        nodes += [pair for stage in stages for pair in zip(stage, members, strict=True)]
        nodes.append((after, after.split("-")[0]))
        edges += [*_all([f"leader-{at}"], stages[0]), *_between(stages), *_all(stages[-1], [after])]
    if config.rounds > 1:
        edges.append((f"leader-{config.rounds}", "summary"))  # says what stands of the rounds before
    colleagues = load_prompt("colleagues") if peers else ""
    agents = (
        _worker("leader", kind="leader", count=config.agents, peers=", and then each other's reports" if peers else ""),
        *(
            Agent(
                id=member,
                role=ROLES["worker"],
                prompt=load_prompt("member", number=number, count=config.agents, peers=colleagues),
            )
            for number, member in enumerate(members, 1)
        ),
        _worker("summary", kind="aggregator"),
    )
    return _workflow(name, agents, nodes, edges, "leader-1", "summary")


def _workflow(
    name: str, agents: Sequence[Agent], nodes: Nodes, edges: Iterable[tuple[str, str]], entry: str, sink: str
) -> Team:
    return Team(method=name, agents=tuple(agents), topology=make_topology(nodes, edges, entry, sink))


def _worker(name: str, *, kind: str = "worker", **values: object) -> Agent:
    return Agent(id=name, role=ROLES[name], prompt=load_prompt(name, **values), kind=kind)


def _opening() -> Agent:
    return Agent(id="opening", role="lets everybody begin", prompt="", kind=OPENING)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(1, count + 1)]


def _all(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    return [(source, target) for source in sources for target in targets]


def _between(stages: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    return [edge for before, after in pairwise(stages) for edge in _all(before, after)]


ROLES: Mapping[str, str] = {
    "draft": "gives the first answer",
    "refine": "improves the answer",
    "critic": "says what is wrong with the answer",
    "debater": "answers, and argues with the others",
    "peer": "works on the task beside others",
    "worker": "works on the task",
    "leader": "divides and directs the work",
    "summary": "gives the final answer",
}


class Baseline(Method[Config]):
    """A baseline: asked as a method is, and never rewired.

    Args:
        calls: most model calls per task; a lone agent that wants more samples spends on them those that its first
            answer leaves, and votes. None for as many as an answer takes.
    """

    def __init__(self, config: Config | None = None, *, calls: float | None = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.calls = calls


class SingleAgent(Baseline[VotingConfig]):
    """A single agent that may spend its calls on samples; the most frequent answer is given.

    It samples until the next sample would exceed its calls, or until it has as many samples as its config wants, or
    `MOST_ANSWERS` where that sets no number.
    """

    prompt_name: ClassVar[str]
    uses_tools: ClassVar[bool] = False

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """Make the team of a single agent, with the tools if it uses any."""
        prompt, held = load_prompt(self.prompt_name), tuple(tools) if self.uses_tools else ()
        agent = Agent(id="single", role="works alone", prompt=prompt, tools=held)
        topology = make_chain("single")
        return Team(method=self.name, agents=(agent,), topology=topology)

    async def answer(self, team: Team, question: Question, ctx: Ctx[VotingConfig]) -> Trajectory:
        """Sample until the calls are spent, then vote; ties go to the earliest answer.

        A second answer decides nothing, so it is asked for only where a third one may follow, or the first is missing.
        Nor do answers that come when no further vote can change who wins, so the last ones are not asked for.

        Raises:
            TaskBudgetError: the calls were not enough for the first answer.
        """
        samples, enough = self.config.samples, self.config.samples or MOST_ANSWERS
        most = float("inf") if samples and self.calls is None else self.calls or 1
        found = [await self._sample(team, question, ctx.where(sample=0))]
        spent = each = max(found[0].usage.calls, 1)  # a failed sample counts too, so that sampling ends
        cut = False
        while not cut and len(found) < enough:
            decides = samples or len(found) > 1 or found[0].answer is None
            left = min(enough - len(found), most - spent - each + 1)  # a sample takes a call at least
            if spent + (each if decides else 2 * each) > most or is_decided(_list_answers(found), left):
                break
            try:
                found.append(await self._sample(team, question, ctx.where(sample=len(found))))
            except TaskBudgetError:  # a sample that needed more than the first; the earlier ones count
                cut = True
            else:
                spent += max(found[-1].usage.calls, 1)
        return merge_samples(found, cut=cut)

    async def _sample(self, team: Team, question: Question, ctx: Ctx[VotingConfig]) -> Trajectory:
        run = TeamContext.of(team, question, ctx.scope, ctx.make_runner(team))
        return await run_team(team.topology, run, config=DETACHED)


class Single(SingleAgent):
    """A single agent with the benchmark's tools."""

    name, config_type, prompt_name, uses_tools = "single", VotingConfig, "single", True


class Direct(SingleAgent):
    """A single agent that answers at once."""

    name, config_type, prompt_name = "direct", OneCallConfig, "direct"


class ChainOfThought(SingleAgent):
    """A single agent that reasons first (Wei et al., 2022)."""

    name, config_type, prompt_name = "cot", OneCallConfig, "reasoned"


class SelfConsistency(SingleAgent):
    """A single agent that reasons five times and votes (Wang et al., 2023)."""

    name, config_type, prompt_name = "self-consistency", SelfConsistencyConfig, "reasoned"


class FixedTeam(Baseline[Config]):
    """A team that does not change."""

    def draw(self) -> Team:
        """Make the team, without tools."""
        raise NotImplementedError

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """Make the team, whose workers hold the tools; critics, leaders and aggregators have none."""
        team = self.draw()
        agents = [agent.replace(tools=tuple(tools)) if agent.kind == "worker" else agent for agent in team.agents]
        return team.replace(agents=tuple(agents))

    make_runner = staticmethod(make_voting_runner)
    """Makes a runner that also knows when the team is done."""

    async def answer(self, team: Team, question: Question, ctx: Ctx[Config]) -> Trajectory:
        """Run the team once."""
        act = self.make_runner(ctx.make_runner(team))
        return await run_team(
            team.topology, TeamContext.of(team, question, ctx.scope.at(task=question.id), act), config=DETACHED
        )


class SelfRefine(FixedTeam[RefineConfig]):
    """A draft, then criticism and improvement, until the critic finds no fault (Madaan et al., 2023)."""

    name, config_type = "self-refine", RefineConfig
    make_runner = staticmethod(make_refining_runner)

    def draw(self) -> Team:
        """The chain of drafts."""
        turns = range(1, self.config.iterations + 1)
        answers = ["draft", *(f"refine-{turn}" for turn in turns)]
        nodes = [("draft", "draft"), *((f"{agent}-{n}", agent) for n in turns for agent in ("critic", "refine"))]
        edges = [
            edge
            for turn in turns
            for edge in (
                (answers[turn - 1], f"critic-{turn}"),
                (answers[turn - 1], answers[turn]),
                (f"critic-{turn}", answers[turn]),
            )
        ]
        agents = (_worker("draft"), _worker("refine"), _worker("critic", kind="critic"))
        return _workflow(self.name, agents, nodes, edges, "draft", answers[-1])


class Debate(FixedTeam[DebateConfig]):
    """Agents answer, read all answers, answer again, and vote (Du et al., 2024)."""

    name, config_type = "debate", DebateConfig

    def draw(self) -> Team:
        """The debaters and the vote."""
        return _equals(self.name, "debater", self.config)


class Independent(FixedTeam[TeamConfig]):
    """Members who never hear each other; another agent makes one answer from theirs."""

    name, config_type = "independent", TeamConfig

    def draw(self) -> Team:
        """The members side by side."""
        members = _numbered("worker", self.config.agents)
        nodes = [("opening", "opening"), *((name, "worker") for name in members), ("summary", "summary")]
        edges = [*_all(["opening"], members), *_all(members, ["summary"])]
        agents = (_opening(), _worker("worker"), _worker("summary", kind="aggregator"))
        return _workflow(self.name, agents, nodes, edges, "opening", "summary")


class Centralised(FixedTeam[TeamConfig]):
    """A leader who divides the work, hears every report, and directs the next round or gives the answer."""

    name, config_type = "centralised", TeamConfig
    make_runner = staticmethod(make_led_runner)

    def draw(self) -> Team:
        """The leader and the members."""
        return _led(self.name, self.config, peers=False)


class Decentralised(FixedTeam[TeamConfig]):
    """Equals who hear each other between rounds, and vote."""

    name, config_type = "decentralised", TeamConfig

    def draw(self) -> Team:
        """The equals and the vote."""
        return _equals(self.name, "peer", self.config)


class Hybrid(FixedTeam[TeamConfig]):
    """A leader as in `Centralised`, and members who also hear each other within a round."""

    name, config_type = "hybrid", TeamConfig
    make_runner = staticmethod(make_led_runner)

    def draw(self) -> Team:
        """The leader and the members."""
        return _led(self.name, self.config, peers=True)


class RandomTeam(FixedTeam[RandomConfig]):
    """The control for evolved teams: the pair worker -> summary after random legal rewirings."""

    name, config_type = "random", RandomConfig

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """Make the pair with the tools, and rewire it at random."""
        instructions = tuple(text for texts in paraphrases().values() for text in texts)
        scope = Scope(seed=self.config.seed)
        return edit_at_random(make_pair(tools), self.config.edits, instructions, scope=scope)[0]


BASELINES: Mapping[str, type[Baseline[Any]]] = {
    baseline.name: baseline
    for baseline in (
        Direct,
        ChainOfThought,
        SelfConsistency,
        Single,
        SelfRefine,
        Debate,
        Independent,
        Centralised,
        Decentralised,
        Hybrid,
        RandomTeam,
    )
}


def make_baseline(name: str, config: Mapping[str, Any] = FrozenMap(), *, calls: float | None = None) -> Baseline[Any]:
    """Make a baseline of `BASELINES`.

    Args:
        config: the baseline's config fields by name.
        calls: as for `Baseline`.

    Raises:
        ConfigError: there is no such baseline, or a config field is unknown or out of bounds.
    """
    if name not in BASELINES:
        raise ConfigError(f"unknown baseline {name!r}; baselines are {', '.join(BASELINES)}")
    return BASELINES[name](calls=calls, **config)
