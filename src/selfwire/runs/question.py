"""A single question to a team, with its models and tools."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Task
from selfwire.core.team import Workflow
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap, fingerprint
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.models.budget import Ledger
from selfwire.runs.open import (
    CallOptions,
    FoundTeam,
    LoadedModels,
    Teamlike,
    load_models,
    refuse_missing_tools,
    refuse_unreadable_memory,
)
from selfwire.runs.systems import SystemParts
from selfwire.store.journal import Journal


@dataclass(frozen=True)
class OpenQuestion:
    """A team that can be asked now; nothing is recorded and nothing evolves.

    Attributes:
        ctx: models, tools and embedder of the method.
        title: the team in a line, for people.
        notices: what the user should know, such as a fallback.
    """

    method: Method[Any]
    ctx: Ctx[Any]
    team: Workflow
    ledger: Ledger
    title: str
    notices: tuple[str, ...]

    async def ask(
        self, question: str | Question | Task, *, seed: int = 0, config: RunnableConfig | None = None
    ) -> Trajectory:
        """Put a question to the team.

        Args:
            config: LangChain's, with callbacks, tags and metadata of traces.

        Raises:
            ConfigError: the question is blank.
            BudgetError, OutageError: it stopped; `partial_result` has the best answer until then, if there was one.
        """
        if isinstance(question, Task):
            question = question.question
        if isinstance(question, str):
            if not question.strip():
                raise ConfigError("the question is empty; write one")
            question = Question(id=fingerprint(question), input=question)
        ctx = self.ctx.where(Scope(run="run", seed=seed, phase="run"))
        answering = self.method.answer(self.team, question, ctx)
        if config is None:
            return await answering
        with set_config_context(config) as context:
            return await asyncio.create_task(answering, context=context)


def open_question(
    found: FoundTeam,
    models: LoadedModels,
    *,
    toolbox: Toolbox,
    held: tuple[str, ...] | None = None,
    budget: Budget = Budget(),
    config: Mapping[str, Any] = FrozenMap(),
) -> OpenQuestion:
    """Make a team ready for a question; blocks.

    Args:
        held: the tools that the agents of a method's first team hold; by default all.
        config: fields of the method's config.

    Raises:
        ConfigError, LibraryError: a model, a tool, a field or what the team has learned cannot be used.
    """
    ledger = Ledger(budget)
    chat = models.meter(Journal.memory(), ledger, probe=True).with_labels(method=found.method)
    method, ctx = SystemParts(chat, toolbox, models.embedder, budget.calls).open(found.method, config)
    team = found.team
    if team is None:
        team = method.seed(tuple(sorted(toolbox)) if held is None else held, toolbox=tuple(toolbox))
    else:
        refuse_unreadable_memory(method, ctx, team, found.title)
    if found.team is not None:
        refuse_missing_tools(team, toolbox, found.title, "; lend the tools with --benchmark, --tools or --corpus")
    return OpenQuestion(method, ctx, team, ledger, found.title, models.notices)


async def ask_team(
    team: Teamlike, question: str | Task, setting: CallOptions, *, seed: int, config: RunnableConfig | None
) -> Trajectory:
    """Put one question to a team; see `selfwire.run`."""

    def opened() -> OpenQuestion:
        found = setting.find_team(team)
        names, given = setting.find_models(found.model)
        models = load_models(names, setting.folder, given)
        return open_question(found, models, toolbox=setting.toolbox, budget=setting.limits, config=found.config)

    return await (await asyncio.to_thread(opened)).ask(question, seed=seed, config=config)
