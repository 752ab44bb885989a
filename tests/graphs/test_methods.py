"""What holds for every method, whatever it learns; a new one is tested as soon as it has a class."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from pydantic import PrivateAttr

from selfwire.core.errors import BudgetError, ConfigError
from selfwire.core.plugins import method_names
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget, sum_usages
from selfwire.core.values import fingerprint, to_plain_json
from selfwire.evals.benchmarks.archive import archive
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.wire import requested_schema
from selfwire.graphs.machine import MOST_STEPS, Ctx
from selfwire.graphs.method import EvolveResult, Method, find_method, make_method
from selfwire.graphs.rollouts import RolloutContext, collect_rollouts, grade_trajectory
from selfwire.graphs.team import LENIENT
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredChat, MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import Journal
from selfwire.tools.own import JournalledTools
from tests.asks import Hanging, killed
from tests.wire.server import WireServer, served

ARCHIVE = archive(size=60)
TASKS = ARCHIVE.splits(0, train=3, gate=0, test=0).train
PLAIN = Question(id="plain", input="Who am I?")
QUICK: dict[str, dict[str, Any]] = {
    "tacomas": {"rounds": 3, "lessons": True},
    "dytopo": {"rounds": 3},
    "gepa": {"team": "single", "calls": 20},
    "aflow": {"calls": 20},
}
"""Config fields that make a method's runs short, or let it learn at all; none is needed."""

pytestmark = pytest.mark.parametrize("name", method_names())


class ProviderError(Exception):
    """A refusal, as a provider's client raises it."""

    status_code = 400


class CountingChat(OfflineChat):
    """The stand-in, with a count of what it was asked; it is down where `down`."""

    down: bool = False
    _asked: list[int] = PrivateAttr(default_factory=list)

    def _reply(self, *args: Any, **kwargs: Any) -> AIMessage:
        self._asked.append(1)
        if self.down:
            raise ProviderError("the provider is down")
        return super()._reply(*args, **kwargs)


class GarblingChat(CountingChat):
    """Gives no valid object for a share of the asks, and nothing at all for a share of all calls."""

    garbage: int = 1
    empty: int = 0

    def _reply(self, messages: Any, stop: Any, kwargs: Any) -> AIMessage:
        said = super()._reply(messages, stop, kwargs)
        place = int(fingerprint([str(message.content) for message in messages]), 16)
        if self.empty and place % self.empty == 0:
            return said.model_copy(update={"content": "", "tool_calls": []})
        if requested_schema(kwargs) is not None and place % self.garbage == 0:
            return said.model_copy(update={"content": "Certainly! Here it is.", "tool_calls": []})
        return said


GARBLING = {"always": GarblingChat(), "now-and-then": GarblingChat(garbage=3, empty=11)}


@dataclass(frozen=True)
class Bench:
    """A method with a model that counts, a journal and a budget."""

    name: str
    chat: CountingChat = field(default_factory=CountingChat)
    journal: Journal = field(default_factory=Journal.memory)
    budget: Budget = field(default_factory=Budget)
    seed_number: int = 0
    fields: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rollout_context(self) -> RolloutContext:
        endless = Ledger(Budget())  # what is stopped is stopped in the midst of its calls
        return RolloutContext(
            ARCHIVE.environment, self.journal, endless, concurrency=2, calls_per_task=1, keep_errors_below=1.0
        )

    @cached_property
    def method(self) -> Method[Any]:
        return make_method(self.name, {**QUICK.get(self.name, {}), **self.fields})

    @cached_property
    def ctx(self) -> Ctx[Any]:
        ledger = Ledger(self.budget, spent=self.journal.spend())
        model = MeteredModel(self.chat, journal=self.journal, ledger=ledger, policy=CallSettings(retries=0))
        tools = JournalledTools(ARCHIVE.toolbox, self.journal)
        return self.method.make_ctx(model, tools, HashingEmbedder())

    @property
    def start(self) -> Team:
        return self.seed(ARCHIVE.tools)

    def seed(self, tools: Sequence[str] = ()) -> Team:
        return self.method.seed(tools, toolbox=tuple(self.ctx.tools))

    @property
    def asked(self) -> int:
        return len(self.chat._asked)

    async def explored(self, tasks: Sequence[Task] = TASKS) -> list[Trajectory]:
        return await collect_rollouts(self.rollout_context, self.method.explore, self.start, tasks, self.at("rollout"))

    async def evolved(self, found: Sequence[Trajectory]) -> EvolveResult:
        tasks = {task.id: task for task in TASKS}

        async def grade(done: Trajectory, at: Scope) -> Trajectory:
            return await grade_trajectory(self.rollout_context, tasks[done.question.id], done, at)

        return await self.method.propose(self.start, found, replace(self.at("evolve"), grade_run=grade))

    async def iteration(self) -> str:
        """One whole iteration, as text to compare: what ran, what was graded, what became of the team."""
        found = await self.explored()
        evolved = await self.evolved(found)
        return compared([*found, evolved, evolved.workflow.fingerprint])

    def at(self, phase: str) -> Ctx[Any]:
        return self.ctx.where(run="r", seed=self.seed_number, phase=phase)


