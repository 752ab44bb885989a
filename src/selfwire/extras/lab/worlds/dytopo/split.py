"""Does semantic matching bring facts to those who need them? DyTopo's graph beside other graphs, where facts are split.

All systems run in DyTopo's own LangGraph with the same scripted agents, and an agent can read no more words in one than
in another. Fixed graphs and the one that always matches rightly are embedders, so that nothing else differs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.protocols import Embedder, Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evals.statistics import compute_mean
from selfwire.evals.table import Column
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.evolvers.dytopo.schemas import Halting, Turn
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import Scale, WorldResult, mean_column
from selfwire.graphs.dytopo import Dytopo, Report
from selfwire.models.embeddings import HashingEmbedder

_SYLLABLES = [f"{a}{b}" for a in "bdfgklmnprstvz" for b in "aeiou"]
_FACT = re.compile(r"(\d+)=([0-9a-f]{8})")
_ENTRY = re.compile(r"^\[(You|Your answer so far|From [^\],]+), round (\d+)\]\n", re.MULTILINE)
_NEED = re.compile(
    r"^(\S+): (.*?)(?: \((?:sent by (.*)|.* offered it and sent nothing|no offer fitted)\))?$", re.MULTILINE
)
_OFFERED = re.compile(r"Handed over: (\d+)")


class SplitParameters(FrozenModel):
    """Parameters from which worlds are drawn.

    Args:
        agents: members of the team.
        held: facts that each holds at first.
        needs: facts of others that each part needs.
        late: parts that also need the result of one of the others.
        words, named: words that mean a fact, and how many of them are picked to name it.
        noise, vocabulary: words without meaning that are mixed in, and of how many.
        length: words of a message.
        budget: words of messages that an agent can read in a round; what is over is lost.
        rounds: most rounds.
        tasks: tasks per seed.
    """

    agents: int = 10
    held: int = 3
    needs: int = 2
    late: int = 5
    words: int = 6
    named: int = 3
    noise: int = 3
    vocabulary: int = 30
    length: int = 40
    budget: int = 120
    rounds: int = 8
    tasks: int = 4


@dataclass(frozen=True)
class SplitTask:
    """A task.

    Attributes:
        names: of the agents.
        held, needs: facts by agent; raw facts come before results.
        results: the fact that an agent's part comes to.
        values: of the facts; they cannot be guessed.
        words: that mean each fact.
        vocabulary: words without meaning.
    """

    names: tuple[str, ...]
    held: Mapping[str, tuple[int, ...]]
    needs: Mapping[str, tuple[int, ...]]
    results: Mapping[str, int]
    values: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    vocabulary: tuple[str, ...]

    def find_fact(self, text: str) -> int | None:
        """The fact that a text names, as anybody who knows the words reads it; None if it names none."""
        said = set(text.split())
        shared = [len(said.intersection(words)) for words in self.words]
        return int(np.argmax(shared)) if max(shared) else None

    def solve(self, name: str, known: Mapping[int, str]) -> str:
        """The answer to an agent's part by what it knows; "" while something is missing."""
        return " ".join(known[fact] for fact in self.needs[name]) if known.keys() >= set(self.needs[name]) else ""

    def check(self, name: str, answer: str) -> bool:
        """Whether an answer to an agent's part is right."""
        return answer == self.solve(name, dict(enumerate(self.values)))

    def make_team(self) -> Team:
        """The team, whose members all answer."""
        agents = [Agent(id=name, role="does a part of the task", prompt="Do your part.") for name in self.names]
        return make_team(agents, Domain(name="split", answerers=self.names), manager="Lead the team.")


