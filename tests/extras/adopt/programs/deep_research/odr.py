import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal
import operator

from langchain.chat_models import init_chat_model
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    MessageLikeRepresentation,
    SystemMessage,
    filter_messages,
    get_buffer_string,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel, Field

CLARIFY = """These are the messages so far:
<Messages>
{messages}
</Messages>

Today's date is {date}. Assess whether you need to ask a clarifying question."""
LEAD = """You are a research supervisor. Today is {date}.
You may use at most {max_iterations} calls."""
COMPRESS = "Clean up the findings.\n"
COMPRESS_HUMAN = "All above messages are about research. Please clean up these findings."
FINAL = """Based on all the research, write a report:
<Findings>
{findings}
</Findings>
"""


class ClarifyWithUser(BaseModel):
    """Model for user clarification requests."""

    need_clarification: bool = Field(description="Whether the user needs to be asked.")
    question: str = Field(description="A question to ask the user.")


class ConductResearch(BaseModel):
    """Call this tool to conduct research on a specific topic."""

    topic: str = Field(description="The topic to research.")


class ResearchComplete(BaseModel):
    """Call this tool to indicate that the research is complete."""


@tool(description="Strategic reflection tool for research planning")
def think_tool(reflection: str) -> str:
    """Tool for strategic reflection. Replaced by the description."""
    return f"Reflection recorded: {reflection}"


class State(MessagesState):
    supervisor_messages: Annotated[list[MessageLikeRepresentation], operator.add]
    findings: str


configurable_model = init_chat_model(configurable_fields=("model", "max_tokens", "api_key"))


def get_today_str() -> str:
    return f"{date(2026, 1, 1):%a %b %d, %Y}"


async def clarify(state: State, config: RunnableConfig) -> Command[Literal["lead", "__end__"]]:
    model_config = {"model": "openai:gpt-5-mini", "max_tokens": 100, "tags": ["langsmith:nostream"]}
    model = (
        configurable_model.with_structured_output(ClarifyWithUser)
        .with_retry(stop_after_attempt=2)
        .with_config(model_config)
    )
    prompt = CLARIFY.format(messages=get_buffer_string(state["messages"]), date=get_today_str())
    response = await model.ainvoke([HumanMessage(content=prompt)])
    if not response.need_clarification and response.question:
        return Command(goto=END, update={"messages": [AIMessage(content=response.question)]})
    system = LEAD.format(date=get_today_str(), max_iterations=3)
    return Command(
        goto="lead",
        update={"supervisor_messages": [SystemMessage(content=system), HumanMessage(content="Research the sky.")]},
    )


async def lead(state: State, config: RunnableConfig) -> Command[Literal["compress"]]:
    model = configurable_model.bind_tools([ConductResearch, ResearchComplete, think_tool]).with_config(
        {"model": "openai:gpt-5-mini"}
    )
    response = await model.ainvoke(state.get("supervisor_messages", []))
    return Command(goto="compress", update={"supervisor_messages": [response]})


async def compress(state: State, config: RunnableConfig):
    synthesizer = configurable_model.with_config({"model": "openai:gpt-5"})
    messages = [m for m in state["supervisor_messages"] if not getattr(m, "tool_calls", None)]
    messages.append(HumanMessage(content=COMPRESS_HUMAN))
    messages = [SystemMessage(content=COMPRESS)] + messages
    attempts = 0
    while attempts < 2:
        try:
            response = await synthesizer.ainvoke(messages)
            return {"findings": str(response.content)}
        except Exception:
            attempts += 1
            continue
    return {"findings": "Error synthesizing research report: Maximum retries exceeded"}


async def report(state: State):
    final = FINAL.format(findings=state["findings"])
    return {
        "messages": [
            await configurable_model.with_config({"model": "openai:gpt-5"}).ainvoke([HumanMessage(content=final)])
        ]
    }


b = StateGraph(State)
b.add_node("clarify", clarify)
b.add_node("lead", lead)
b.add_node("compress", compress)
b.add_node("report", report)
b.add_edge(START, "clarify")
b.add_edge("compress", "report")
b.add_edge("report", END)
deep_researcher = b.compile()
