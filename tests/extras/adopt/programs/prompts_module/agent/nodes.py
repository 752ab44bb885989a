from langchain_core.messages import HumanMessage, SystemMessage

from agent import prompts as p
from agent.llms import get_llm
from agent.prompts import SUMMARY_PROMPT

llm = get_llm()


def research(state):
    return {"notes": llm.invoke([SystemMessage(p.RESEARCHER), HumanMessage(state["question"])]).content}


def summarise(state):
    return {"summary": llm.invoke(SUMMARY_PROMPT.format(notes=state["notes"])).content}
