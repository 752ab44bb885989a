from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from pkg import load as l
from pkg.load import AGENTS, BYE, GUIDE, HOTEL, PACK, env, load

llm = ChatOpenAI(model="gpt-5-mini")


class State(TypedDict):
    question: str
    plan: str
    answer: str


def plan(s: State):
    return {"plan": llm.invoke(load("plan").format(days=3) + "\n" + s["question"]).text}


def pack(s: State):
    return {"plan": llm.invoke([("system", PACK), ("human", s["plan"])]).text}


def hotel(s: State):
    chain = HOTEL | llm
    return {"plan": chain.invoke({"city": s["question"]}).text}


def food(s: State):
    text = env.get_template("food.jinja").render(city=s["question"], veggie=True)
    return {"plan": llm.invoke(text).text}


def critic(s: State):
    return {"plan": llm.invoke([("system", AGENTS["critic"]["prompt"]), ("human", s["plan"])]).text}


def guide(s: State):
    llm.invoke([("system", GUIDE), ("human", s["plan"])])
    return {"answer": llm.invoke([("system", BYE), ("human", s["plan"])]).text}


b = StateGraph(State)
steps = [plan, pack, hotel, food, critic, guide]
b.add_sequence(steps)
b.add_edge(START, "plan")
b.add_edge("guide", END)
graph = b.compile()
