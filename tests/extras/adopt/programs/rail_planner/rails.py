"""Travel assistant with middleware."""
from dataclasses import dataclass, field

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, dynamic_prompt, wrap_model_call, SummarizationMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.messages import SystemMessage
from langchain_core.tools import tool

STYLES = {
    "brief": "Answer in one sentence and name one price.",
    "long": "Answer in three paragraphs with a plan for each day.",
}
BASE = "You plan journeys by train across Europe."


@dataclass
class Traveller:
    style: str = "brief"
    budget: int = 300
    note: str = field(default="Travellers prefer day trains.", metadata={"langgraph_type": "prompt"})


@tool(parse_docstring=True)
def timetable(origin: str, target: str) -> str:
    """Look up trains between two cities.

    Args:
        origin: Where the journey begins.
        target: Where the journey ends.
    """
    return "No trains run today, ask for another day."


@dynamic_prompt
def by_style(request: ModelRequest) -> str:
    ctx = request.runtime.context
    parts = [BASE, STYLES[ctx.style], ctx.note]
    return "\n\n".join(parts)


class Guard(AgentMiddleware):
    def before_model(self, state, runtime):
        if len(state["messages"]) > 20:
            return {"messages": [SystemMessage("Come to an end now, the talk is long.")]}
        return None


@wrap_model_call
def retry_politely(request, handler):
    request.messages.append(("user", "Mind that prices are in euros."))
    return handler(request)


graph = create_agent(
    init_chat_model("openai:gpt-5-mini"),
    tools=[timetable],
    middleware=[by_style, Guard(), retry_politely, SummarizationMiddleware(model="openai:gpt-5-nano", summary_prompt="Shorten this talk: {messages}")],
    context_schema=Traveller,
)
