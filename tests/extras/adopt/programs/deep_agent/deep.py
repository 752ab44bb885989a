from deepagents import create_deep_agent
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field


class SearchInput(BaseModel):
    """Input of the search."""

    query: str = Field(description="What to look for.")


def run_search(query: str) -> str:
    """Search the archive."""
    return ARCHIVE.get(query, "Nothing was found.")


ARCHIVE = {"apples": "Apples are red.", "pears": "Pears are green."}
search = StructuredTool.from_function(
    func=run_search, name="archive_search", description="Searches the archive of articles.", args_schema=SearchInput
)
critique = {
    "name": "critique-agent",
    "description": "Used to critique the final report.",
    "prompt": "You are a dedicated editor. You critique a report.",
}
INSTRUCTIONS = """You are an expert researcher.

Write a report."""
agent = create_deep_agent(
    tools=[search],
    instructions=INSTRUCTIONS,
    subagents=[critique],
    model="anthropic:claude-sonnet-4-0",
)
