from typing import TypedDict

from langchain.chat_models import init_chat_model
from langgraph.graph import StateGraph

from desk.texts import ERRORS, t


class State(TypedDict):
    lang: str
    name: str
    question: str
    answer: str


chat = init_chat_model(model="gpt-5-nano", model_provider="openai")


def greet(state: State):
    reply = chat.invoke([("system", t("greet", state.get("lang"))), ("user", state["question"])])
    return {"answer": reply.content or ERRORS["en"]}


def bye(state: State):
    system = t("bye", state.get("lang"), name=state.get("name", "guest"))
    reply = chat.invoke([("system", system), ("ai", state["answer"]), ("user", "Bye!")])
    return {"answer": reply.content}


flow = StateGraph(State)
flow.add_sequence([greet, bye])
flow.set_entry_point("greet")
flow.set_finish_point("bye")
graph = flow.compile(name="desk")
