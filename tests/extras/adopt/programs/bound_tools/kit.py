from langchain.agents import create_agent
from langchain_core.messages import SystemMessage
from langchain_core.tools import StructuredTool, tool


class Library:
    """A library of books."""

    def __init__(self, owner: str):
        self.owner = owner
        self.books = ["Emma", "Ulysses"]

    def find(self, title: str) -> str:
        """Find a book by its title."""
        return f"{title} stands on shelf 3." if title in self.books else "We do not have this book."

    def lend(self, title: str) -> str:
        """Lend a book to the reader."""
        return f"{self.owner} has lent {title}."

    def get_tools(self):
        return [
            StructuredTool.from_function(self.find),
            StructuredTool.from_function(func=self.lend, description="Lend a book for two weeks."),
        ]


def make_hours_tool(place: str):
    @tool
    def hours() -> str:
        """Return the opening hours."""
        return f"{place} opens at nine."

    return hours


library = Library("The city library")
graph = create_agent(
    model="openai:gpt-5-mini",
    tools=library.get_tools() + [make_hours_tool("The reading room")],
    system_prompt=SystemMessage(
        content=[
            {"type": "text", "text": "You are a librarian."},
            {"type": "text", "text": "Whisper.", "cache_control": {"type": "ephemeral"}},
        ]
    ),
)
