"""A planted reference is in nothing that a method sends, stores, traces or learns, though the environment has it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.plugins import method_names
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evals.benchmarks.archive import archive
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evolvers.router.config import ROUTER
from selfwire.graphs.build import build_graph
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method, make_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.files import get_blob
from selfwire.store.journal import Journal
from tests.graphs.canary import CANARY, assert_not_planted, left_behind, planted
from tests.wire.server import WireServer, served

LEARNING: dict[str, dict[str, Any]] = {
    "hera": {"group": 2},
    "tacomas": {"rounds": 3, "interval": 1, "lessons": True},
    "dytopo": {"rounds": 2},
    "evomas": {"stages": 2, "samples": 2, "process_reward": True, "verify": True},
}
"""Configs with which much is learned of few questions."""
LEARNED = {"tacomas": "lessons", "evomas": ROUTER}
"""Part of a team's memory that must have been learned."""


async def learned(
    bench: Benchmark, method: Method[Any], ctx: Ctx[Any], tasks: list[Task]
) -> tuple[list[Trajectory], Team]:
    """Explore and grade as an evolution does, learn, and explore once more."""
    team, found = method.seed(bench.tools, toolbox=tuple(ctx.tools)), list[Trajectory]()
    by_id = {task.id: task for task in tasks}

    async def grade(done: Trajectory, at: Scope) -> Trajectory:
        assert CANARY in str(by_id[done.question.id].reference)
        feedback = await bench.environment.grade(by_id[done.question.id], done.answer or "", scope=at)
        return done.with_feedback(feedback)

    for iteration in range(2):
        batch = []
        for task in tasks:
            here = ctx.where(run="r", iteration=iteration, task=task.id)
            batch += [await grade(done, here.scope) for done in await method.explore(team, task.question, here)]
        found += batch
        learning = replace(ctx.where(run="r", iteration=iteration, phase="evolve"), grade_run=grade)
        team = (await method.propose(team, batch, learning)).workflow
    return found, team


@pytest.mark.slow
@pytest.mark.parametrize("name", method_names())
async def test_a_planted_reference_appears_nowhere(name: str, tmp_path: Path) -> None:
    bench, method, file = archive(40), make_method(name, LEARNING.get(name, {})), tmp_path / "journal.sqlite"
    tasks = planted(bench, 2)
    journal, saver = Journal.create(file, run="r"), InMemorySaver()
    with WireServer(served(make_chat_model("offline"))) as server, collect_runs() as traces:
        model = make_chat_model("openai:local", base_url=server.url, api_key="none")
        metered = MeteredModel(model, journal=journal)
        ctx = method.make_ctx(metered, bench.toolbox, HashingEmbedder(64))
        found, team = await learned(bench, method, ctx, tasks)
        graph = build_graph(
            type(method),
            model,
            tools=[*bench.toolbox.values()],
            config=method.config,
            embedder="hashing" if "embedder" in method.build_options else None,
        ).compile(checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "1"}}
        await graph.ainvoke({"question": tasks[0].input}, thread)
        asked = [json.dumps(one.body) for one in server.asked]
    journal.close()
    assert CANARY not in team.model_dump_json()
    if part := LEARNED.get(name):
        assert part in team.memory
    if weights := team.memory.get(ROUTER, {}).get("weights"):
        assert CANARY.encode() not in get_blob(weights)
    assert_not_planted(left_behind(asked, found, file, saver, traces.traced_runs), tasks[0])
