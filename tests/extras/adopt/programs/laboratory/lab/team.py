from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI

from .prompts import read_prompt

fast = ChatOpenAI(model="gpt-4o-mini")
strong = ChatOpenAI(model="gpt-4o")


def molar_mass(formula: str) -> float:
    """Compute the molar mass of a formula such as H2O."""
    return {"H2O": 18.0}.get(formula, 0.0)


chemist = create_agent(fast, [molar_mass], system_prompt=read_prompt("chemist"), name="chemist")
writer = create_agent(fast, system_prompt=read_prompt("writer"), name="writer")


@tool
def ask_chemist(question: str) -> str:
    """Ask the chemist about substances, amounts and hazards."""
    result = chemist.invoke({"messages": [{"role": "user", "content": f"The head of the lab asks: {question}"}]})
    return result["messages"][-1].text


@tool
def ask_writer(notes: str) -> str:
    """Have the writer turn notes into a protocol."""
    return writer.invoke({"messages": [("user", notes)]})["messages"][-1].text


head = create_agent(strong, [ask_chemist, ask_writer], system_prompt=read_prompt("head"), name="head")
