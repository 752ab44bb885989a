"""Small pieces of HERA for tests: insights, trajectories, a team, an embedder by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from selfwire.core.chat import ToolSpec
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap
from selfwire.evolvers.hera.initial_team import make_initial_team
from selfwire.evolvers.hera.library import Insight, InsightSource, Profile
from selfwire.evolvers.hiva.descriptions import DescribedTool
from selfwire.evolvers.prompted_model import PromptedModel
from tests.scripted import ScriptedModel, prompts

SEARCH = DescribedTool(spec=ToolSpec(name="search", description="Searches the archive.", parameters=FrozenMap()))
BRIDGE = Profile(type="bridge", summary="find one fact, then another")
COMPARISON = Profile(type="comparison", summary="set two values side by side")


class Angles:
    """Embeds texts at given angles in degrees."""

    name = "angles"

    def __init__(self, **degrees: float) -> None:
        self.degrees = degrees

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        found = [self.degrees.get(text.replace(" ", "_"), 90.0 * (1 + at)) for at, text in enumerate(texts)]
        turned = np.radians(found)
        return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def known(text: str, uses: int = 0, successes: int = 0, profile: Profile = BRIDGE) -> Insight:
    sources = (InsightSource(question="q", sample=len(text)),)
    return Insight(profile=profile, text=text, uses=uses, successes=successes, sources=sources)


def pool() -> Team:
    return make_initial_team(prompts("hera"), tools=("search", "calculator"))


def ran(
    question: str = "q1",
    score: float | None = 0.0,
    tokens: int = 100,
    sample: int = 0,
    *,
    insights: Sequence[str] = (),
    topology: Topology | None = None,
    profile: Profile = BRIDGE,
    error: str | None = None,
) -> Trajectory:
    """A trajectory with one step per node of a topology; the tokens are those of the first one."""
    gamma = topology or pool().topology
    steps = [
        Step(node=node, agent=gamma.agents[node], output=f"{node} said", usage=Usage(calls=1, input_tokens=cost))
        for node, cost in zip(gamma.order(), [tokens, *[0] * len(gamma.nodes)], strict=False)
    ]
    notes: Mapping[str, Any] = {
        "profile": profile.model_dump(mode="json"),
        "insights": [{"id": one, "text": one} for one in insights],
        "topology": gamma.model_dump(mode="json"),
    }
    feedback = None if score is None else Feedback(score=score, solved=score == 1, text="said of it")
    return Trajectory(
        question=Question(id=question, input=f"{question}?"),
        workflow="w",
        steps=tuple(steps),
        answer=None if error else "an answer",
        error=error,
        feedback=feedback,
        sample=sample,
        notes=notes,
    )


def meta_model(model: ScriptedModel) -> PromptedModel:
    return PromptedModel(model, prompts("hera"), 0.0)
