"""Tasks of one's own from files: JSONL, JSON, CSV and Parquet."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.evals import readers, tasks
from selfwire.evals.readers import OwnData
from selfwire.evals.tasks import read_tasks, resolve_name


def written(folder: Path, text: str | bytes, name: str = "tasks.jsonl") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_tasks_are_read_in_order(tmp_path: Path) -> None:
    text = """\ufeff{"id": "q1", "input": "Who?", "reference": ["Ada", "Lovelace"], "kind": "bridge", "entities": ["e"]}

{"input": "How\\u2028many?", "reference": 3}
{"id": 7, "input": "Why?", "group": "page 3"}
"""
    read = read_tasks(written(tmp_path, text))
    assert read.tasks == (
        Task(id="q1", input="Who?", reference=["Ada", "Lovelace"], kind="bridge", entities=("e",)),
        Task(id="line-3", input="How\u2028many?", reference=3),
        Task(id="7", input="Why?", group="page 3"),
    )
    assert ["group" in task.model_dump() for task in read.tasks] == [False, False, True]  # as in older runs
    assert read.notes == ()


GOOD = '{"id": "a", "input": "Who?", "reference": "Ada"}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + '{"input": "Who?", "input": "When?"}', r"tasks\.jsonl, line 2: 'input' stands twice in an object"),
        (GOOD + '{"input": "Who?", "reference": {"a": 1, "a": 2}}', r"tasks\.jsonl, line 2: 'a' stands twice"),
        (GOOD + '{"input": "Who?"', r"tasks\.jsonl, line 2: not JSON \(Expecting ',' delimiter at column 17\)"),
        (GOOD + "\n[1]", r"line 3: a task is a JSON object, not list"),
        (GOOD + '{"reference": "x"}', r"line 2: input is missing; write the question$"),
        (GOOD + '{"input": null, "reference": "x"}', r"line 2: input is null; write the question$"),
        (GOOD + '{"input": "a\\ud800"}', r"line 2: input has half of a surrogate pair as its character 2; write the"),
        (
            GOOD + '{"input": "a", "reference": ["b", "\\udc00"]}',
            r"line 2: reference has half of a surrogate pair",
        ),
        ("{}\n" + GOOD, r'line 1: it has no field; write {"input": ..., "reference": ...}$'),
        (GOOD + '{"input": "  "}', r"line 2: the input is blank; write the question$"),
        (GOOD + '{"input": 3}', r"line 2: input: Input should be a valid string, not 3"),
        (GOOD + '{"input": "x", "answer": "y"}', r"line 2: answer: there is no such field; fields are id, input, ref"),
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


def test_a_file_that_breaks_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> bytes:
        raise OSError(5, "Input/output error")

    (tmp_path / "t.json").write_text("[]")
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(ConfigError, match=r"t\.json cannot be read: Input/output error"):
        read_tasks(tmp_path / "t.json")


def table(folder: Path, select: str, name: str = "tasks.parquet") -> Path:
    import duckdb  # not at the top: it complains at the end of what the collector was told to leave alone

    path = folder / name
    with duckdb.connect() as database:
        database.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


SUMS = [{"qid": "s1", "Question": "1 + 1?", "answer": "2"}, {"qid": "s2", "Question": "2, or\nmore?", "answer": "2"}]


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv", "t.tsv", "excel.csv", "utf16.csv", "t.parquet"])
def test_each_format_holds_the_same_tasks(tmp_path: Path, name: str) -> None:
    lines = "\n".join(map(json.dumps, SUMS))
    cells = 'qid,Question,answer\ns1,1 + 1?,2\n\ns2,"2, or\nmore?",2\n'
    texts: dict[str, str | bytes] = {
        "t.jsonl": lines,
        "t.json": json.dumps(SUMS, indent=1),
        "t.csv": cells,
        "t.tsv": cells.replace(",", "\t").replace("2\t or", "2, or"),
        "excel.csv": b"\xef\xbb\xbf" + cells.replace(",", ";").replace("2; or", "2, or").replace("\n", "\r\n").encode(),
        "utf16.csv": cells.encode("utf-16"),
    }
    path = written(tmp_path, texts[name], name) if name in texts else tmp_path / name
    if name not in texts:
        table(
            tmp_path, "FROM (VALUES ('s1', '1 + 1?', '2'), ('s2', '2, or\nmore?', '2')) t(qid, Question, answer)", name
        )
    read = read_tasks(path)
    more = "2, or\r\nmore?" if name == "excel.csv" else "2, or\nmore?"
    assert read.tasks == (Task(id="s1", input="1 + 1?", reference="2"), Task(id="s2", input=more, reference="2"))
    assert read.notes == (
        f"{name}: question from 'Question', reference from 'answer', id from 'qid'; guessed, --input-field and "
        "--reference-field say otherwise",
    )


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"prompt": "q", "completion": "a"}, ("prompt", "completion")),
        ({"input": "q", "output": "a", "note": 1}, ("input", "output")),
        ({"problem": "q", "solution": "long", "answer": "a"}, ("problem", "answer")),
        ({"instruction": "q", "response": "a"}, ("instruction", "response")),
        ({"Query": "q", "Final Answer": "a"}, ("Query", "Final Answer")),
    ],
)
def test_usual_pairs_of_fields_are_guessed(tmp_path: Path, fields: dict[str, object], found: tuple[str, str]) -> None:
    read = read_tasks(written(tmp_path, json.dumps(fields)))
    assert read.tasks == (Task(id="line-1", input="q", reference="a"),)
    assert f"question from {found[0]!r}, reference from {found[1]!r}" in read.notes[0]


def test_named_fields_may_be_nested_and_joined(tmp_path: Path) -> None:
    row = {"question": "Which?", "choices": ["a cat", "a dog"], "gold": {"text": ["b"]}, "id": [1], "level": 3}
    data = OwnData(input_fields=("question", "choices"), reference_field="gold.text")
    read = read_tasks(written(tmp_path, json.dumps(row)), data)
    joined = "question: Which?\n\nchoices: \n- a cat\n- a dog"
    assert read.tasks == (Task(id="line-1", input=joined, reference=["b"], kind="3"),)
    assert read.notes == (
        "tasks.jsonl: question from 'question + choices', reference from 'gold.text', id from 'id', kind from 'level'",
    )


def test_what_is_left_out_or_repeated_is_noted(tmp_path: Path) -> None:
    text = "question_id,question,answer,source\n1,Who?,Ada,x\n1,Who?,Ada,y\n2,Why?,,z\n"
    read = read_tasks(written(tmp_path, text, "t.csv"))
    assert [(task.id, task.reference) for task in read.tasks] == [
        ("line-2", "Ada"),
        ("line-3", "Ada"),
        ("line-4", None),
    ]
    assert read.notes[0].endswith("; not used: source")
    assert read.notes[1:] == (
        "'question_id' repeats itself, so tasks are called by their rows",
        "1 of 3 tasks repeat the question of another; these are never in two splits, "
        "and proofs and comparisons ask them once",
    )


TABLE = "question,answer\nWho?,Ada\n"


@pytest.mark.parametrize(
    ("name", "text", "data", "message"),
    [
        ("t.csv", TABLE + "Why?\n", {}, r"t\.csv, line 3: 1 cells, but the first line names 2"),
        ("t.csv", TABLE + "Why,not,so?\n", {}, r"line 3: 3 cells, .* between double quotes"),
        ("t.csv", TABLE + '"Wh"y?,x\n', {}, r"line 3: not CSV \("),
        ("t.csv", TABLE + '"Why\n\n,x\n', {}, r"line 3: not CSV \(unexpected end of data\)"),
        ("t.csv", TABLE + "x" * 200_000 + ",y\n", {}, r"line 3: not CSV \(a cell has more than 131,072 characters"),
        ("t.csv", "question,question\n", {}, r"line 1: two columns are called 'question'; rename one"),
        ("t.csv", TABLE.encode() + b"Caf\xe9,x\n", {}, r"line 3: not UTF-8 \(.*\); save it as UTF-8"),
        ("t.csv", b"\xff\xfeq\x00,\x00x", {}, r"line 1: not UTF-16 \(truncated data\)"),
        ("t.csv", TABLE + ",x\n", {}, r"line 3: 'question' is empty, not a question; .* with --input-field"),
        ("t.csv", "", {}, r"holds no task"),
        ("t.csv", "question,answer\n", {}, r"holds no task"),
        ("t.csv", "a,b\n1,2\n", {}, r"line 2: no field has .*; call it input, or name one .* fields are 'a', 'b'"),
        ("t.csv", TABLE, {"input_fields": ("quesion",)}, r"--input-field quesion: .* did you mean 'question'\? fields"),
        ("t.csv", TABLE, {"reference_field": "gold"}, r"--reference-field gold: .*t\.csv has no such field"),
        ("t.csv", TABLE, {"split": "test"}, r"--data-split test is for data sets of the Hugging Face Hub"),
        (
            "t.csv",
            "instruction,input\na,b\n",
            {},
            r"'instruction' or 'input'; .* --input-field instruction --input-fiel",
        ),
        ("t.json", '[{"question": "x"}, 3]', {}, r"t\.json, entry 2: a task is a JSON object, not int"),
        ("t.json", '[{"question": "x"},\n', {}, r"t\.json: not JSON \(.* at line 2, column 1\)"),
        ("t.json", b'[{"question": "\xff"}]', {}, r"t\.json: not UTF-8"),
        ("t.jsonl", '{"question": {"text": "x"}}', {}, r"line 1: 'question' is dict, not a question"),
        ("t.jsonl", '{"question": "x", "answer": "y"}\n{"question": "x"}', {}, r"line 2: no field 'answer' \(--ref"),
        (
            "t.jsonl",
            '{"question": "x", "answer": "y"}\n{}',
            {},
            r"line 2: no field 'question' \(.*\); the row is empty, tak",
        ),
        ("t.jsonl", '{"a": "x", "b": [{}]}', {"input_fields": ("a", "b")}, r"line 1: 'b' is nested; .* --input-field"),
        ("t.jsonl", "[" * 100_000, {}, r"line 1: nested too deeply"),
        ("t.parquet", "question", {}, r"t\.parquet: not Parquet, or damaged \("),
        ("t.parquet", b"", {}, r"t\.parquet: not Parquet, or damaged \("),
    ],
)
def test_a_fault_names_file_line_and_flag(
    tmp_path: Path, name: str, text: str | bytes, data: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_tasks(written(tmp_path, text, name), OwnData.model_validate(data))


def test_parquet_values_that_json_lacks_become_texts(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "SELECT 'When?' question, {day: DATE '2020-01-02', price: 1.50::DECIMAL(4, 2), odd: 'nan'::DOUBLE} answer, "
        "[1, 2] turns UNION ALL SELECT 'Why?', NULL, NULL ORDER BY turns",
        "[odd] *name?.parquet",
    )
    first, second = read_tasks(path).tasks
    assert first.reference == {"day": "2020-01-02", "price": "1.50", "odd": None}
    assert (second.id, second.reference) == ("row-2", None)
    bytes_path = table(tmp_path, "SELECT 'x' question, '\\xff'::BLOB answer")
    with pytest.raises(ConfigError, match=r"tasks\.parquet, row 1: reference: .*valid JSON"):
        read_tasks(bytes_path)


def test_damage_that_is_no_error_of_the_reader_is_told_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, "SELECT 'x' question")

    def connect(**_: object) -> None:
        raise RuntimeError("nanobind::str(): conversion error!")

    monkeypatch.setattr("duckdb.connect", connect)
    with pytest.raises(ConfigError, match=r"tasks\.parquet: not Parquet, or damaged \(nanobind::str\(\): conv"):
        read_tasks(path)


def test_parquet_without_the_extra_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        ConfigError, match=r"need the extra 'data': pip install 'selfwire\[data\]'; or save it as JSONL"
    ):
        read_tasks(tmp_path / "tasks.parquet")


def test_what_is_too_much_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.evals.tasks.MOST_ROWS", 2)
    read = read_tasks(written(tmp_path, '{"input": "a"}\n{"input": "b"}\n{"input": "c"}\n'))
    assert (len(read.tasks), read.notes) == (2, ("only the first 2 rows are read",))
    monkeypatch.setattr(readers, "MOST_BYTES", 10)
    with pytest.raises(ConfigError, match=r"has 0 MB, more than the 0 MB that are read; write a sample"):
        read_tasks(tmp_path / "tasks.jsonl")


def test_what_is_too_large_or_no_file_is_one_clear_error(tmp_path: Path) -> None:
    wide = written(tmp_path, ",".join(f"c{n}" for n in range(50_000)) + "\n", "wide.csv")
    with pytest.raises(ConfigError, match=r"wide\.csv has 50,000 columns, more than the 1,000 that are read"):
        read_tasks(wide)
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"pipe\.jsonl cannot be read: it is a pipe"):
        read_tasks(pipe)
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    with pytest.raises(ConfigError, match=r"loop\.jsonl cannot be read"):
        resolve_name(str(loop))
    with pytest.raises(ConfigError, match=r"loop\.jsonl cannot be read"):
        read_tasks(loop)


def test_of_a_packed_table_no_more_is_unpacked_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = table(tmp_path, "SELECT 'Who?' AS question, 'Ada' AS answer FROM range(3_000_000)", "many.parquet")
    monkeypatch.setattr(readers, "MOST_ROWS", 1000)
    monkeypatch.setattr(tasks, "MOST_ROWS", 1000)
    since = time.process_time()
    read = read_tasks(many)
    assert (len(read.tasks), read.notes[0]) == (1000, "only the first 1,000 rows are read")
    assert time.process_time() - since < 3
    wide = table(tmp_path, "SELECT " + ", ".join(f"1 AS c{n}" for n in range(1001)), "wide.parquet")
    with pytest.raises(ConfigError, match="1,001 columns"):
        read_tasks(wide)
    monkeypatch.setattr(readers, "MOST_BYTES", 100_000)
    long = table(tmp_path, "SELECT repeat('x', 1000) AS question FROM range(1000)", "long.parquet")
    with pytest.raises(ConfigError, match="MB of text when it is unpacked"):
        read_tasks(long)
