from operator import add
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from .library import get_prompt, load_critics, load_locales


class Job(TypedDict, total=False):
    text: str
    locale: str
    draft: str
    remarks: Annotated[list[str], add]
    answer: str


llm = ChatOpenAI(model="gpt-4o", temperature=0)


def translate(state: Job) -> Job:
    locale = load_locales()[state.get("locale", "de")]
    system = get_prompt("translate", language=locale["name"], house_style=locale["style"])
    return {"draft": llm.invoke([("system", system), ("user", state["text"])]).text}


def make_critic(entry: dict):
    def criticise(state: Job) -> Job:
        locale = load_locales()[state.get("locale", "de")]
        prompt = entry["prompt"].format(language=locale["name"])
        reply = llm.invoke([("system", prompt), ("user", f"Source: {state['text']}\n\nTranslation: {state['draft']}")])
        return {"remarks": [reply.text]}

    return criticise


def polish(state: Job) -> Job:
    remarks = "\n".join(state["remarks"])
    messages = [("system", get_prompt("polish")), ("user", f"{state['draft']}\n\nRemarks:\n{remarks}")]
    return {"answer": llm.invoke(messages).text}


builder = StateGraph(Job)
builder.add_node("translate", translate)
builder.add_node("polish", polish)
builder.add_edge(START, "translate")
for critic in load_critics():
    builder.add_node(critic["id"], make_critic(critic))
    builder.add_edge("translate", critic["id"])
    builder.add_edge(critic["id"], "polish")
builder.add_edge("polish", END)
graph = builder.compile()
