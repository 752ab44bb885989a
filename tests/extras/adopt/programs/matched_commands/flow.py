from typing import Literal

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send

llm = ChatOpenAI(model="gpt-5-mini")
ROUTES = {"a": "alpha", "b": "beta"}
Target = Literal["alpha", "beta", "fan"]


class Sub(MessagesState):
    pass


def leave(state: Sub) -> Command:
    reply = llm.invoke([("system", "Say where you leave to."), *state["messages"]])
    return Command(graph=Command.PARENT, goto="beta", update={"messages": [reply]})


sub = StateGraph(Sub).add_node(leave).add_edge(START, "leave").compile()


def pick(state: MessagesState) -> Command[Target]:
    text = llm.invoke([("system", "Reply a, b or c."), *state["messages"]]).text.strip()
    match text:
        case "a" | "b":
            return Command(goto=ROUTES[text])
        case _:
            return Command(goto="fan")


def fan(state: MessagesState):
    return Command(goto=[Send("beta", {"messages": state["messages"]}), Send("gamma", state)])


def beta(state: MessagesState):
    return {"messages": [llm.invoke([("system", "You are beta."), *state["messages"]])]}


def gamma(state: MessagesState):
    return {"messages": [llm.invoke([("system", "You are gamma."), *state["messages"]])]}


g = StateGraph(MessagesState)
g.add_node("pick", pick)
g.add_node("alpha", sub)
g.add_node(fan)
g.add_node(beta)
g.add_node(gamma)
g.add_edge(START, "pick")
g.add_edge("beta", END)
g.add_edge("gamma", END)
graph = g.compile()
