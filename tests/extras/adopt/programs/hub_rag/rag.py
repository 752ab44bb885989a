from operator import itemgetter
from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langsmith import Client

llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)
DOCS = [
    Document(page_content="The library opens at nine.", metadata={"source": "hours"}),
    Document(page_content="Cards cost five euros a year.", metadata={"source": "fees"}),
]


def load_prompt(name: str) -> ChatPromptTemplate:
    return Client().pull_prompt(name)


class State(MessagesState):
    question: str
    context: list[Document]


condense = ChatPromptTemplate.from_messages(
    [
        ("system", "Rephrase the last question so that it stands alone. Do not answer it."),
        MessagesPlaceholder("chat_history"),
        ("human", "{input}"),
    ]
)


def format_docs(docs):
    return "\n\n".join(f"[{d.metadata['source']}] {d.page_content}" for d in docs)


def retrieve_docs(query: str):
    words = set(query.lower().split())
    return [d for d in DOCS if words & set(d.page_content.lower().split())] or DOCS[:1]


answer_chain = (
    RunnableParallel(context=itemgetter("docs") | RunnableLambda(format_docs), question=itemgetter("question"))
    | RunnablePassthrough.assign(note=lambda x: "There are few sources." if len(x["context"]) < 50 else "")
    | ChatPromptTemplate.from_messages(
        [
            ("system", "Answer visitors of a library from the context alone.\n\n{context}\n\n{note}"),
            ("human", "{question}"),
        ]
    )
    | llm
)


def rewrite(state: State):
    *history, last = state["messages"]
    if not history:
        return {"question": last.text}
    chain = condense | llm | StrOutputParser()
    return {"question": chain.invoke({"chat_history": history, "input": last.text})}


def retrieve(state: State):
    return {"context": retrieve_docs(state["question"])}


def generate(state: State):
    return {"messages": [answer_chain.invoke({"docs": state["context"], "question": state["question"]})]}


def verify(state: State):
    prompt = load_prompt("library/verify-answer")
    check = (prompt | llm).invoke({"answer": state["messages"][-1].text, "context": format_docs(state["context"])})
    return {"messages": [check]}


graph = (
    StateGraph(State)
    .add_sequence([rewrite, retrieve, generate, verify])
    .add_edge(START, "rewrite")
    .compile(name="library")
)
