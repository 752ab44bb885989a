"""Pages of a local corpus."""

import pytest

from selfwire.core.errors import ToolError
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.search import BrowseTool, Document, SearchTool, with_pages

PAGES = [
    Document(title="Brol Works", text="Founded by Elsa Graen in Futaerk."),
    Document(title="Elsa Graen", text="Born in 1899."),
    Document(title="Futaerk", text="A port. Elsa Graen was born there; Brol Works are based there."),
    Document(title="elsa graen", text="A second page of that name."),
]


async def opened(title: object) -> str:
    return await BrowseTool(PAGES).run({"title": title}, scope=Scope())


async def test_a_page_is_read_whole_and_names_the_pages_in_it() -> None:
    assert await opened("brol  works") == (
        "[1] Brol Works\nFounded by Elsa Graen in Futaerk.\n\nPages named here: Elsa Graen; Futaerk"
    )
    assert await opened("Elsa Graen") == "[1] Elsa Graen\nBorn in 1899."


@pytest.mark.parametrize("title", [None, "", "  ", 3])
async def test_a_title_is_needed(title: object) -> None:
    with pytest.raises(ToolError, match=r'needs an object \{"title"'):
        await opened(title)


async def test_a_page_that_is_not_there_is_named_with_similar_ones() -> None:
    with pytest.raises(ToolError, match=r"no page 'Elsa Brol'.*Brol Works"):
        await opened("Elsa Brol")
    with pytest.raises(ToolError, match=r"similar title: none"):
        await opened("zzz")


def test_a_local_search_brings_a_page_reader() -> None:
    search = SearchTool(PAGES)
    made = with_pages({"search": search})
    assert isinstance(made["browse"], BrowseTool)
    assert made["browse"].documents == search.documents
    own: Toolbox = {"search": search, "browse": CalculatorTool()}
    assert with_pages(own) == own
    assert set(with_pages({"calculator": CalculatorTool()})) == {"calculator"}
