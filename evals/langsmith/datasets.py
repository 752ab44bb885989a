"""Tasks as a LangSmith dataset: one dataset per content, created once and reused.

References are uploaded only if the user allows it; graders read them from the tasks, never from the dataset.
"""

import uuid
from typing import Any

from langsmith import Client
from langsmith.schemas import Dataset, Example
from langsmith.utils import LangSmithNotFoundError
from pydantic import Field

from selfwire.core.task import Task
from selfwire.core.values import FrozenModel, fingerprint, to_plain_json

HERE = uuid.UUID(int=0)
"""Id of the dataset of examples that are not uploaded."""


class TaskSet(FrozenModel):
    """Tasks of one split; `references` says whether references may be uploaded as the examples' outputs."""

    benchmark: str
    split: str
    seed: int
    tasks: tuple[Task, ...] = Field(min_length=1)
    references: bool = False

    @property
    def content(self) -> str:
        """Fingerprint of the upload; equal tasks make one dataset, however they were chosen."""
        fields = {"id", "input", "kind", *(("reference",) if self.references else ())}
        return fingerprint([task.model_dump(mode="json", include=fields) for task in self.tasks])

    @property
    def name(self) -> str:
        """Name of the dataset: benchmark, split, number of tasks, and the beginning of the content's fingerprint."""
        labels = "-labelled" if self.references else ""
        return f"selfwire-{self.benchmark}-{self.split}-{len(self.tasks)}{labels}-{self.content[:8]}"


def make_examples(tasks: TaskSet, dataset: uuid.UUID = HERE) -> dict[str, Example]:
    """Examples of a dataset by task id, as it holds them; without one they are not uploaded.

    They have no outputs, even if the dataset has: no run needs references.
    """
    return {
        task.id: Example(
            id=uuid.uuid5(dataset, task.id),  # so that an interrupted upload can be completed
            dataset_id=dataset,
            inputs={"question": task.input},
            metadata={**_metadata(task, tasks), "dataset_split": [tasks.split]},  # as LangSmith adds it
        )
        for task in tasks.tasks
    }


def upload_examples(client: Client, tasks: TaskSet) -> dict[str, Example]:
    """Examples by task id, after creating the dataset or completing an existing one. Blocks; raises LangSmithError."""
    dataset = _open_dataset(client, tasks)
    examples = make_examples(tasks, dataset.id)
    uploaded = {example.id for example in client.list_examples(dataset_id=dataset.id)}
    missing = [task for task in tasks.tasks if examples[task.id].id not in uploaded]
    if missing:
        created = [_format_example(task, examples[task.id], tasks) for task in missing]
        client.create_examples(dataset_id=dataset.id, examples=created)
    return examples


def _open_dataset(client: Client, tasks: TaskSet) -> Dataset:
    try:
        found: Dataset = client.read_dataset(dataset_name=tasks.name)
        return found
    except LangSmithNotFoundError:
        described = f"{len(tasks.tasks)} tasks of {tasks.benchmark}, {tasks.split} split"
        facts = tasks.model_dump(exclude={"tasks"}) | {"content": tasks.content}
        return client.create_dataset(tasks.name, description=described, metadata=facts)


def _format_example(task: Task, example: Example, tasks: TaskSet) -> dict[str, Any]:
    outputs = {"reference_outputs": {"reference": to_plain_json(task.reference)}} if tasks.references else {}
    return {
        "id": example.id,
        "inputs": example.inputs,
        "metadata": _metadata(task, tasks),
        "split": tasks.split,
        **outputs,
    }


def _metadata(task: Task, tasks: TaskSet) -> dict[str, Any]:
    return {"task": task.id, "kind": task.kind, "split": tasks.split, "seed": tasks.seed}
