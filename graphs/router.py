"""The trained router in graphs: a conditional edge, a routed team, and its training.

It chooses among a node's successors. In a team its state is the question, the deciding agent and its answer; the agents
to choose from are the successors' agents. A router cannot await, so a node's answer is embedded right after the agent's
turn. An edge to the sink always carries. A new agent of the team can be chosen at once, as the head reads agents'
texts; for the same reason, weights of another team can be used as they are.
"""

import asyncio
import contextlib
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.runtime import get_runtime

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, TaskError
from selfwire.core.protocols import AgentRunner, Embedder, Router, RouterInput, Tool
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.usage import Budget
from selfwire.core.values import fingerprint, is_id
from selfwire.evolvers.router.batch import Vectors, embed_pool, embed_texts, pad_rows, row_texts
from selfwire.evolvers.router.choosers import PURPOSE, LearnedChooser, draw_layers, to_layered_workflow
from selfwire.evolvers.router.config import HeadConfig, RouterConfig, SamplingConfig, TrainConfig
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow, to_router_episode
from selfwire.evolvers.router.probing import probe_router
from selfwire.evolvers.router.reinforce import Update, update_router
from selfwire.evolvers.router.weights import (
    load_head,
    load_weights,
    read_weights,
    refuse_other_pool,
    with_weights,
    write_atomically,
)
from selfwire.graphs.build import load_embedder_beside
from selfwire.graphs.machine import Ctx, new_question
from selfwire.graphs.rollouts import RolloutContext, RolloutFn, collect_rollouts
from selfwire.graphs.team import TeamContext, compile_team, run_team
from selfwire.models.budget import Ledger, parse_budget
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.nodes.agent import make_agent_runner
from selfwire.store.files import find_blob, read_team
from selfwire.store.journal import NullRecorder
from selfwire.tools.own import add_own_tools, refuse_missing_tools
from selfwire.tools.ready import make_toolbox

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead


SAMPLING = SamplingConfig(layers=1, width=2)
"""A single layer at most two wide: the successors of a node."""
SINGLE = SAMPLING.replace(width=1)
"""Draws a single successor, so that rewards tell the successors apart."""
SHOWN = 600
"""Characters of an answer that the router reads."""
KEPT_RUNS = 10_000
"""Runs of a `LearnedRouter` whose choices are kept; the longest unused go first."""

Describe = Callable[[Any], str | Sequence[str]]
"""The texts of a state that the router reads."""


@dataclass(frozen=True)
class LearnedRouting:
    """A router for one run of a team, and the runner that embeds its agents' answers for the router."""

    router: Router
    act: AgentRunner


