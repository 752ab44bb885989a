from typing import List, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from legal.prompts import PROMPTS
from legal.statutes import search

llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)


class Legal(TypedDict, total=False):
    question: str
    query: str
    documents: List[Document]
    answer: str
    loops: int


def rewrite(state: Legal):
    reply = llm.invoke(PROMPTS.rewrite.format(question=state["question"]))
    return {"query": reply.text, "loops": state.get("loops", 0) + 1}


def retrieve(state: Legal):
    return {"documents": search(state["query"])}


def grade(state: Legal):
    kept = []
    for doc in state["documents"]:
        verdict = llm.invoke(
            [
                SystemMessage(content=PROMPTS.grade),
                HumanMessage(content="Question: {}\nStatute: {}".format(state["question"], doc.page_content)),
            ]
        )
        if verdict.text.strip().lower() == "relevant":
            kept.append(doc)
    return {"documents": kept}


def answer(state: Legal):
    statutes = "\n---\n".join(d.page_content for d in state["documents"]) or "No statute was found."
    return {"answer": llm.invoke(PROMPTS.answer.format(statutes=statutes, question=state["question"])).text}


def decide(state: Legal):
    return "answer" if state["documents"] or state["loops"] > 1 else "rewrite"


g = StateGraph(Legal)
for fn in (rewrite, retrieve, grade, answer):
    g.add_node(fn.__name__, fn)
g.add_edge(START, "rewrite")
g.add_edge("rewrite", "retrieve")
g.add_edge("retrieve", "grade")
g.add_conditional_edges("grade", decide, {"answer": "answer", "rewrite": "rewrite"})
g.add_edge("answer", END)
graph = g.compile()
