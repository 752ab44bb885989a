"""The gate keeps a good edit and refuses others, and a trained router chooses better, with a careful model.

The edits are HiVA's and HERA's. Every second gate task has no trap, so that a harmful edit can do harm.
"""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.core.task import Task
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.evomas import Evomas
from selfwire.graphs.method import make_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.runs.spec import EvolveSpec, Models, Sizes
from selfwire.runs.training import start_training
from selfwire.store.journal import NullRecorder
from tests.asks import local
from tests.graphs.careful import Asked, Passages, Plans, Play, make_answer, play_evomas, play_hera, play_hiva
from tests.wire.server import WireServer

PLANS, TEXTS = Plans(), Passages()
USELESS, HARMFUL = "Work with care.", "Begin with the job that is listed last."
CONFIGS: dict[str, dict[str, Any]] = {
    "hiva": {"topology_evolution": False},
    "hera": {"library": False, "mutation": False, "group": 1},
}


def make_plain(number: int) -> Task:
    """A plan whose constraints the listed order meets."""
    task = PLANS.make(number)
    listed = re.findall(r"^Jobs: (.+)$", task.input, re.MULTILINE)[0].split(", ")
    rules = "\n".join(f"- {first} before {second}" for first, second in pairwise(listed))
    return task.replace(id=f"plain-{number}", input=re.sub(r"(?<=Constraints:\n)(?:- .+\n)+", f"{rules}\n", task.input))


def write(edit: str, method: str) -> Play:
    """A careful model of a method, whose prompts get an edit, and whose agents follow it."""

    def play(asked: Asked) -> Any:
        if asked.kind == "PromptRewrite":
            return {"prompt": f"{asked['prompt']} {edit}"}
        if asked.kind == "Contrast":
            return {"operational_rules": [{"rule": edit}], "behavioral_principles": []}
        if not asked.kind and HARMFUL in asked.instructions:
            listed = PLANS.draft(asked.task).removeprefix("Order: ").split(", ")
            return f"Order: {', '.join(reversed(listed))}"
        return play_hiva(asked) if method == "hiva" else play_hera(asked, draws=False)

    return play


@pytest.mark.parametrize("method", CONFIGS)
@pytest.mark.parametrize(
    ("edit", "kept"), [(PLANS.lesson, True), (USELESS, False), (HARMFUL, False)], ids=["good", "useless", "harmful"]
)
async def test_the_gate_keeps_the_good_edit_alone(method: str, edit: str, kept: bool, tmp_path: Path) -> None:
    gate = [make(number) for number in range(3, 12) for make in (PLANS.make, make_plain)]
    with WireServer(make_answer(write(edit, method), PLANS)) as server:
        found = await selfwire.aevolve(
            make_method(method, CONFIGS[method]),
            [PLANS.make(number) for number in (1, 2)],
            PLANS.grade,
            valset=gate,
            iterations=1,
            batch=2,
            model=local(server.url),
            home=tmp_path,
        )
    asked = [str(request.body["messages"][-1]["content"]) for request in server.asked]
    tried = [task for task in gate if any(edit in said and task.input in said for said in asked)]
    assert len(tried) >= 5
    assert any(edit in agent.prompt for agent in found.team.agents) == kept


QUOTES = "quote the decisive words of the task"
ROUTED: dict[str, Any] = {"stages": 1, "sampling": {"layers": 1, "width": 1}}
"""One agent works on a question: the one that the router chooses."""


def play_routed(asked: Asked) -> Any:
    """Whoever is told to quote the words that decide reads the units; nobody else does."""
    return TEXTS.solve(asked.task) if QUOTES in asked.instructions else play_evomas(asked)


@pytest.mark.slow
async def test_a_trained_router_chooses_the_agent_that_is_right_where_the_untrained_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    lines = [TEXTS.make(number).model_dump_json(include={"input", "reference"}) for number in range(4)]
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(lines))
    train = {"updates": 4, "batch": 8, "rate": 0.2, "entropy": 0, "checkpoint_every": 4}
    with WireServer(make_answer(play_routed, TEXTS)) as server:
        request = EvolveSpec(
            method="evomas",
            benchmark=str(file),
            models=Models(agent="openai:local", base_url=server.url, embedder="hashing"),
            sizes=Sizes(train=4, gate=0, test=0),
            evolution=EvolutionConfig(name="router", iterations=0, gate="off"),
            config={**ROUTED, "samples": 4, "train": train},
            baselines=False,
        )
        with start_training(request, tmp_path) as training:
            untrained, trained = training.run.seed_team, await training.execute()
        method = Evomas(EvomasConfig.model_validate(ROUTED))
        ctx = method.make_ctx(MeteredModel(local(server.url), journal=NullRecorder()), {}, HashingEmbedder())
        found = list[list[tuple[str, bool]]]()
        for team in (untrained, trained):
            tasks = [TEXTS.make(number) for number in range(10, 16)]
            done = [await method.answer(team, task.question, ctx.where(phase="run", task=task.id)) for task in tasks]
            agents = [answered.steps[0].agent for answered in done]
            rights = [TEXTS.grade(task, answered.answer or "")[0] for task, answered in zip(tasks, done, strict=True)]
            found.append([*zip(agents, rights, strict=True)])
    before, after = found
    assert {*after} == {("io", True)}
    assert sum(right for _, right in before) <= 2
    assert all(right == (agent == "io") for agent, right in before)
