"""The trained router for a StateGraph of yours: the function of a conditional edge that learns from your rewards."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.topology import make_chain
from selfwire.core.values import fingerprint, is_id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.choosers import LearnedChooser
from selfwire.evolvers.trained_router.config import SamplingConfig, TrainConfig
from selfwire.evolvers.trained_router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.graphs.method_factory import load_embedder_beside
from selfwire.graphs.trained_router.heads import HEADS
from selfwire.graphs.trained_router.rewarded import RewardedRouter, check_reward
from selfwire.graphs.trained_router.routing import SHOWN
from selfwire.runtime.sync import run_sync

KEPT_RUNS = 10_000
"""Runs whose choices are kept; the longest unused go first."""

Describe = Callable[[Any], str | Sequence[str]]
"""The texts of a state that the router reads."""


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
class _Run:
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
        train: how one update is made.

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
        train: TrainConfig = TrainConfig(),
    ) -> None:
        texts = dict(successors) if isinstance(successors, Mapping) else dict.fromkeys(successors, "")
        if isinstance(successors, str) or len(texts) < 2 or len(texts) < len(successors):
            raise ConfigError(f"a router needs two or more different successors to choose from, not {successors!r}")
        names = {name if is_id(name) else fingerprint(name): name for name in texts}  # END is no id
        agents = [Agent(id=one, role=name, prompt=texts[name]) for one, name in names.items()]
        workflow = Workflow(method="router", agents=tuple(agents), topology=make_chain(*names))
        sampling = SamplingConfig(layers=1, width=1, softness=softness)
        super().__init__(workflow, load_embedder_beside(embedder), sampling, train)
        self.describe, self.seed = describe, seed
        self.successors = list(texts)
        self._names, self._runs, self._lock = names, OrderedDict[str, _Run](), threading.Lock()

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
        """Say how good a run was: all choices that it made since its last reward; the next `learn` uses them.

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
        shares = {self._names[one]: share for one, share in layered.probabilities[0].items()}
        return {name: shares[name] for name in self.successors}

    async def _choose(self, state: Any, name: str) -> str:
        rows = self._read_rows(state)
        with self._lock:
            made = self._runs.setdefault(name, _Run())
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
        workflow = self.workflow
        head = await HEADS.head(workflow, self.config.head, self.embedder, transfer=True)
        chooser = LearnedChooser(head, self.config.sampling, self.embedder)
        return await chooser(rows, workflow.agents, masked=frozenset(), scope=scope)

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
