"""A team whose router learns from your rewards: `ask`, `reward`, `learn`."""

import itertools
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError, TaskError
from selfwire.core.protocols import Embedder, Tool
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.config import SamplingConfig, TrainConfig
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.method_factory import load_embedder_beside
from selfwire.graphs.own_tools import add_own_tools, refuse_missing_tools
from selfwire.graphs.run_start import new_question
from selfwire.graphs.team import compile_team, run_team
from selfwire.graphs.trained_router.probing import probe_router
from selfwire.graphs.trained_router.rewarded import RewardedRouter, check_reward
from selfwire.graphs.trained_router.routing import (
    SAMPLING,
    list_branches,
    make_learned_router,
    to_team_decisions,
    to_team_episode,
)
from selfwire.nodes.agent import make_agent_runner
from selfwire.runtime.exports import read_workflow
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import make_chat_model
from selfwire.runtime.recorder import NullRecorder
from selfwire.runtime.sync import run_sync
from selfwire.tools.langchain import make_toolbox

_LAST: ContextVar["tuple[RoutedTeam, Trajectory] | None"] = ContextVar("last", default=None)
"""The last answer of the current thread or asyncio task."""


ONE = SAMPLING.replace(width=1)
"""Draws a single successor, so that rewards tell the successors apart."""


class RoutedTeam(RewardedRouter):
    """A team whose trained router chooses who hears each answer next.

    Equal seeds give equal choices, if questions are asked in the same order.

    Args:
        team: with at least one agent that has two successors; a workflow, or the path of an exported one.
        model: of the agents; a name as for `make_chat_model`, or a ready model.
        tools: for agents that hold tools.
        embedder: auto, minilm or hashing as for `load_embedder`, or a ready one; auto is hashing beside the offline
            model.
        seed: of everything drawn.
        sampling: how successors are drawn; by default a single one.
        train: how one update is made.
        budget: of all questions together.

    Raises:
        ConfigError, LibraryError, TopologyError: the team, its weights, the model or a tool cannot be used.
    """

    def __init__(
        self,
        team: Workflow | str | Path,
        model: str | BaseChatModel = "offline",
        *,
        tools: Sequence[BaseTool | Tool] = (),
        embedder: str | Embedder = "auto",
        seed: int = 0,
        sampling: SamplingConfig = ONE,
        train: TrainConfig = TrainConfig(),
        budget: Budget = Budget(),
    ) -> None:
        workflow = team if isinstance(team, Workflow) else read_workflow(Path(team))
        compile_team(workflow.topology)
        if not list_branches(workflow):
            raise ConfigError("no agent of this team has two successors to choose from; give a team that branches")
        chat = make_chat_model(model)
        super().__init__(workflow, load_embedder_beside(embedder, chat), sampling, train)
        self.seed, self.toolbox = seed, make_toolbox(tools)
        refuse_missing_tools(workflow, self.toolbox)
        labels = {"method": workflow.method}
        self.model = MeteredModel({"agent": chat}, journal=NullRecorder(), ledger=Ledger(budget), labels=labels)
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
        """Say how good a run was; the next `learn` uses it. A run in which nobody had a choice teaches nothing.

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
        """What the router would choose in the states of a run with its current weights; see `aprobabilities`."""
        return run_sync(self.aprobabilities(run))

    async def aprobabilities(self, run: Trajectory) -> dict[str, dict[str, float]]:
        """What the router would choose in the states of a run with its current weights.

        Returns:
            By node that had a choice, the probability of each agent to be drawn first.
        """
        decisions = to_team_decisions(self._check_run(run), self._workflow)
        if not decisions:
            return {}
        found = await probe_router(self.workflow, tuple(decisions.values()), self.config, self.embedder)
        return {node: dict(one.probabilities) for node, one in zip(decisions, found, strict=True)}

    async def _solve(self, question: str | Question, config: RunnableConfig | None) -> Trajectory:
        asked = question if isinstance(question, Question) else new_question({"question": question})
        scope, workflow = Scope(seed=self.seed, task=asked.id, sample=next(self._asked)), self.workflow
        act = make_agent_runner(self.model, add_own_tools(self.toolbox, workflow))
        routing = await make_learned_router(
            workflow, asked, act, self.embedder, sampling=self.config.sampling, untrained=self.config.head
        )
        run = TeamContext.of(workflow, asked, scope, routing.act, router=routing.router)
        done = await run_team(workflow.topology, run, config=config)
        if done.answer is None:
            raise TaskError(f"{done.error}; ask again")
        return done

    def _check_run(self, run: Trajectory) -> Trajectory:
        strangers = sorted({step.node for step in run.steps} - set(self._workflow.topology.agents))
        if strangers:
            raise ValueError(f"the run is of another team: this one has no {', '.join(strangers)}")
        return run
