"""Requests: what runs are asked to do, stored with the run and resumed from."""

from typing import Literal

from pydantic import Field, field_validator

from selfwire.core.budget import Budget
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.evals.own_data.fields import OwnData
from selfwire.graphs.evolution.config import EvolutionConfig
from selfwire.graphs.method_names import DEFAULT_METHOD
from selfwire.runtime.addresses import keep_address
from selfwire.runtime.model_names import is_offline
from selfwire.runtime.structured_modes import Structured


class ModelNames(FrozenModel):
    """Which model plays which role.

    Args:
        agent: the team's agents, such as `offline` or `openai:gpt-4o-mini`.
        meta: critics and evolvers; None for the agent's model.
        judge: judges; None for the meta model.
        base_url: of an OpenAI-compatible server; a user, a password and keys in it are masked, as requests are stored.
        timeout: seconds for one request.
        structured: how objects are asked for; see `CallSettings`.
        max_tokens: most tokens of a reply; None for 2048.
        embedder: auto, minilm or hashing; auto is hashing with the offline model.
        prices: a JSON file of prices, laid over the shipped ones.
        requests_at_once: most per provider; None for 32, or as many as tasks are worked on at once if these are more.
        requests_per_minute: most per provider; None for no limit.
        tokens_per_minute: most per provider; None for no limit.
    """

    agent: str = "offline"
    meta: str | None = None
    judge: str | None = None
    base_url: str | None = None
    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=5, ge=0)
    structured: Structured = "auto"
    max_tokens: int | None = Field(default=None, ge=1)
    embedder: Literal["auto", "minilm", "hashing"] = "auto"
    prices: str | None = None
    requests_at_once: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, ge=1)

    @field_validator("base_url")
    @classmethod
    def _keep_no_secrets(cls, given: str | None) -> str | None:
        return given and keep_address(given)

    @property
    def roles(self) -> dict[str, str]:
        """Model name by role."""
        meta = self.meta or self.agent
        return {"agent": self.agent, "meta": meta, "judge": self.judge or meta}

    @property
    def is_offline(self) -> bool:
        """Whether any role is played by the offline model."""
        return any(map(is_offline, self.roles.values()))

    @property
    def limits_requests(self) -> bool:
        """Whether there is a limit that all workers of a run keep together."""
        return any((self.requests_at_once, self.requests_per_minute, self.tokens_per_minute))

    @property
    def calls_no_server(self) -> bool:
        """Whether all roles are played by the offline model."""
        return all(map(is_offline, self.roles.values()))


class Sizes(FrozenModel):
    """Tasks per split."""

    train: int = Field(default=60, ge=1)
    gate: int = Field(default=60, ge=0)
    test: int = Field(default=60, ge=0)


class Request(FrozenModel):
    """What every request has.

    Args:
        benchmark: name of a benchmark, or where the user's own tasks are.
        grader: for own tasks, a named grader, `judge` or `module:function`.
        rubric: for the judge, a description of a good answer.
        tools: for own tasks, tools that agents may call, as `load_tools` reads them.
        own_data: for own tasks, which fields they are in, and which split.
        models: which model plays which role.
    """

    benchmark: str
    grader: str = "exact"
    rubric: str | None = None
    tools: str | None = None
    own_data: OwnData = OwnData()
    models: ModelNames = ModelNames()
    budget: Budget = Budget()

    @property
    def targets(self) -> tuple[str, ...]:
        """Methods, baselines and saved workflows that are run."""
        return ()


class EvolveRequest(Request):
    """An evolution: its method, tasks, models and limits.

    Args:
        evolution: iterations, batch, gate, concurrency, seed.
        config: the method's own config fields, as JSON.
        seed_team: a saved workflow, or a JSON file of one, to start from instead of the method's seed.
        tested: whether the test split is run at the end; off where an evaluation runs it.
        random_edits: replaces the method's edits by random legal ones of these kinds in each iteration.
    """

    method: str = DEFAULT_METHOD
    sizes: Sizes = Sizes()
    evolution: EvolutionConfig
    config: FrozenJson = Field(default_factory=FrozenMap)
    seed_team: str | None = None
    baselines: bool = True
    tested: bool = True
    random_edits: tuple[tuple[str, ...], ...] | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The method."""
        return (self.method,)