def make_task(given: SplitParameters, seed: int, number: int) -> SplitTask:
    """Draw a task."""
    random = np.random.default_rng([seed, number])
    names = tuple(f"a{at}" for at in range(given.agents))
    raw = given.agents * given.held
    owners = random.permutation(np.repeat(np.arange(given.agents), given.held))
    results = {name: raw + at for at, name in enumerate(names)}
    needs = {}
    for at, name in enumerate(names):
        others = random.choice(np.flatnonzero(owners != at), given.needs, replace=False).tolist()
        late = [raw + int(random.integers(given.agents - given.late))] if at >= given.agents - given.late else []
        needs[name] = (*others, *late)
    facts = raw + given.agents
    spelled = dict.fromkeys("".join(random.choice(_SYLLABLES, 3)) for _ in range(2 * facts * given.words + 100))
    words = list(spelled)
    return SplitTask(
        names=names,
        held={name: tuple(np.flatnonzero(owners == at).tolist()) for at, name in enumerate(names)},
        needs=needs,
        results=results,
        values=tuple(f"{value:08x}" for value in random.integers(2**32, size=facts)),
        words=tuple(tuple(words[fact * given.words : (fact + 1) * given.words]) for fact in range(facts)),
        vocabulary=tuple(words[-given.vocabulary :]),
    )


@dataclass
class SplitModel:
    """Plays workers and manager from what their prompts show, and a worker's own facts and needs.

    Attributes:
        listens: whether workers offer what the team is told that others need.
        relays: whether workers who need nothing still ask for anything new.
        spoken: whose query or offer a text was.
        read: words of messages that were read.
    """

    task: SplitTask
    given: SplitParameters
    listens: bool = True
    relays: bool = False
    spoken: dict[str, str] = field(default_factory=dict)
    read: int = 0

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **options: Any) -> Reply:
        """Nobody asks for free text here."""
        raise NotImplementedError("DyTopo asks for objects only")  # pragma: no cover - the protocol has it

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, **options: Any
    ) -> tuple[Schema, Usage]:
        """A worker's turn, or the manager's verdict."""
        sections = dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", messages[-1].content, re.DOTALL))
        reply = self._manage(messages[-1].content) if schema is Halting else self._speak(schema, sections, scope)
        return cast(Schema, reply), Usage(calls=1)

    def _manage(self, shown: str) -> Halting:
        return Halting(is_complete=shown.count("Its answer:") == len(self.task.names), next_goal="Go on.")

    def _speak(self, schema: type[Any], sections: Mapping[str, str], scope: Scope) -> Turn:
        name, task, random = scope.node, self.task, scope.random("turn")
        notes, letters = self._recall(sections.get("memory", ""), scope.visit)
        known = {fact: task.values[fact] for fact in task.held[name]} | self._read([notes, *letters], scope)
        answer = task.solve(name, known)
        if answer:
            known[task.results[name]] = task.values[task.results[name]]
        missing = [fact for fact in task.needs[name] if fact not in known]
        offered = [int(fact) for fact in _OFFERED.findall(notes)]
        wanted = [fact for fact in self._find_wanted(sections.get("needs", ""), name, offered) if fact in known]
        given = int(random.choice([fact for fact in wanted if fact not in offered] or wanted or task.held[name]))
        facts = " ".join(f"{fact}={value}" for fact, value in known.items())
        reply: Turn = schema(
            public=f"Known: {facts}. Handed over: {given}",
            private=self._write(f"{given}={known[given]}"),
            query=self._name(missing[:1], scope, "query") if missing or self.relays else "",
            key=self._name([given], scope, "key"),
            answer=answer,
        )
        self.spoken |= {reply.query: name, reply.key: name}
        return reply

    def _recall(self, memory: str, visit: int) -> tuple[str, list[str]]:
        """A worker's own last note, and the messages of the round before."""
        _, *parts = _ENTRY.split(memory)
        entries = [(who, int(number), text) for who, number, text in zip(*[iter(parts)] * 3, strict=True)]
        last = [(who, text) for who, number, text in entries if number == visit]  # prompts count rounds from 1
        return next((text for who, text in last if who == "You"), ""), [
            text for who, text in last if who.startswith("From ")
        ]

    def _read(self, texts: Sequence[str], scope: Scope) -> dict[int, str]:
        """The facts that a worker learns from its note and, in any order, from as many messages as it can read."""
        notes, *letters = texts
        order, left = scope.random("reading").permutation(len(letters)), self.given.budget
        learned = notes
        for letter in (letters[at] for at in order):
            left -= len(letter.split())
            if left < 0:
                break
            self.read += len(letter.split())
            learned += f"\n{letter}"
        return {int(fact): value for fact, value in _FACT.findall(learned)}

    def _find_wanted(self, needs: str, name: str, offered: Sequence[int]) -> list[int]:
        """Facts that others needed, without what this worker just handed over to them."""
        if not self.listens:
            return []
        asked = [(who, self.task.find_fact(text), fitted.split(", ")) for who, text, fitted in _NEED.findall(needs)]
        others = [(fact, fitted) for who, fact, fitted in asked if who != "You" and fact is not None]
        return [fact for fact, fitted in others if not (fact in offered and name in fitted)]

    def _write(self, fact: str) -> str:
        return " ".join([fact, *["and"] * (self.given.length - 1)])

    def _name(self, facts: Iterable[int], scope: Scope, purpose: str) -> str:
        """A fact in words that mean it, with some that do not."""
        random = scope.random(purpose)
        meant = [word for fact in facts for word in random.choice(self.task.words[fact], self.given.named, False)]
        return " ".join(random.permutation([*meant, *random.choice(self.task.vocabulary, self.given.noise, False)]))


