"""A single question to a team; nothing is recorded and nothing evolves."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context

from selfwire.core.errors import ConfigError, RefusedError, UnansweredError
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget
from selfwire.core.values import (
    FrozenMap,
    describe_half_character,
    fingerprint,
    format_object,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.models.budget import Ledger
from selfwire.runs.inputs import (
    CallOptions,
    FoundTeam,
    LoadedModels,
    SystemParts,
    Teamlike,
    find_team,
    load_models,
)
from selfwire.store.journal import Journal
from selfwire.tools.ready import end_servers


@dataclass(frozen=True)
class OpenQuestion:
    """A team that can be asked now; nothing is recorded and nothing evolves.

    Attributes:
        ctx: models, tools and embedder of the method.
        journal: of its calls, in memory.
        title: the team in a line, for people.
        notices: what the user should know, such as a fallback.
    """

    method: Method[Any]
    ctx: Ctx[Any]
    team: Team
    ledger: Ledger
    journal: Journal
    title: str
    notices: tuple[str, ...]

    async def ask(
        self, question: str | Question | Task, *, seed: int = 0, config: RunnableConfig | None = None
    ) -> Trajectory:
        """Put a question to the team.

        Args:
            config: LangChain's, with callbacks, tags and metadata of traces.

        Raises:
            ConfigError: the question is blank, or none; or a provider refuses its first calls.
            BudgetError, OutageError: it stopped; `partial_result` has the best answer until then, if there was one.
        """
        if isinstance(question, Task):
            question = question.question
        if not isinstance(question, str | Question):
            raise ConfigError(f"a question is a text, a Question or a Task, not {format_object(question)}")
        if isinstance(question, str):
            if not question.strip():
                raise ConfigError("the question is empty; write one")
            question = Question(id=fingerprint(question), input=question)
        if why := describe_half_character(question.input):
            raise ConfigError(f"the question {why}")
        ctx = self.ctx.where(Scope(run="run", seed=seed, phase="run"))
        answering = self.method.ask(self.team, question, ctx)
        try:
            if config is None:
                return await answering
            with set_config_context(config) as context:
                return await asyncio.create_task(answering, context=context)
        except RefusedError as error:
            if self.ledger.spent.calls:
                raise
            raise UnansweredError.of(error, "ask again") from error


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
    ledger, journal = Ledger(budget), Journal.memory()
    chat = models.meter(journal, ledger, probe=True).with_labels(method=found.method)
    parts, team = SystemParts(chat, toolbox, models.embedder, budget.calls), found.team
    method, ctx = parts.open(found.method, config)
    if team is None:
        team = method.make_seed(tuple(sorted(toolbox)) if held is None else held, toolbox=tuple(toolbox))
    else:
        way_out = "; lend the tools with --benchmark, --tools or --corpus"
        parts.check(method, ctx, team, found.title, way_out)
    return OpenQuestion(method, ctx, team, ledger, journal, found.title, models.notices)


async def ask_team(
    team: Teamlike, question: str | Task, options: CallOptions, *, seed: int, config: RunnableConfig | None
) -> Trajectory:
    """Put one question to a team; see `selfwire.run`."""

    def opened() -> OpenQuestion:
        found = find_team(team, options.home, method=options.method)
        names, given = options.find_models(found.model)
        models = load_models(names, options.folder, given, [found])
        return open_question(found, models, toolbox=options.toolbox, budget=options.limits, config=found.config)

    with end_servers():
        return await (await asyncio.to_thread(opened)).ask(question, seed=seed, config=config)
