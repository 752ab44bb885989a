from dataclasses import dataclass

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, SummarizationMiddleware, dynamic_prompt
from langchain.agents.structured_output import ToolStrategy
from pydantic import BaseModel, Field


@dataclass
class Context:
    role: str = "beginner"


class Answer(BaseModel):
    """The answer with its sources."""

    answer: str = Field(description="The answer, in two sentences.")
    sources: list[str]


@dynamic_prompt
def by_role(request: ModelRequest) -> str:
    base = "You are a helpful assistant."
    if request.runtime.context.role == "expert":
        return f"{base} Provide detailed technical responses."
    return base + " Explain concepts simply."


assistant = create_agent(
    model="openai:gpt-4o",
    tools=[],
    middleware=[
        by_role,
        SummarizationMiddleware(model="openai:gpt-4o-mini", summary_prompt="Summarise the messages:\n{messages}"),
    ],
    response_format=ToolStrategy(Answer),
    context_schema=Context,
)