def compared(values: Sequence[Any]) -> str:
    """Values as text, without how long anything took."""
    bodies = [value if isinstance(value, str) else value.model_dump(mode="json") for value in values]
    return re.sub(r'"seconds": [^,}]+', '"seconds": 0', json.dumps(bodies, indent=0, sort_keys=True))


async def test_the_seed_workflow_is_valid_and_round_trips(name: str) -> None:
    made = Bench(name)
    for tools in ((), ARCHIVE.tools):
        seed = made.seed(tools)
        assert seed.method == made.method.name == name
        assert seed.lineage.parent is None
        assert seed.topology.problems(LENIENT) == ()
        assert {tool for agent in seed.agents for tool in agent.tools} <= set(ARCHIVE.toolbox if tools else ())
        assert Team.model_validate_json(seed.model_dump_json()) == seed
        assert made.method.adapt(seed).fingerprint == seed.fingerprint


def test_no_question_can_take_more_steps_than_a_figure_may(name: str) -> None:
    method = find_method(name)
    bounds = method.config_type.model_fields[method.rounds].metadata if method.rounds else ()
    most = max((bound.le for bound in bounds if hasattr(bound, "le")), default=1)
    assert len(method.figure.steps) * (most + 1) <= MOST_STEPS


async def test_a_seed_holds_nothing_that_its_toolbox_lacks_though_tools_are_wrapped_before_a_run(name: str) -> None:
    seed = make_method(name).seed(("search",), toolbox=("search",))
    assert {tool for agent in seed.agents for tool in agent.tools} <= {"search"}


async def test_a_plain_question_is_answered_without_labels(name: str) -> None:
    made = Bench(name)
    done = await made.method.answer(made.seed(), PLAIN, made.at("run"))
    assert done.error is None
    assert done.answer
    assert done.feedback is None
    assert done.workflow == made.seed().fingerprint
    assert done.usage.calls == made.asked > 0
    assert Trajectory.model_validate_json(done.model_dump_json()) == done


async def test_what_evolves_is_a_valid_workflow_whose_parent_is_recorded(name: str) -> None:
    made = Bench(name)
    found = await made.explored()
    assert {done.question.id for done in found} == {task.id for task in TASKS}
    assert all(done.feedback is not None for done in found)
    evolved, seed = await made.evolved(found), made.start
    now = evolved.workflow
    assert now.topology.problems(LENIENT) == ()
    assert Team.model_validate_json(now.model_dump_json()) == now
    assert made.method.adapt(now).fingerprint == now.fingerprint
    if now.fingerprint != seed.fingerprint:
        assert now.lineage.parent == seed.fingerprint
    assert json.loads(evolved.model_dump_json())["notes"] == to_plain_json(evolved.notes)
    again = await made.method.answer(now, TASKS[0].question, made.at("gate"))
    assert again.workflow == now.fingerprint
    assert again.answer is not None


async def test_what_is_rejected_leaves_the_team_and_what_is_pruned_is_legal(name: str) -> None:
    made = Bench(name)
    evolved = (await made.evolved(await made.explored())).workflow
    kept = made.method.keep_memory(made.start, await made.method.fit(evolved, (), made.ctx))
    assert (kept.agents, kept.topology) == (made.start.agents, made.start.topology)
    if (removal := made.method.propose_pruning(evolved, {})) is not None:
        assert evolved.apply(removal).topology.problems(LENIENT) == ()


