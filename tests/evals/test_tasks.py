"""Tasks of one's own."""

from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.evals.tasks import read_tasks


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "tasks.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_tasks_are_read_in_order(tmp_path: Path) -> None:
    text = """\ufeff{"id": "q1", "input": "Who?", "reference": ["Ada", "Lovelace"], "kind": "bridge", "entities": ["e"]}

{"input": "How\\u2028many?", "reference": 3}
{"id": 7, "input": "Why?"}
"""
    assert read_tasks(written(tmp_path, text)) == (
        Task(id="q1", input="Who?", reference=["Ada", "Lovelace"], kind="bridge", entities=("e",)),
        Task(id="line-3", input="How\u2028many?", reference=3),
        Task(id="7", input="Why?"),
    )


GOOD = '{"id": "a", "input": "Who?", "reference": "Ada"}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + '{"input": "Who?"', r"tasks\.jsonl, line 2: not JSON \(Expecting ',' delimiter at column 17\)"),
        (GOOD + "\n[1]", r"line 3: a task is a JSON object, not list"),
        (GOOD + '{"reference": "x"}', r"line 2: input: Field required"),
        (GOOD + '{"input": "  "}', r"line 2: input: String should match"),
        (GOOD + '{"input": 3}', r"line 2: input: Input should be a valid string"),
        (GOOD + '{"input": "x", "answer": "y"}', r"line 2: answer: Extra inputs are not permitted"),
        (GOOD + '{"input": "x", "reference": NaN}', r"line 2: reference: Input should be a finite number"),
        (GOOD + GOOD, r"line 2: id 'a' is already in line 1"),
        (GOOD.encode() + b'{"input": "\xff"}', r"line 2: not UTF-8"),
        ("", r"holds no task"),
        ("\n \n", r"holds no task"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_tasks(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.jsonl cannot be read: No such file"):
        read_tasks(tmp_path / "none.jsonl")
