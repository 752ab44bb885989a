"""EvoMAS with a model that behaves well, over HTTP: it answers in the form that was asked for, and learns from F1."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from langchain_core.messages import AIMessage

from selfwire.cli.trajectories import read_trajectories
from selfwire.core.team import Team
from selfwire.core.values import to_plain_json
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.router.config import SamplingConfig
from selfwire.evolvers.router.head import RoutingHead
from selfwire.evolvers.router.reinforce import Learner, get_weights
from selfwire.evolvers.router.weights import with_weights
from selfwire.graphs import evomas
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.sync import run_sync
from selfwire.runs.spec import EvolveSpec, Models, Sizes
from selfwire.runs.training import start_training
from tests.asks import local
from tests.wire.server import Body, WireServer, asked_kind

PASSAGES = """Passages:

[1] Severin Bridge
The Severin Bridge crosses the Rhine at Cologne. It was opened in 1959 and is 691 m long.

[2] Deutz Bridge
The Deutz Bridge crosses the Rhine at Cologne. It is 437 m long."""
WHOLE = '"It was opened in 1959 and is 691 m long" [1]. The Severin Bridge of Cologne is the longer one.'
HALF = '"The Severin Bridge crosses the Rhine" [1]. The Severin Bridge.'
OBJECTS: dict[str, dict[str, Any]] = {
    "Plan": {
        "subtasks": [{"id": "", "goal": "Say which bridge is longer, with both lengths.", "status": "TODO"}],
        "active": "", "summary": "", "hint": "Both passages give a length.",
    },
    "Assessed": {"feedback": "Both lengths are quoted.", "reward": 1, "refine": False, "confidence": 0.9},
    "EnsembleChoice": {"thought": "They agree.", "solution_letter": "A"},
}  # fmt: skip


async def behave(body: Body) -> AIMessage:
    """Candidates quote what decides the question, others quote half of it; the closing call answers as it was asked."""
    user = str(body["messages"][-1]["content"])
    kind = body.get("response_format", {}).get("json_schema", {}).get("name")
    if kind == "LastAnswer":
        word = "Answer with one word." in user
        answer = "Severin" if word else "Severin Bridge of Cologne" if WHOLE in user else "Severin Bridge"
        return AIMessage(json.dumps({"answer": answer}))
    if kind:
        return AIMessage(json.dumps(OBJECTS[kind]))
    return AIMessage(WHOLE if "candidate answers" in user else HALF)


def ask(server: WireServer, question: str, **options: Any) -> dict[str, Any]:
    graph = evomas.build(local(server.url), embedder="hashing", **options).compile()
    result: dict[str, Any] = graph.invoke({"question": f"{question}\n\n{PASSAGES}"})
    return result


@pytest.mark.parametrize("layers", [(("io", "multi_generate"),), (("io",), ("self_refine", "multi_generate"))])
def test_d15_the_answer_is_the_one_word_that_the_task_asks_for(layers: Any) -> None:
    with WireServer(behave) as server:
        config = EvomasConfig(adapter="fixed", plan=layers)
        result = ask(server, "Which bridge is longer? Answer with one word.", config=config)
    assert result["answer"] == "Severin"
    outcome = Stage.model_validate(result["stages"][0]).outcome or ""
    assert "[multi_generate]\n" in outcome  # the answers of a whole layer
    assert "own knowledge" not in outcome
    assert "Sources" not in outcome
    prompts = ["\n".join(str(message["content"]) for message in request.body["messages"]) for request in server.asked]
    for prompt in prompts:
        assert prompt.count("The Deutz Bridge crosses the Rhine at Cologne. It is 437 m long.") == 1
        assert not re.search(r"web_search|web_browser|task_state|L\d-", prompt)


def request(server: WireServer, tasks: Path) -> EvolveSpec:
    train = {"updates": 3, "batch": 8, "rate": 0.2, "entropy": 0, "checkpoint_every": 3}
    return EvolveSpec(
        method="evomas",
        benchmark=str(tasks),
        grader="f1",
        models=Models(agent="openai:local", base_url=server.url, embedder="hashing"),
        sizes=Sizes(train=2, gate=0, test=1),
        evolution=EvolutionConfig(name="router", iterations=0, gate="off"),
        config={"stages": 1, "samples": 4, "sampling": {"layers": 1, "width": 1}, "train": train},
        baselines=False,
    )


def test_d22_scores_that_solve_nothing_move_the_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    reference = "Severin Bridge of Cologne, opened 1959"  # F1 of the better answer is 0.8, of the other 0.5
    lines = [
        json.dumps({"input": f"Which bridge is {word}? Name it.\n\n{PASSAGES}", "reference": reference})
        for word in ("longer", "older", "wider", "higher")
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    rewards = list[float | None]()
    with WireServer(behave) as server, start_training(request(server, tmp_path / "tasks.jsonl"), tmp_path) as training:
        begun = training.run.seed_team
        trained = run_sync(training.execute(lambda update: rewards.append(update.reward)))
        runs = [done for place, done in read_trajectories(tmp_path, training.run.run) if place.endswith("/train")]
        scores = {(round(done.feedback.score, 2), done.feedback.solved) for done in runs if done.feedback}
        config = EvomasConfig.model_validate(to_plain_json(training.run.request.config))

        def chance(team: Team) -> float:
            result = ask(server, "Which bridge is longer? Name it.", initial=team, config=config)
            layered = Stage.model_validate(result["stages"][0]).layered
            assert layered is not None
            return layered.probabilities[0]["multi_generate"]

        before, after = chance(begun), chance(trained)
    assert scores == {(0.5, False), (0.8, False)}
    assert all(reward is not None and 0.5 < reward <= 0.8 for reward in rewards)
    assert after > before + 0.2


@pytest.mark.parametrize(("masked", "calls"), [(False, 3), (True, 4)])
def test_d11_a_small_task_may_end_in_three_calls(masked: bool, calls: int) -> None:
    """A plan of one subtask, one agent, and the judgement that holds the answer; masked, other layers act as well."""

    async def solve(body: Body) -> AIMessage:
        kind = asked_kind(body)
        replies = {
            "Plan": {"subtasks": [{"id": "", "goal": "Add 3 and 4.", "status": "TODO"}], "active": "", "summary": ""},
            "Assessed": {"feedback": "It is right.", "reward": 1, "refine": False, "confidence": 1, "answer": "7"},
        }
        return AIMessage(json.dumps(replies[kind]) if kind else "3 + 4 = 7")

    method = evomas.Evomas(EvomasConfig(sampling=SamplingConfig(width=1), early_exit=not masked))
    pool = method.seed()
    learner = Learner(RoutingHead(HashingEmbedder().dimensions), sampling=method.config.sampling)
    with torch.no_grad():
        learner.head.exit[-1] = 2.0  # has learned to end a run where it may
    team = with_weights(pool, get_weights(learner, pool.agents, HashingEmbedder().name))
    with WireServer(solve) as server:
        graph = evomas.build(local(server.url), embedder="hashing", initial=team, config=method.config).compile()
        result = graph.invoke({"question": "What is 3 plus 4?"})
    kinds = [asked_kind(request.body) for request in server.asked]
    assert (result["answer"], result["usage"]["calls"]) == ("7", calls)
    assert kinds == ["Plan", *[""] * (calls - 2), "Assessed"]