async def make_learned_router(
    team: Team,
    question: Question,
    act: AgentRunner,
    embedder: Embedder,
    *,
    sampling: SamplingConfig = SAMPLING,
    untrained: HeadConfig = HeadConfig(),
) -> LearnedRouting:
    """Make the router of a workflow for one run on one question.

    Args:
        embedder: of the weights' training.
        untrained: config of the head if there are no weights.

    Raises:
        ConfigError, LibraryError: the weights cannot be used or have not been loaded.
    """
    head = await load_head(team, untrained, embedder, transfer=True)
    rows = [text for agent in team.agents for text in to_state_rows(question, agent, "")]
    vectors = await embed_texts(row_texts(rows, head.config), embedder)
    agents = dict(zip(team.agents_by_id, await embed_pool(team.agents, embedder), strict=True))

    async def act_and_embed(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        step = await act(agent, question, inbox, scope=scope)
        vectors.update(await embed_texts(row_texts(to_state_rows(question, agent, step.output), head.config), embedder))
        return step

    return LearnedRouting(_make_router(team, head, vectors, agents, sampling), act_and_embed)


def to_state_rows(question: Question, agent: Agent, output: str) -> tuple[str, ...]:
    """The rows that the router reads after an agent's turn."""
    answered = " ".join(output.split())[:SHOWN]
    rows = (f"Question: {question.input}", f"Deciding: {agent.role or agent.id}")
    return (*rows, f"Answer so far: {answered}") if answered else rows


def list_arms(team: Team, successors: Sequence[str]) -> dict[str, list[str]]:
    """Nodes to choose from by agent, without the sink; an agent with several nodes is chosen for all of them."""
    found: dict[str, list[str]] = {}
    for node in successors:
        if node != team.topology.sink:
            found.setdefault(team.topology.agents[node], []).append(node)
    return found


def list_branches(team: Team) -> bool:
    """Whether any node of the team gives its router a choice."""
    return any(len(list_arms(team, successors)) > 1 for successors in team.topology.successors.values())


def to_team_episode(done: Trajectory, team: Team) -> Episode | None:
    """The episode of a run for its router: a decision per node with a choice; None without any."""
    found = to_team_decisions(done, team)
    return Episode(decisions=tuple(found.values())) if found else None


def to_team_decisions(done: Trajectory, team: Team) -> dict[str, Decision]:
    """The decisions of a run's router by node, for nodes with a choice."""
    found = {}
    for step in done.steps:
        choices = list_arms(team, team.topology.successors.get(step.node, ()))
        if step.routing is None or len(choices) < 2:
            continue
        nodes = team.topology.agents
        drawn = dict.fromkeys(nodes[node] for node in step.routing.chosen if node != team.topology.sink)
        rows = to_state_rows(done.question, team.agents_by_id[step.agent], step.output)
        layered = LayeredWorkflow(layers=(tuple(drawn),))
        found[step.node] = Decision(rows=rows, agents=tuple(choices), layered=layered)
    return found


def _make_router(
    team: Team,
    head: "RoutingHead",
    vectors: Mapping[str, Vectors],
    agents: Mapping[str, Vectors],
    sampling: SamplingConfig,
) -> Router:
    def route(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        choices, sinks = list_arms(team, successors), tuple(node for node in successors if node == known.sink)
        if len(choices) < 2:
            return Routing(chosen=successors, why="there is nothing to choose", free=False)
        texts = row_texts(to_state_rows(known.question, team.agent_at(node), known.output), head.config)
        drawn = draw_layers(
            head,
            pad_rows([texts], vectors),
            np.stack([agents[name] for name in choices]),
            sampling=sampling,
            random=known.scope.at(node=node).random(PURPOSE),
        )
        picked = to_layered_workflow(drawn, [team.agents_by_id[name] for name in choices])
        chosen = tuple(node for name in picked.layers[0] for node in choices[name])
        scores = {node: round(p, 6) for name, p in picked.probabilities[0].items() for node in choices[name]}
        why = f"trained router, drawn to {sampling.mass:g}"
        return Routing(chosen=(*chosen, *sinks), scores=scores, why=why, free=True)

    return route


class RewardedRouter:
    """Rewards, updates and weights in a file: the part that `RoutedTeam` and `LearnedRouter` share.

    Args:
        workflow: its agents are those to choose from; its memory may hold weights.
        sampling: how agents are drawn.

    Raises:
        ConfigError, LibraryError: the workflow's weights cannot be used.
    """

    def __init__(self, team: Team, embedder: Embedder, sampling: SamplingConfig) -> None:
        self.embedder = embedder
        self.config = RouterConfig(sampling=sampling, transfer=True)
        self._workflow, self._weights = team, load_weights(team)
        self._rewarded: list[Episode] = []
        self._updating = threading.Lock()

    @property
    def workflow(self) -> Team:
        """The workflow with the weights of the last update, to be saved in a library or given to another team."""
        if self._weights is not None and find_blob(self._workflow.memory["router"]["weights"]) is None:
            with_weights(self._workflow, self._weights)  # others pushed the bytes out of this process
        return self._workflow

    def learn(self, train: TrainConfig = TrainConfig()) -> Update:
        """Update the weights by all runs that were rewarded since the last update; see `alearn`."""
        return run_sync(self.alearn(train))

    async def alearn(self, train: TrainConfig = TrainConfig()) -> Update:
        """Update the weights by all runs that were rewarded since the last update.

        A run counts by how much better its reward is than the mean of the others: where all are equal, and with a
        single one, nothing changes, and `skipped` of the update is true.

        Args:
            train: how the update is made.

        Raises:
            ConfigError: no run was rewarded, or another update is under way.
        """
        if not self._updating.acquire(blocking=False):
            raise ConfigError("another update is under way; wait for it before the next learn()")
        try:
            episodes = tuple(self._rewarded)
            if not episodes:
                raise ConfigError("there is nothing to learn from; reward a few runs first, then call learn()")
            self._workflow, self._weights, update = await update_router(
                self.workflow, episodes, self.config, train, self.embedder
            )
            del self._rewarded[: len(episodes)]
            return update
        finally:
            self._updating.release()

    def save(self, path: str | Path) -> None:
        """Write the weights to a safetensors file, with what the next update needs.

        Raises:
            ConfigError: there are none yet, or the file cannot be written.
        """
        if self._weights is None:
            raise ConfigError("there are no weights to save before the first learn()")
        write_atomically(Path(path), self._weights.packed)

    def load(self, path: str | Path) -> None:
        """Take the weights of a file; they may have been trained for other agents.

        Raises:
            ConfigError: they cannot be read, or belong to another embedder.
        """
        weights = read_weights(Path(path))
        refuse_other_pool(weights.card, self._workflow.agents, self.embedder.name, transfer=True)
        self._workflow, self._weights = with_weights(self._workflow, weights), weights

    def _add_reward(self, episode: Episode, reward: float | None) -> None:
        self._rewarded.append(episode.replace(reward=reward))


def check_reward(score: Any) -> float:
    """A reward as a number.

    Raises:
        ValueError: it is none, or not in [0, 1].
    """
    try:
        reward = float(score)
    except (TypeError, ValueError):
        reward = math.nan
    if not 0 <= reward <= 1:
        raise ValueError(f"a reward is a number in [0, 1], 1 for the best, not {score!r}")
    return reward


_LAST: ContextVar["tuple[RoutedTeam, Trajectory] | None"] = ContextVar("last", default=None)
"""The last answer of the current thread or asyncio task."""


class RoutedTeamOptions(TypedDict, total=False):
    """Options of `RoutedTeam`, all of which may be left out.

    Attributes:
        embedder: auto, minilm or hashing as for `load_embedder`, or a ready one; auto is hashing beside the offline
            model.
        budget: of all questions together.
        models: that agents may ask instead, by the names that `Agent.model` has for them.
    """

    embedder: str | Embedder
    budget: Budget | Mapping[str, float] | None
    models: Mapping[str, str | BaseChatModel]


class RoutedTeam(RewardedRouter):
    """A team whose trained router chooses the agents that hear each answer next.

    Equal seeds give equal choices, if questions are asked in the same order.

    Args:
        team: with at least one agent that has two successors; a workflow, or the path of an exported one.
        model: of the agents; a name as for `make_chat_model`, or a ready model.
        tools: for agents that hold tools.
        seed: of everything drawn.
        sampling: how successors are drawn; by default a single one.
        options: `RoutedTeamOptions`.

    Raises:
        ConfigError, LibraryError, TopologyError: the team, its weights, a model or a tool cannot be used.
    """

    def __init__(
        self,
        team: Team | str | Path,
        model: str | BaseChatModel = "offline",
        *,
        tools: Sequence[BaseTool | Tool] = (),
        seed: int = 0,
        sampling: SamplingConfig = SINGLE,
        **options: Unpack[RoutedTeamOptions],
    ) -> None:
        workflow = team if isinstance(team, Team) else read_team(Path(team))
        compile_team(workflow.topology)
        if not list_branches(workflow):
            raise ConfigError("no agent of this team has two successors to choose from; give a team that branches")
        chat = make_chat_model(model)
        super().__init__(workflow, load_embedder_beside(options.get("embedder", "auto"), chat), sampling)
        self.seed, self.toolbox = seed, make_toolbox(tools)
        refuse_missing_tools(workflow, self.toolbox)
        named = {name: make_chat_model(given) for name, given in options.get("models", {}).items()}
        ledger, labels = Ledger(parse_budget(options.get("budget"))), {"method": workflow.method}
        self.model = MeteredModel(chat, named=named, journal=NullRecorder(), ledger=ledger, labels=labels)
        self.model.refuse_unnamed(workflow.agents)
        self._asked = itertools.count()

    def ask(self, question: str | Question, config: RunnableConfig | None = None) -> Trajectory:
        """Put a question to the team; see `aask`."""
        done = run_sync(self._solve(question, config))
        _LAST.set((self, done))
        return done

    async def aask(self, question: str | Question, config: RunnableConfig | None = None) -> Trajectory:
        """Put a question to the team.

        Args:
            config: LangChain's, such as callbacks and tags.

        Returns:
            The run: its `answer`, and the `steps` with who was chosen, at which probability.

        Raises:
            TaskError: there is no answer.
            BudgetError: the budget is used up.
        """
        done = await self._solve(question, config)
        _LAST.set((self, done))
        return done

    def reward(self, score: float, run: Trajectory | None = None) -> None:
        """Reward a run; the next `learn` uses it. A run without a choice teaches nothing.

        Args:
            score: in [0, 1].
            run: what `ask` gave; by default the last run that this thread or asyncio task asked for.

        Raises:
            ConfigError: nothing was asked here since the last reward.
            ValueError: the score is not in [0, 1], or the run is of another team.
        """
        reward, last = check_reward(score), _LAST.get()
        if run is None:
            if last is None or last[0] is not self:
                raise ConfigError(
                    "no answer waits for a reward here; ask first, or say whose reward it is: reward(score, run) with "
                    "the run that ask() returned"
                )
            run = last[1]
        if episode := to_team_episode(self._check_run(run), self._workflow):
            failed = any(step.error for step in run.steps)  # the agents that were drawn are not those that ran
            self._add_reward(episode, None if failed else reward)
        if last is not None and last[1] is run:
            _LAST.set(None)

    def probabilities(self, run: Trajectory) -> dict[str, dict[str, float]]:
        """Probabilities of the router in the states of a run, with its current weights; see `aprobabilities`."""
        return run_sync(self.aprobabilities(run))

    async def aprobabilities(self, run: Trajectory) -> dict[str, dict[str, float]]:
        """Probabilities of the router in the states of a run, with its current weights.

        Returns:
            By node that had a choice, the probability of each agent to be drawn first.
        """
        decisions = to_team_decisions(self._check_run(run), self._workflow)
        if not decisions:
            return {}
        found = await probe_router(self.workflow, tuple(decisions.values()), self.config, self.embedder)
        return {node: dict(selection.probabilities) for node, selection in zip(decisions, found, strict=True)}

    async def _solve(self, question: str | Question, config: RunnableConfig | None) -> Trajectory:
        asked = question if isinstance(question, Question) else new_question({"question": question})
        scope, team = Scope(seed=self.seed, task=asked.id, sample=next(self._asked)), self.workflow
        tools = add_own_tools(self.toolbox, team) if team.tools else self.toolbox
        act = make_agent_runner(self.model, tools)
        routing = await make_learned_router(
            team, asked, act, self.embedder, sampling=self.config.sampling, untrained=self.config.head
        )
        run = TeamContext.of(team, asked, scope, routing.act, router=routing.router)
        done = await run_team(team.topology, run, config=config)
        if done.answer is None:
            raise TaskError(f"{done.error}; ask again")
        return done

    def _check_run(self, run: Trajectory) -> Trajectory:
        strangers = sorted({step.node for step in run.steps} - set(self._workflow.topology.agents))
        if strangers:
            raise ValueError(f"the run is of another team: this one has no {', '.join(strangers)}")
        return run


def describe_state(state: Any) -> list[str]:
    """The text fields of a state, one text each; of a list of messages the last one."""
    fields = state if isinstance(state, Mapping) else vars(state)
    texts = {name: _read_text(value) for name, value in fields.items()}
    return [f"{name}: {text}" for name, text in texts.items() if text.strip()]


def _read_text(value: Any) -> str:
    last = value[-1] if isinstance(value, list | tuple) and value else value
    if isinstance(last, BaseMessage):
        return last.text
    return str(value) if isinstance(value, str | int | float) else ""


@dataclass
class _RunChoices:
    """The choices of a run since its last reward, and how many it ever made, which keys what is drawn."""

    waiting: list[Decision] = field(default_factory=list)
    made: int = 0


class LearnedRouter(RewardedRouter):
    """Chooses one of a node's successors.

    `graph.add_conditional_edges("triage", router.choose, router.successors)` asks it. Choices are kept by the
    `thread_id` or `run_id` of the run's config, so that concurrent runs do not mix; without either they are made but
    not kept. LangGraph hides the `run_id` from subgraphs. Equal seeds give equal choices to runs of equal names.

    Args:
        successors: names of the nodes to choose from, at best with a text that says what each is for: the router
            reads these texts.
        describe: a state's text, or several; by default its fields with text.
        embedder: auto, minilm or hashing as for `load_embedder`, or a ready one.
        seed: of everything drawn.
        softness: the temperature of the softmax over cosines.

    Raises:
        ConfigError: there are not two different successors, or there is no such embedder.
    """

    def __init__(
        self,
        successors: Sequence[str] | Mapping[str, str],
        describe: Describe = describe_state,
        *,
        embedder: str | Embedder = "auto",
        seed: int = 0,
        softness: float = 0.1,
    ) -> None:
        texts = dict(successors) if isinstance(successors, Mapping) else dict.fromkeys(successors, "")
        if isinstance(successors, str) or len(texts) < 2 or len(texts) < len(successors):
            raise ConfigError(f"a router needs two or more different successors to choose from, not {successors!r}")
        names = {name if is_id(name) else fingerprint(name): name for name in texts}  # END is no id
        agents = [Agent(id=agent, role=name, prompt=texts[name]) for agent, name in names.items()]
        team = Team(method="router", agents=tuple(agents), topology=make_chain(*names))
        sampling = SamplingConfig(layers=1, width=1, softness=softness)
        super().__init__(team, load_embedder_beside(embedder), sampling)
        self.describe, self.seed = describe, seed
        self.successors = list(texts)
        self._names, self._runs, self._lock = names, OrderedDict[str, _RunChoices](), threading.Lock()

    def choose(self, state: Any, config: RunnableConfig | None = None) -> str:
        """The successor that runs next; see `achoose`."""
        return run_sync(self._choose(state, _find_run(config)))

    async def achoose(self, state: Any, config: RunnableConfig | None = None) -> str:
        """The successor that runs next, drawn by the router's probabilities.

        Args:
            config: the run's, as LangGraph passes it.

        Raises:
            ConfigError: the state has no text.
        """
        return await self._choose(state, _find_run(config))

    def reward(self, score: float, run: RunnableConfig | str | None = None) -> None:
        """Reward a run: all choices that it made since its last reward; the next `learn` uses them.

        Args:
            score: in [0, 1].
            run: the config that it was invoked with, or its `thread_id` or `run_id`; by default the only run that
                waits for a reward.

        Raises:
            ConfigError: no choice of the run waits for a reward, or several runs do and none is named.
            ValueError: the score is not in [0, 1].
        """
        reward = check_reward(score)
        name = run if isinstance(run, str) else _find_run(run) if run is not None else None
        with self._lock:
            if name is None:
                name = self._find_waiting()
            made = self._runs.get(name)
            if made is None or not made.waiting:
                raise ConfigError(
                    f"no choice of run {name!r} waits for a reward; a run is known by the thread_id or run_id of the "
                    'config that it was invoked with, as in {"configurable": {"thread_id": "1"}}'
                )
            self._add_reward(Episode(decisions=tuple(made.waiting)), reward)
            made.waiting = []

    def probabilities(self, state: Any) -> dict[str, float]:
        """The probability of each successor in a state; see `aprobabilities`."""
        return run_sync(self.aprobabilities(state))

    async def aprobabilities(self, state: Any) -> dict[str, float]:
        """The probability of each successor in a state, with the current weights; nothing is chosen or kept."""
        layered = await self._draw(self._read_rows(state), Scope())
        shares = {self._names[agent]: share for agent, share in layered.probabilities[0].items()}
        return {name: shares[name] for name in self.successors}

    async def _choose(self, state: Any, name: str) -> str:
        rows = self._read_rows(state)
        with self._lock:
            made = self._runs.setdefault(name, _RunChoices())
            self._runs.move_to_end(name)
            number, made.made = made.made, made.made + 1
            while len(self._runs) > KEPT_RUNS:
                self._runs.popitem(last=False)
        layered = await self._draw(rows, Scope(seed=self.seed, task=name, visit=number))
        if name:
            with self._lock:
                made.waiting.append(Decision(rows=rows, agents=tuple(self._names), layered=layered))
        return self._names[layered.layers[0][0]]

    async def _draw(self, rows: tuple[str, ...], scope: Scope) -> LayeredWorkflow:
        team = self.workflow
        head = await load_head(team, self.config.head, self.embedder, transfer=True)
        chooser = LearnedChooser(head, self.config.sampling, self.embedder)
        return await chooser(rows, team.agents, scope=scope)

    def _read_rows(self, state: Any) -> tuple[str, ...]:
        found = self.describe(state)
        texts = [found] if isinstance(found, str) else found
        rows = tuple(row for text in texts if (row := " ".join(text.split())[:SHOWN]))
        if not rows:
            raise ConfigError(
                f"the router finds no text in the state {state!r:.200}; pass it describe=, which returns some"
            )
        return rows

    def _find_waiting(self) -> str:
        waiting = [name for name, made in self._runs.items() if made.waiting]
        if len(waiting) == 1:
            return waiting[0]
        if not waiting:
            raise ConfigError(
                "no choice waits for a reward; invoke the graph first, with a config that names the run, as in "
                '{"configurable": {"thread_id": "1"}}'
            )
        raise ConfigError(f"{len(waiting)} runs wait for a reward; say whose it is: reward(score, config)")


def _find_run(config: RunnableConfig | None) -> str:
    """The name of a run: its `run_id`, else its `thread_id`, else ""."""
    given = config or {}
    run = given.get("run_id")  # LangGraph does not pass it on to nodes
    with contextlib.suppress(RuntimeError):  # not in a graph
        run = run or getattr(getattr(get_runtime(), "execution_info", None), "run_id", None)
    return str(run or given.get("configurable", {}).get("thread_id") or "")


PHASE = "train"
UPDATE = "update"
"""Prefix of the journal's notes of updates: `update/1`, `update/2`, ..."""

Save = Callable[[Team, int], Awaitable[None]]
"""Saves a version of the workflow after an update."""


@dataclass(frozen=True)
class Training:
    """A router training.

    Attributes:
        seed: of everything drawn.
        rollout_context: runs and grades episodes, through the journal.
        rollout_fn: runs a question several times; its trajectories note the router's decisions.
        ctx: of the method; its embedder makes the vectors that the router reads.
        state: file of the weights after the last update, optimiser and all.
        save: called after every `checkpoint_every` updates and after the last.
    """

    run: str
    seed: int
    rollout_context: RolloutContext
    rollout_fn: RolloutFn
    ctx: Ctx[Any]
    tasks: Sequence[Task]
    config: RouterConfig
    train: TrainConfig
    state: Path
    save: Save

    async def execute(self, team: Team, on_update: Callable[[Update], None] = lambda update: None) -> Team:
        """Train, or continue the training of the state file.

        A kill loses at most one update, whose calls are replayed from the journal, so the weights come out the same.

        Args:
            team: to start from, the same one when it continues; it may be trained already.

        Returns:
            The workflow with its trained weights, without the optimiser's state.

        Raises:
            BudgetError, OutageError, ModelError: it stopped and can be resumed.
            ConfigError: the state file or the weights cannot be used, or the runs use no router.
            ValueError: there is no such device.
        """
        await asyncio.to_thread(_check_device, self.train.device)
        begun, done = await asyncio.to_thread(load_weights, team), 0
        before = begun.card.updates if begun else 0
        if await asyncio.to_thread(self.state.exists):
            weights = await asyncio.to_thread(read_weights, self.state)
            team, done = with_weights(team, weights), weights.card.updates - before
            await self._keep(team, done)
        for number in range(done, self.train.updates):
            episodes = await self._collect(team, number)
            team, weights, update = await update_router(team, episodes, self.config, self.train, self.ctx.embed)
            update = update.replace(number=number + 1)  # of this training; the weights count earlier ones too
            await self.rollout_context.journal.put_note(f"{UPDATE}/{update.number}", update.model_dump(mode="json"))
            await asyncio.to_thread(write_atomically, self.state, weights.packed)
            await self._keep(team, number + 1)
            on_update(update)
        return _drop_optimiser(team)

    async def _collect(self, team: Team, number: int) -> list[Episode]:
        ctx = self.ctx.where(Scope(run=self.run, seed=self.seed, iteration=number, phase=PHASE))
        wanted = batch_tasks(self.train.batch, self.config.samples, len(self.tasks))
        drawn = ctx.scope.random("tasks").permutation(len(self.tasks))[:wanted]
        tasks = [self.tasks[int(index)] for index in drawn]
        rollout_context = replace(self.rollout_context, samples=self.config.samples)
        found = await collect_rollouts(rollout_context, self.rollout_fn, team, tasks, ctx)
        episodes = [episode for run in found if (episode := to_router_episode(run, self.train)) is not None]
        if not episodes and any(run.error is None for run in found):
            raise ConfigError("the runs left their router nothing to choose; train with a team that branches")
        return episodes

    async def _keep(self, team: Team, done: int) -> None:
        """Save a version if one is due; saving it twice changes nothing."""
        if done and (done % self.train.checkpoint_every == 0 or done == self.train.updates):
            await self.save(_drop_optimiser(team), done)


def batch_tasks(episodes: int, samples: int, tasks: int) -> int:
    """Number of different tasks that an update draws for about so many episodes: at least one, at most all."""
    return min(tasks, max(1, episodes // samples))


def _check_device(name: str) -> None:
    from selfwire.evolvers.router.head import get_device

    get_device(name)  # before any run is paid for


def _drop_optimiser(team: Team) -> Team:
    weights = load_weights(team)
    return team if weights is None else with_weights(team, weights.without_optimiser())
