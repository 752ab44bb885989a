from langchain.agents import create_agent
from langchain_core.tools import Tool, tool

from tools import MATH_TOOLS, make_tools

extra = []


@tool
def now() -> str:
    """Tell the time."""
    return "It is noon."


extra.append(now)
all_tools = [*MATH_TOOLS, *make_tools()] + extra  # noqa: RUF005
all_tools.append(Tool("shout", str.upper, "Shout a text."))


def pre_model_hook(state):
    return {"llm_input_messages": state["messages"][-5:]}


class Assistant:
    PROMPT = """You are an assistant.
You have tools."""

    def create(self):
        return create_agent(model="anthropic:claude-sonnet-4-0", tools=all_tools, system_prompt=self.PROMPT)


agent = Assistant().create()