@pytest.mark.slow
async def test_the_same_seed_gives_the_same_trajectories(name: str) -> None:
    first, second = await Bench(name).iteration(), await Bench(name).iteration()
    assert first == second


@pytest.mark.slow
async def test_it_goes_on_after_a_stop_and_sends_no_request_twice(name: str) -> None:
    whole = Bench(name)
    expected = await whole.iteration()
    for share in (0.3, 0.8):
        first = Bench(name, budget=Budget(calls=int(share * whole.journal.spend().calls)))
        with pytest.raises(BudgetError):
            await first.iteration()
        lost, _ = first.journal.count_unsettled()
        assert 0 < first.asked < whole.asked
        second = Bench(name, journal=first.journal)
        assert await second.iteration() == expected
        assert whole.asked <= first.asked + second.asked <= whole.asked + lost
    replayed = Bench(name, journal=whole.journal)
    assert await replayed.iteration() == expected
    assert replayed.asked == 0


async def test_a_stop_leaves_nothing_behind_that_sends_further_requests(name: str) -> None:
    for calls in (2, 5, 9):
        with pytest.raises(BudgetError):
            await Bench(name, budget=Budget(calls=calls)).iteration()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_config_field_that_cannot_be_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"config of {name}: nonsense: .*; fields are ") as complaint:
        make_method(name, {"nonsense": 1})
    for name_in_config in str(complaint.value).partition("fields are ")[2].split(", "):
        outer, _, inner = name_in_config.partition(".")
        with pytest.raises(ConfigError, match=f"config of {name}: {re.escape(name_in_config)}"):
            make_method(name, {outer: {inner: {"no": "such"}} if inner else {"no": "such"}})


@pytest.mark.parametrize("garbling", GARBLING)
async def test_what_asks_cost_in_vain_is_told_as_it_stands_in_the_journal(name: str, garbling: str) -> None:
    made = Bench(name, chat=GARBLING[garbling].model_copy())
    for task in TASKS:
        told = sum_usages(one.usage for one in await made.explored([task]))
        booked = await made.journal.spend_at(task=task.id)
        assert (told.calls, told.tokens) == (booked.calls, booked.tokens)
        assert told.calls > 0


@pytest.mark.parametrize("garbling", GARBLING)
async def test_what_learning_costs_in_vain_is_told_too(
    name: str, garbling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_as = {"hiva": "meta", "hera": "learning"}
    if name not in told_as:
        pytest.skip("nothing that learns between questions calls a model here")
    found = await Bench(name).explored()
    without = {"mutation": False} if name == "hera" else {}  # mutated teams are runs, not learning
    monkeypatch.setattr(MeteredChat, "is_deterministic", lambda *_: False)  # else paid once, told twice
    made = Bench(name, chat=GARBLING[garbling].model_copy(), fields=without)
    notes = (await made.evolved(found)).notes[told_as[name]]
    assert notes == {"calls": made.journal.spend().calls, "tokens": made.journal.spend().tokens}
    assert notes["calls"] > 0


async def test_a_failing_model_ends_as_an_error_and_teaches_nothing(name: str) -> None:
    made = Bench(name, chat=CountingChat(down=True))
    found = await made.explored()
    assert made.asked > 0
    for done in found:
        assert "the provider is down" in (done.error or "")
        assert done.answer is None
        assert done.feedback is None
    assert (await made.evolved(found)).workflow.fingerprint == made.start.fingerprint


HANGING = {
    "hiva": ("You give the team's final answer", 1),
    "hera": ("You are the conclude agent", 1),
    "tacomas": ("You give the team's final answer", 3),  # four others have answered in that round
    "dytopo": ("You lead a team", 2),  # all workers of that round have
    "evomas": ("You review the work of a team", 2),  # the agents of that stage have
    "gepa": ("You improve an answer", 2),
    "aflow": ("You give the final answer of a team", 1),
}
"""The agent that waits when its process is killed, by the beginning of its prompt, and in which of its turns."""


@pytest.mark.slow
def test_after_kill_9_no_agent_that_has_answered_is_asked_again(name: str, tmp_path: Path) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        done = killed(name, Hanging(*HANGING[name]), tmp_path, server)
    whole, resumed = json.loads(done.whole), json.loads(done.resumed)
    assert resumed == whole  # answer, rounds and calls
    assert done.asked == done.requests + 1  # what was in flight