MAIN, ORACLE = "matching", "matching that knows what is meant"
DEAF, KEPT = f"{MAIN}, needs not heard", f"{MAIN}, the first graph kept"
BEST = f"{MAIN}, best tau in hindsight"
RANDOM, BROADCAST, RING, SINGLE = "random edges", "broadcast", "fixed ring", "single turn"
CHECKPOINTS = (2, 4, 6)
TAUS = (0.1, 0.2, 0.4)
"""Thresholds beside the default."""

Rows = npt.NDArray[np.float32]


@dataclass
class KnowingEmbedder:
    """Knows what texts mean: two that name the same fact have cosine 1, others 0."""

    task: SplitTask
    name: str = "knowing"

    async def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows."""
        rows = np.zeros((len(texts), len(self.task.words)), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if (fact := self.task.find_fact(text)) is not None:
                row[fact] = 1
        return rows


@dataclass
class FixedEmbedder:
    """Gives the same graph in every round, whatever is needed and offered.

    Attributes:
        providers: by agent.
        spoken: whose query or offer a text was; every agent has both.
    """

    providers: Mapping[str, Sequence[str]]
    spoken: Mapping[str, str]
    name: str = "fixed"

    async def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows of queries, then of offers."""
        names = list(self.providers)
        rows = np.zeros((len(texts), len(names)), dtype=np.float32)
        for at, text in enumerate(texts):
            speaker = self.spoken[text]
            for name in self.providers[speaker] if at < len(names) else [speaker]:
                rows[at, names.index(name)] = 1
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        return rows


@dataclass(frozen=True)
class SystemRun:
    """Run of a system on a task.

    Attributes:
        finished: for each part, the round in which it was finished, from 1.
        read: words that agents read.
    """

    finished: tuple[int | None, ...]
    read: int
    edges: int
    report: Report


async def run_task(
    task: SplitTask,
    given: SplitParameters,
    scope: Scope,
    embedder: Embedder | None = None,
    providers: Mapping[str, Sequence[str]] | None = None,
    listens: bool = True,
    **config: object,
) -> SystemRun:
    """Run DyTopo on a task.

    Args:
        embedder: hashing by default.
        providers: of a fixed graph instead, by agent.
        listens: whether workers offer what others needed.
        config: what differs from DyTopo's defaults.
    """
    model = SplitModel(task, given, listens=listens, relays=providers is not None)
    fixed = FixedEmbedder(providers, model.spoken) if providers is not None else None
    settings = DytopoConfig.model_validate({"rounds": given.rounds, **config})
    method = Dytopo(settings)
    ctx = method.make_ctx(model, {}, fixed or embedder or HashingEmbedder(), scope=scope)
    report = await method.run(task.make_team(), Question(id=scope.task, input="All parts."), ctx)
    right = [{turn.worker for turn in done.said if task.check(turn.worker, turn.answer)} for done in report.rounds]
    finished = [next((at for at, there in enumerate(right, 1) if name in there), None) for name in task.names]
    return SystemRun(tuple(finished), model.read, sum(len(done.graph.edges) for done in report.rounds), report)


