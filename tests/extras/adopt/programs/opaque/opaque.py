import os

from company_prompts import WELCOME, get_style
from langchain import hub
from langchain_core.messages import SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

llm = ChatOpenAI(model=os.environ["MODEL"])
prompt = hub.pull("rlm/rag-prompt")
suffix = os.environ["NODE_SUFFIX"]


def answer(state: MessagesState):
    chain = prompt | llm
    return {"messages": [chain.invoke({"question": state["messages"][-1].content, "context": ""})]}


def greet(state: MessagesState):
    return {"messages": [llm.invoke([SystemMessage(WELCOME), *state["messages"]])]}


def style(state: MessagesState):
    return {"messages": [llm.invoke([SystemMessage(content=get_style("formal")), *state["messages"]])]}


def sign(state: MessagesState):
    system = os.getenv("SIGN_PROMPT", "Sign the letter.")
    return {"messages": [llm.invoke([SystemMessage(content=system), *state["messages"]])]}


def route(state: MessagesState):
    return state["messages"][-1].additional_kwargs["next"]


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_node("greet", greet)
builder.add_node("style", style)
builder.add_node("sign_" + suffix, sign)
builder.add_edge(START, "answer")
builder.add_conditional_edges("answer", route)
builder.add_edge("greet", END)
graph = builder.compile()
