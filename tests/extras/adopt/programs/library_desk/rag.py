from typing import Literal

from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

FAQ = [
    Document(page_content="The library opens at nine.", metadata={"source": "hours"}),
    Document("Late books cost ten cents a day.", metadata={"source": "fees"}),
]
NOTICES = ["The lift is broken until Friday.", "The reading room is closed for repairs."]

store = InMemoryVectorStore(DeterministicFakeEmbedding(size=32))
store.add_documents(FAQ)
notices = InMemoryVectorStore.from_texts(NOTICES, embedding=DeterministicFakeEmbedding(size=32))
retriever = notices.as_retriever(search_kwargs={"k": 1})

llm = init_chat_model("openai:gpt-4o-mini")

LABELS = ("hours", "fees", "other")


class Grade(BaseModel):
    """Relevance of a document."""

    binary_score: Literal["yes", "no"] = Field(description="yes if the document helps to answer")


class RAG(TypedDict):
    question: str
    label: str
    context: list[Document]
    answer: str


answer_prompt = ChatPromptTemplate.from_messages(
    [
        (
            "human",
            "You are a librarian. Use the context to answer, else say so.\n"
            "Question: {question}\nContext: {context}\nAnswer:",
        )
    ]
)


def label(state: RAG):
    out = llm.invoke(f"Label the question as one of {', '.join(LABELS)}: {state['question']}").content.strip()
    return {"label": out if out in LABELS else "other"}


def retrieve(state: RAG):
    docs = store.similarity_search(state["question"], k=2)
    docs += retriever.invoke(state["question"])
    if not docs:
        docs = [Document(page_content="Nothing was found; ask at the desk.")]
    return {"context": docs}


def grade(state: RAG):
    grader = llm.with_structured_output(Grade)
    kept = [
        d
        for d in state["context"]
        if grader.invoke(f"Does this help?\n{d.page_content}\n\nQ: {state['question']}").binary_score == "yes"
    ]
    return {"context": kept}


def generate(state: RAG):
    text = "\n\n".join(doc.page_content for doc in state["context"])
    messages = answer_prompt.invoke({"question": state["question"], "context": text})
    return {"answer": llm.invoke(messages).content}


graph_builder = StateGraph(RAG).add_sequence([label, retrieve, grade, generate])
graph_builder.add_edge(START, "label")
graph = graph_builder.compile()