async def run_systems(given: SplitParameters, seed: int, number: int) -> dict[str, SystemRun]:
    """All systems on a task."""
    task, scope = make_task(given, seed, number), Scope(seed=seed, task=f"t{number}", phase="test")
    run = partial(run_task, task, given, scope, embedder=HashingEmbedder())
    unread = given.replace(budget=given.length * given.agents)
    done = {MAIN: await run(), ORACLE: await run(embedder=KnowingEmbedder(task))}
    done |= {f"{MAIN}, tau = {tau}": await run(threshold=tau) for tau in TAUS}
    first = done[MAIN].report.rounds[0].graph
    ring = {name: (task.names[at - 1],) for at, name in enumerate(task.names)}
    return done | {
        DEAF: await run(listens=False),
        KEPT: await run(providers={name: first.providers(name) for name in task.names}),
        RANDOM: await run(topology="random"),
        BROADCAST: await run(topology="broadcast"),
        f"{BROADCAST}, all is read": await run_task(task, unread, scope, topology="broadcast"),
        RING: await run(providers=ring),
        SINGLE: await run(rounds=1, topology="none", manager=False),
    }


async def run_seed(given: SplitParameters, seed: int) -> WorldResult:
    """All systems on all tasks of a seed."""
    trials = [await run_systems(given, seed, number) for number in range(given.tasks)]
    figures = {name: summarise([trial[name] for trial in trials], given.rounds) for name in trials[0]}
    best = max(
        (name for name in figures if name.startswith(MAIN) and ("tau" in name or name == MAIN)),
        key=lambda name: figures[name]["parts"],
    )
    return WorldResult(seed=seed, figures=figures | {BEST: figures[best]})


def summarise(trials: Sequence[SystemRun], rounds: int) -> dict[str, float]:
    """Shares of parts and of whole tasks that are finished, by round; words read and edges per task."""
    last = [[rounds + 1 if at is None else at for at in trial.finished] for trial in trials]
    by_round = {at: compute_mean([sum(end <= at for end in ends) / len(ends) for ends in last]) for at in CHECKPOINTS}
    return {
        "parts": compute_mean([sum(end <= rounds for end in ends) / len(ends) for ends in last]),
        "tasks": compute_mean([float(max(ends) <= rounds) for ends in last]),
        "tokens": compute_mean([trial.read for trial in trials]),
        "edges": compute_mean([trial.edges / len(trial.report.rounds) for trial in trials]),
        **{f"parts by round {at}": share for at, share in by_round.items()},
    }


def list_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    """Progress of parts and tasks, round by round."""
    return (
        *(mean_column(results, f"parts by round {at}", ".2f") for at in CHECKPOINTS),
        mean_column(results, "parts", ".2f", "parts in the end"),
        mean_column(results, "tasks", ".2f", "whole tasks"),
        mean_column(results, "edges", ".1f", "edges per round"),
    )


SCALE = Scale("parts", least=RANDOM, most=ORACLE, main=MAIN)
CLAIMS = (
    SCALE.claim("matching", RANDOM),
    SCALE.claim("matching, at equal tokens", BROADCAST),
    SCALE.claim("matching, against a fixed graph", RING),
    SCALE.claim("a graph of its own for every round", KEPT),
    SCALE.claim("public needs (D12)", DEAF),
    SCALE.claim("a tau that fits the embedder", MAIN, main=BEST),
)
STUDY = SplitParameters()
WORLD = World(STUDY, run_seed, SCALE, CLAIMS, columns=list_columns)
