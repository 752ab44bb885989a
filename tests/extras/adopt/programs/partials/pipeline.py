import functools
from typing import TypedDict

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_mistralai import ChatMistralAI
from langgraph.graph import StateGraph

llm = ChatMistralAI(model="mistral-large-latest")


class State(TypedDict):
    text: str
    language: str
    summary: str
    title: str


def transform(state: State, instruction: str, field: str) -> dict:
    return {field: llm.invoke(f"{instruction}\n\n{state['text']}").content}


title_chain = PromptTemplate.from_template("Give a title to: {text}") | llm | StrOutputParser()
check = RunnableLambda(lambda state: {"language": llm.invoke("Which language is this? " + state["text"]).content})
polish = (
    ChatPromptTemplate([("system", "You polish {kind} texts."), ("human", "{text}")]).partial(kind="scientific") | llm
)

builder = StateGraph(State)
builder.add_node("summary", functools.partial(transform, instruction="Summarise the text.", field="summary"))
builder.add_node("title", lambda state: {"title": title_chain.invoke({"text": state["summary"]})})
builder.add_node("language", check)
builder.add_node("polish", polish)
builder.add_sequence([("first", lambda state: state), ("second", lambda state: state)])
builder.set_entry_point("language")
builder.add_edge("language", "summary")
builder.add_edge("summary", "title")
builder.add_edge("title", "polish")
builder.add_edge("polish", "first")
builder.set_finish_point("second")
graph = builder.compile()
