"""A model that knows the answers has full marks over the wire: question, tools, answer and grader fit together."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from selfwire.core.task import Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks import humaneval
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.table import read_results
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import start_evaluation
from selfwire.runs.spec import EvaluateSpec, Models, SystemSpec
from selfwire.tools.workbench.calls import parse_call
from tests.benchmark_data import needs_data
from tests.sandboxed import needs_sandbox
from tests.wire.server import WireServer

pytestmark = [pytest.mark.slow, needs_data, needs_sandbox]
TASKS = 6


def known(name: str) -> list[Task]:
    return list(load_benchmark(name).splits(0, train=0, gate=0, test=TASKS).test)


def solution(name: str, task: Task) -> str:
    if name == "humaneval":
        codes = {one["task_id"].replace("/", "-").lower(): one for one in humaneval.load_problems()}
        problem = codes[task.id]
        return f"```python\n{problem['prompt']}{problem['canonical_solution']}```"
    gold = to_plain_json(task.reference)
    forms = {"gsm8k": "#### {}", "math500": "It is \\boxed{{{}}}.", "bbh": "Answer: {}", "deepresearcher": "Answer: {}"}
    return forms[name].format(gold[0] if isinstance(gold, list) else gold)


def wishes(body: dict[str, Any], task: Task) -> AIMessage:
    results = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    calls = [parse_call(text) for text in to_plain_json(task.reference)]
    if len(results) < len(calls):
        wish = calls[len(results)]
        return AIMessage("", tool_calls=[{"name": wish.name, "args": dict(wish.arguments), "id": str(len(results))}])
    return AIMessage("Done.\nCalls:\n" + ("\n".join(text.partition("Done: ")[2] for text in results) or "none"))


@pytest.mark.parametrize("name", ["humaneval", "gsm8k", "math500", "bbh", "deepresearcher", "workbench"])
def test_a_model_that_knows_the_answers_has_full_marks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [task for task in known(name) if name != "workbench" or len(task.reference) < 8]
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    async def answer(body: dict[str, Any]) -> AIMessage:
        asked = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
        task = next(task for task in known(name) if task.input in asked)
        return wishes(body, task) if name == "workbench" else AIMessage(solution(name, task))

    with WireServer(answer) as server:
        models = Models(agent="openai:knowing", base_url=server.url)
        request = EvaluateSpec(
            benchmark=name, tasks=TASKS, entries=(SystemSpec(name="single", target="single"),), models=models
        )
        with start_evaluation(request, tmp_path, run="r") as run:
            run_sync(run.execute())
    _, rows = read_results(tmp_path / "runs" / "r" / "results.jsonl")
    scores = {row.task: row.score for row in rows if row.target == "single"}
    assert {task.id: scores[task.id] for task in tasks} == {task.id: 1 for task in tasks}
    assert len(scores) == TASKS
