from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict

import yaml
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import (
    ChatPromptTemplate,
    FewShotChatMessagePromptTemplate,
    PromptTemplate,
)
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

CONFIG_DIR = Path(__file__).parent / "config"


class PromptBook:
    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def data(self) -> dict:
        return yaml.safe_load(self.path.read_text())["prompts"]

    def get(self, *keys: str):
        node = self.data
        for key in keys:
            node = node[key]
        return node


book = PromptBook(CONFIG_DIR / "prompts.yaml")
llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)

example = ChatPromptTemplate.from_messages([("human", "{mail}"), ("ai", "{label}")])
shots = FewShotChatMessagePromptTemplate(example_prompt=example, examples=book.get("classify", "few_shot"))
classify_chain = (
    ChatPromptTemplate.from_messages([("system", book.get("classify", "system")), shots, ("human", "{mail}")])
    | llm
    | StrOutputParser()
    | RunnableLambda(lambda s: s.strip().lower())
)
SIGNATURE = PromptTemplate.from_template(
    "Add a signature for {{office}} to this reply:\n{{reply}}", template_format="mustache"
)


class Mail(TypedDict, total=False):
    mail: str
    label: str
    reply: str


def classify(state: Mail) -> Mail:
    return {"label": classify_chain.invoke({"mail": state["mail"]})}


def pick(state: Mail) -> Literal["absence", "trip", "other"]:
    return state["label"] if state["label"] in ("absence", "trip") else "other"


def answer_with(kind: str):
    prompt = PromptTemplate.from_template(book.get("reply", kind))
    chain = {"mail": RunnablePassthrough()} | prompt | llm | StrOutputParser()
    return RunnableLambda(lambda state: {"reply": chain.invoke(state["mail"])})


sign_chain = SIGNATURE.partial(office="the school office") | llm


graph_builder = StateGraph(Mail)
graph_builder.add_node("classify", classify)
for kind in ["absence", "trip", "other"]:
    graph_builder.add_node(kind, answer_with(kind))
    graph_builder.add_edge(kind, "sign")
graph_builder.add_node("sign", lambda s: {"reply": sign_chain.invoke({"reply": s["reply"]}).content})
graph_builder.add_edge(START, "classify")
graph_builder.add_conditional_edges("classify", pick)
graph_builder.add_edge("sign", END)
graph = graph_builder.compile()
