from typing import Literal

from langchain.chat_models import init_chat_model
from langchain.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from assistant.memory import get_memory
from assistant.prompts import (
    agent_prompt,
    default_background,
    default_preferences,
    default_triage_instructions,
    triage_system_prompt,
    triage_user_prompt,
)


class RouterSchema(BaseModel):
    """Analyze the unread email and route it according to its content."""

    reasoning: str = Field(description="Step-by-step reasoning behind the classification.")
    classification: Literal["respond", "ignore", "notify"] = Field(
        description="The classification of an email: 'ignore' for irrelevant emails, "
        "'respond' for emails that need a reply",
    )


class State(MessagesState):
    email_input: str


@tool
def write_email(to: str, content: str) -> str:
    """Write and send an email."""
    return f"Email sent to {to} with content: {content}"


@tool
class Done(BaseModel):
    """E-mail has been sent."""

    done: bool


tools = [write_email, Done]
tools_by_name = {t.name: t for t in tools}
llm = init_chat_model("openai:gpt-5-mini", temperature=0.0)
llm_router = llm.with_structured_output(RouterSchema)
llm_with_tools = llm.bind_tools(tools, tool_choice="required")


def triage_router(state: State, store: BaseStore) -> Command[Literal["response_agent", "__end__"]]:
    """Analyze email content."""
    instructions = get_memory(store, ("email", "triage"), default_triage_instructions)
    system_prompt = triage_system_prompt.format(background=default_background, triage_instructions=instructions)
    user_prompt = triage_user_prompt.format(author="a@b", email_thread=state["messages"][-1].content)
    result = llm_router.invoke([{"role": "system", "content": system_prompt}, {"role": "user", "content": user_prompt}])
    if result.classification == "respond":
        goto = "response_agent"
        update = {"messages": [{"role": "user", "content": f"Respond to the email: {user_prompt}"}]}
    elif result.classification == "ignore":
        goto = END
        update = {}
    else:
        raise ValueError(f"Invalid classification: {result.classification}")
    return Command(goto=goto, update=update)


def llm_call(state: State, store: BaseStore):
    """LLM decides whether to call a tool or not."""
    preferences = get_memory(store, ("email", "prefs"), default_preferences)
    return {
        "messages": [
            llm_with_tools.invoke(
                [{"role": "system", "content": agent_prompt.format(date="Friday", preferences=preferences)}]
                + state["messages"]
            )
        ]
    }


def tool_handler(state: State):
    result = []
    for tool_call in state["messages"][-1].tool_calls:
        if tool_call["name"] == "Done":
            continue
        observation = tools_by_name[tool_call["name"]].invoke(tool_call["args"])
        result.append({"role": "tool", "content": observation, "tool_call_id": tool_call["id"]})
    return {"messages": result}


def should_continue(state: State) -> Literal["tool_handler", "__end__"]:
    for tool_call in getattr(state["messages"][-1], "tool_calls", []):
        if tool_call["name"] == "Done":
            return END
        return "tool_handler"
    return END


agent_builder = StateGraph(State)
agent_builder.add_node("llm_call", llm_call)
agent_builder.add_node("tool_handler", tool_handler)
agent_builder.add_edge(START, "llm_call")
agent_builder.add_conditional_edges("llm_call", should_continue, {"tool_handler": "tool_handler", END: END})
agent_builder.add_edge("tool_handler", "llm_call")
response_agent = agent_builder.compile()

overall = (
    StateGraph(State)
    .add_node(triage_router)
    .add_node("response_agent", response_agent)
    .add_edge(START, "triage_router")
)
email_assistant = overall.compile(store=InMemoryStore())
