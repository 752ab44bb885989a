"""A planted reference is in nothing that TacoMAS sends, stores, traces or learns, though the environment has it."""

import json
from collections.abc import Iterable
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
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.graphs import tacomas
from selfwire.graphs.tacomas import Tacomas
from selfwire.runtime.journal import Journal
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import make_chat_model
from tests.graphs.canary import CANARY, assert_not_planted, left_behind, planted
from tests.graphs.grading import no_grade
from tests.wire.server import WireServer, served

CONFIG = TacomasConfig(rounds=3, interval=1, lessons=True)


async def graded(bench: Benchmark, method: Tacomas, tasks: Iterable[Task]) -> list[Trajectory]:
    """Solve and grade as an evaluation does, learn, and solve once more."""
    workflow, found = method.make_initial_workflow(bench.tools), list[Trajectory]()
    for _ in range(2):
        batch = []
        for task in tasks:
            assert CANARY in str(task.reference)
            done = await method.solve(workflow, task.question, scope=Scope(run="r", iteration=len(found), task=task.id))
            feedback = await bench.environment.grade(task, done.answer or "", scope=Scope())
            batch.append(done.with_feedback(feedback))
        found += batch
        workflow = (await method.evolve(workflow, batch, scope=Scope(), grade=no_grade)).workflow
    assert "lessons" in workflow.memory
    return found


@pytest.mark.slow
async def test_a_planted_reference_appears_nowhere(tmp_path: Path) -> None:
    bench = archive(40)
    tasks = planted(bench, 3)
    journal, saver = Journal.create(tmp_path / "journal.sqlite", run="r"), InMemorySaver()
    with WireServer(served(make_chat_model("offline"))) as server, collect_runs() as traces:
        model = make_chat_model("openai:local", base_url=server.url, api_key="none")
        found = await graded(bench, Tacomas(MeteredModel(model, journal=journal), bench.toolbox, CONFIG), tasks)
        graph = tacomas.build(model, tools=[*bench.toolbox.values()], config=CONFIG).compile(checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "1"}}
        await graph.ainvoke({"question": tasks[0].input}, thread)
        asked = [json.dumps(one.body) for one in server.asked]
    journal.close()
    file = tmp_path / "journal.sqlite"
    assert_not_planted(left_behind(asked, found, file, saver, traces.traced_runs), tasks[0])
