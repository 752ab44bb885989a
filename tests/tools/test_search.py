from pathlib import Path
from typing import Any

import pytest

from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.tools.search import Document, SearchTool, read_documents

DOCUMENTS = (
    Document(title="Brol Works", text="Brol Works was founded in 1901 by Ada Tron."),
    Document(title="Ada Tron", text="Ada Tron was born in Vask."),
    Document(title="Vask", text="Vask is a city in Prund."),
)


async def test_passages_come_best_first_as_numbered_blocks() -> None:
    tool: Tool = SearchTool(DOCUMENTS, k=2)
    found = await tool.run({"query": "Where was Ada Tron born?"}, scope=Scope())
    assert found == (
        "[1] Ada Tron\nAda Tron was born in Vask.\n\n[2] Brol Works\nBrol Works was founded in 1901 by Ada Tron."
    )


async def test_a_title_counts_more_than_a_mention() -> None:
    (found,) = await SearchTool(DOCUMENTS, k=1).passages("Vask")
    assert found.title == "Vask"


async def test_nothing_in_common_finds_nothing() -> None:
    assert await SearchTool(DOCUMENTS).run({"query": "zebra"}, scope=Scope()) == "No passage matches."
    assert await SearchTool(()).run({"query": "zebra"}, scope=Scope()) == "No passage matches."


@pytest.mark.parametrize("arguments", [{}, {"query": " "}, {"query": 3}])
async def test_an_input_without_a_query_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="query"):
        await SearchTool(DOCUMENTS).run(arguments, scope=Scope())


def test_the_fingerprint_is_that_of_the_documents() -> None:
    assert SearchTool(DOCUMENTS).fingerprint == SearchTool(DOCUMENTS, k=1).fingerprint
    assert SearchTool(DOCUMENTS).fingerprint != SearchTool(DOCUMENTS[:2]).fingerprint


def test_a_search_returns_at_least_one_passage() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SearchTool(DOCUMENTS, k=0)


def test_a_corpus_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text(
        '\ufeff{"title": "Vask", "text": "A city.\u2028By the sea.", "id": 7}\r\n\n{"title": "", "text": "x"}\n',
        encoding="utf-8",
    )
    assert read_documents(file) == (
        Document(title="Vask", text="A city.\u2028By the sea."), Document(title="", text="x"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not json", "line 2 is no document"),
        ('{"title": "Vask"}', "line 2 is no document \\(text: Field required"),
        ('{"title": 3, "text": "x"}', "line 2 is no document \\(title: Input should be a valid string"),
        ('["Vask", "x"]', "line 2 is no document"),
        ("[" * 100_000, "line 2 is no document"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"title": "a", "text": "b"}\n' + line)
    with pytest.raises(ConfigError, match=told):
        read_documents(file)


def test_a_corpus_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\x00")
    for name, told in (("empty", "has no documents"), ("latin", "cannot be read"), ("none", "cannot be read")):
        with pytest.raises(ConfigError, match=told):
            read_documents(tmp_path / name)


def test_a_corpus_may_be_large_and_says_where_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.core.values.MOST_READ", 1_000)
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"title": "A", "text": "b"}\n' * 100)
    assert len(read_documents(file)) == 100
    monkeypatch.setattr("selfwire.core.values.MOST_OF_A_FILE", 2_000)
    told = r"corpus .* cannot be read: it has more than the 2,000 characters that are read; give a smaller one$"
    with pytest.raises(ConfigError, match=told):
        read_documents(file)
