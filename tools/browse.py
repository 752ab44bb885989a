"""Opens a whole page of a local corpus by its title, and lists the other pages that it names."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.protocols import Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.tools.search import Document, SearchTool
from selfwire.tools.text_input import get_text, make_text_schema

BROWSE = "browse"
LINKS = 10
"""Most links below a page."""
SUGGESTIONS = 5


class BrowseTool:
    """A page reader over documents.

    Args:
        documents: the pages; of several with one title the first is opened.
        name: of the tool.
    """

    def __init__(self, documents: Sequence[Document], name: str = BROWSE) -> None:
        self.documents = tuple(documents)
        self.name = name

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input for the model."""
        return ToolSpec(
            name=self.name,
            description="Open the page of a title and read the whole of it; ends with the pages that it names.",
            parameters=make_text_schema("title", "Title of the page."),
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """The page: its title on a numbered line, its text, and its links.

        Raises:
            ToolError: there is no title in the input, or no such page; pages with a similar title are named.
        """
        title = get_text(arguments, "title", self.name)
        page = self._pages.get(_key(title))
        if page is None:
            near = ", ".join(self._similar(title)) or "none"
            raise ToolError(f"there is no page {title.strip()!r}; pages with a similar title: {near}")
        links = self.links(page)
        return f"[1] {page.title}\n{page.text}" + (f"\n\nPages named here: {'; '.join(links)}" if links else "")

    def links(self, page: Document) -> tuple[str, ...]:
        """Titles of other pages in a page's text, in the order of the text."""
        text = page.text.lower()
        places = {text.find(key): one.title for key, one in self._pages.items() if key != _key(page.title)}
        return tuple(title for place, title in sorted(places.items()) if place >= 0)[:LINKS]

    @cached_property
    def _pages(self) -> dict[str, Document]:
        return {_key(one.title): one for one in reversed(self.documents)}

    def _similar(self, title: str) -> list[str]:
        """Titles with words in common, those with most first."""
        wanted = set(_key(title).split())
        shared = {one.title: len(wanted & set(key.split())) for key, one in self._pages.items()}
        found = [one for one, count in shared.items() if count]
        return sorted(found, key=lambda one: (-shared[one], one))[:SUGGESTIONS]


def with_pages(tools: Toolbox) -> dict[str, Tool]:
    """The tools, with a page reader for a local search if there is no `browse` yet."""
    searches = [tool for tool in tools.values() if isinstance(tool, SearchTool)]
    if not searches or BROWSE in tools:
        return dict(tools)
    return {**tools, BROWSE: BrowseTool(searches[0].documents)}


def _key(title: str) -> str:
    return " ".join(title.lower().split())
