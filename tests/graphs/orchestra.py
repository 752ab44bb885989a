"""A scripted HERA: agents that say who they are and what they heard, and an orchestrator that follows advice."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import ModelError
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.graphs.hera import Hera
from selfwire.graphs.machine import Ctx, TrajectoryGrader
from tests.evolvers.hera.doubles import Angles
from tests.request_parts import read_instructions

RIDDLE = Question(id="q1", input="What am I?")
Line = dict[str, Any]
SHORT = ("query_decomposer", "answer_generator")
LONG = ("query_decomposer", "calculator", "answer_generator")


def order(*agents: str) -> Line:
    """A plan that is a chain."""
    return {"execution_order": [{"step": n, "agent": agent} for n, agent in enumerate(agents, 1)]}


def by_sample(*plans: tuple[str, ...]) -> Callable[[str, Scope], Line]:
    """The plan of a sample, the last one over and over; advice to take the calculator is followed."""

    def planned(shown: str, scope: Scope) -> Line:
        if "take the calculator" in shown:
            return order(*LONG)
        return order(*plans[min(scope.sample, len(plans) - 1)])

    return planned


SCRIPT: dict[str, Any] = {
    "QueryProfile": {"query_type": "bridge", "difficulty": "medium", "summary": "solve a riddle"},
    "TopologyPlan": by_sample(SHORT, LONG),
    "Reflection": {"insights": [{"query_type": "bridge", "insight": "take the calculator"}]},
    "LibraryOperations": {"operations": []},
    "FailedAgent": {"agent": "query_decomposer", "cause": "it slept"},
    "Mutation": {"alternative": "evidence_selector", "name": "counter", "role": "counts", "instruction": "You count."},
    "PromptVariant": {"instructions": ["Wake up."]},
    "Contrast": {"operational_rules": [{"rule": "Wake up.", "derived_from": "thoroughness"}]},
    "PromptDiff": {"added_rules": ["Wake up."]},
}


class Orchestra:
    """Answers asks by script (a line, or a function of what is shown and where) and lets agents speak.

    Attributes:
        asked: schemas with what was shown, in order.
        spoke: (scope, instructions, temperature) of every agent call.
        peak: agents that spoke at the same time.
    """

    def __init__(self, *, meeting: int = 0, failing: str = "", delay: Callable[[Scope], float] | None = None,
                 **script: Any) -> None:  # fmt: skip
        self.script = {**SCRIPT, **script}
        self.asked: list[tuple[str, str, float | None]] = []
        self.spoke: list[tuple[Scope, str, float | None]] = []
        self.meeting, self.failing, self.delay = meeting, failing, delay
        self.met = asyncio.Event()
        self.speaking = self.peak = 0

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        temperature: float | None = None,
        **_: Any,
    ) -> tuple[Schema, Usage]:
        self.asked.append((schema.__name__, messages[-1].content, temperature))
        line = self.script[schema.__name__]
        line = line(messages[-1].content, scope) if callable(line) else line
        if self.delay:
            await asyncio.sleep(self.delay(scope))
        if isinstance(line, Exception):
            raise line
        return schema.model_validate(line), Usage(calls=1, input_tokens=10)

    async def generate(
        self, messages: Sequence[ChatMessage], *, scope: Scope, temperature: float | None = None, **_: Any
    ) -> Reply:
        instructions = read_instructions(messages[0].content, messages[1].content)
        self.spoke.append((scope, instructions, temperature))
        self.speaking += 1
        self.peak = max(self.peak, self.speaking)
        if self.speaking == self.meeting:
            self.met.set()
        if self.meeting:
            async with asyncio.timeout(20):
                await self.met.wait()
        if self.delay:
            await asyncio.sleep(self.delay(scope))
        self.speaking -= 1
        if self.failing and self.failing in scope.phase + scope.node:
            raise ModelError("the provider is down")
        heard = re.findall(r"^From ([\w-]+):", messages[-1].content, re.MULTILINE)
        awake = " awake" if "Wake up." in instructions else ""
        return Reply(content=f"{scope.node}{awake} heard {' '.join(heard)}", usage=Usage(calls=1, input_tokens=5))

    def names(self) -> list[str]:
        """Schemas that were asked for, in order."""
        return [name for name, *_ in self.asked]

    def shown(self, schema: str) -> list[str]:
        """What the asks for a schema were shown."""
        return [text for name, text, _ in self.asked if name == schema]


def hera(model: Orchestra | None = None, **config: Any) -> tuple[Hera, Ctx[HeraConfig]]:
    """HERA with the context of its rollouts."""
    method, embedder = Hera(HeraConfig(**config)), Angles(solve_a_riddle=0, take_the_calculator=0)
    return method, method.make_ctx(model or Orchestra(), {}, embedder, scope=Scope(run="r", phase="rollout"))


def learning(ctx: Ctx[HeraConfig], judge: TrajectoryGrader) -> Ctx[HeraConfig]:
    """The context in which a method learns from the rollouts of another."""
    return replace(ctx.where(phase="evolve"), grade_run=judge)


class Judge:
    """Grades by who took part, a failure with somebody awake a little better; keeps what it graded.

    Args:
        wanted: an agent whose taking part makes an answer right.
    """

    def __init__(self, wanted: str = "calculator") -> None:
        self.wanted = wanted
        self.graded: list[tuple[Trajectory, Scope]] = []

    async def __call__(self, done: Trajectory, at: Scope) -> Trajectory:
        self.graded.append((done, at))
        if done.answer is None or done.error is not None:
            return done
        right = any(step.agent == self.wanted for step in done.steps)
        score = 1.0 if right else 0.2 * any(" awake" in step.output for step in done.steps)
        return done.with_feedback(Feedback(score=score, solved=right, text="right" if right else "wrong"))


async def grown(judge: Judge, rollouts: Sequence[Trajectory]) -> list[Trajectory]:
    """Rollouts as the outer evolution grades them."""
    found = [await judge(done, Scope()) for done in rollouts]
    judge.graded.clear()
    return found


class OrchestraChat(BaseChatModel):
    """The script as a chat model, for graphs that people build."""

    script: dict[str, Any] = Field(default_factory=lambda: SCRIPT)
    objects: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "orchestra"

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        wish = messages[-1].text
        if "Reply with one JSON object" not in wish:
            heard = re.findall(r"^From ([\w-]+):", wish, re.MULTILINE)
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I heard {' '.join(heard)}"))])
        title = json.loads(wish.splitlines()[-1])["title"]
        line = self.script[title]
        sample = self.objects.count(title)
        self.objects.append(title)
        said = "\n".join(message.text for message in messages)
        line = line(said, Scope(sample=sample)) if callable(line) else line
        return ChatResult(generations=[ChatGeneration(message=AIMessage(json.dumps(line)))])
