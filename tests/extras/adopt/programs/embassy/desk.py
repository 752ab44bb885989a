"""Sub-agents as tools of a main agent."""

from datetime import date

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, after_agent, wrap_model_call
from langchain.tools import tool
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

MODEL = ChatOpenAI(model="gpt-4.1")


def persona(role: str, *rules: str) -> str:
    bullets = "".join(f"\n- {rule}" for rule in rules)
    return f"You are the {role} of an embassy.{bullets}"


VISA = persona("visa officer", "Ask for the passport.", "Never promise a date.")
visa = create_agent(MODEL, tools=[], system_prompt=VISA, name="visa")
consul = create_agent(model=MODEL, system_prompt=persona("consul"))


@tool
def ask_visa(question: str) -> str:
    """Ask the visa officer."""
    result = visa.invoke({"messages": [{"role": "user", "content": f"A visitor asks: {question}"}]})
    return result["messages"][-1].text


@tool("ask_consul", description="Ask the consul about lost papers.")
async def ask_consul_tool(question: str) -> str:
    result = await consul.ainvoke({"messages": [HumanMessage(question)]})
    return f"The consul says: {result['messages'][-1].text}"


class Calendar(AgentMiddleware):
    tools = []

    async def awrap_model_call(self, request: ModelRequest, handler):
        today = f"Today is {date.today():%A}."
        request = request.override(system_prompt=f"{request.system_prompt}\n{today}")
        return await handler(request)


@wrap_model_call
async def short(request, handler):
    last = request.messages[-1]
    if len(last.text) > 500:
        request = request.override(messages=[*request.messages, HumanMessage("Answer in one sentence.")])
    return await handler(request)


FORM = {
    "title": "Form",
    "description": "The form that the visitor needs.",
    "type": "object",
    "properties": {"number": {"type": "string", "description": "Number of the form, such as B12"}},
    "required": ["number"],
}

desk = create_agent(
    MODEL,
    [ask_visa, ask_consul_tool],
    system_prompt="You work at the front desk of an embassy. Pass questions on.",
    middleware=[Calendar(), short],
    response_format=FORM,
)
