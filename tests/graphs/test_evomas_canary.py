"""A planted reference is in nothing that EvoMAS sends, stores, traces or learns, though the environment has it."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.evals.benchmarks.archive import archive
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.trained_router.weights import ROUTER
from selfwire.graphs import evomas
from selfwire.graphs.evomas import Evomas
from selfwire.runtime.blobs import get_blob
from selfwire.runtime.embeddings import HashingEmbedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import make_chat_model
from tests.graphs.canary import CANARY, assert_not_planted, left_behind, planted
from tests.graphs.grading import no_grade
from tests.wire.server import WireServer, served

CONFIG = EvomasConfig(stages=2, samples=2, process_reward=True, verify=True)


async def learned(bench: Benchmark, method: Evomas, tasks: list[Task]) -> tuple[list[Trajectory], bytes]:
    workflow, found = method.make_initial_workflow(bench.tools), list[Trajectory]()
    for iteration in range(2):
        batch = []
        for task in tasks:
            assert CANARY in str(task.reference)
            scope = Scope(run="r", iteration=iteration, task=task.id)
            for done in await method.explore(workflow, task.question, scope=scope):
                feedback = await bench.environment.grade(task, done.answer or "", scope=scope)
                batch.append(done.with_feedback(feedback))
        found += batch
        workflow = (await method.evolve(workflow, batch, scope=Scope(), grade=no_grade)).workflow
    return found, get_blob(workflow.memory[ROUTER]["weights"])


@pytest.mark.slow
async def test_a_planted_reference_appears_nowhere(tmp_path: Path) -> None:
    bench = archive(40)
    tasks = planted(bench, 2)
    journal, saver = Journal.create(tmp_path / "journal.sqlite", run="r"), InMemorySaver()
    with WireServer(served(make_chat_model("offline"))) as server, collect_runs() as traces:
        model = make_chat_model("openai:local", base_url=server.url, api_key="none")
        wired = MeteredModel(model, journal=journal)
        found, weights = await learned(bench, Evomas(wired, bench.toolbox, HashingEmbedder(64), CONFIG), tasks)
        graph = evomas.build(model, tools=[*bench.toolbox.values()], config=CONFIG, embedder="hashing")
        thread: Any = {"configurable": {"thread_id": "1"}}
        await graph.compile(checkpointer=saver).ainvoke({"question": tasks[0].input}, thread)
        asked = [json.dumps(one.body) for one in server.asked]
    journal.close()
    assert CANARY.encode() not in weights
    file = tmp_path / "journal.sqlite"
    assert_not_planted(left_behind(asked, found, file, saver, traces.traced_runs), tasks[0])
