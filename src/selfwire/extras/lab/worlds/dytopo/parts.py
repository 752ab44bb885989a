"""A task whose facts are split over agents, and scripted agents that work on it; no language model acts in it.

Every agent holds facts of its own and has a part of the task, which needs facts of others; some parts also need the
result of another part, which is there only once that part is finished. A fact has words of its own; an agent that
names it picks some of them anew and mixes them with words that mean nothing. Agents know which fact is meant; an
embedder sees words. In a round an agent asks for one fact and hands over one, and it can read only so many words.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.evolvers.dytopo.schemas import Halting, Turn

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
