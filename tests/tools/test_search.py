from typing import Any

import pytest

from selfwire.core.errors import ToolError
from selfwire.core.ports import Tool
from selfwire.core.scope import Scope
from selfwire.tools.search import Document, SearchTool

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
