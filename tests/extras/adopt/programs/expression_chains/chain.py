from operator import itemgetter
from typing import TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import (
    ChatPromptTemplate,
    FewShotChatMessagePromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
    SystemMessagePromptTemplate,
)
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-5-mini")

examples = [
    {"q": "What is the capital of Peru?", "a": "Lima, in one word."},
    {"q": "What is the capital of Chad?", "a": "N'Djamena, in one word."},
]
shots = FewShotChatMessagePromptTemplate(
    examples=examples,
    example_prompt=ChatPromptTemplate.from_messages([("human", "Q: {q}"), ("ai", "A: {a}")]),
)
answer_prompt = ChatPromptTemplate.from_messages(
    [
        SystemMessagePromptTemplate.from_template("You know geography. Today is {today}."),
        shots,
        MessagesPlaceholder("history", optional=True),
        HumanMessagePromptTemplate.from_template("{question}"),
    ]
).partial(today="Monday")
answer_chain = answer_prompt | llm | StrOutputParser()

pros = PromptTemplate.from_template("Give arguments for: {claim}") | llm | StrOutputParser()
cons = PromptTemplate.from_template("Give arguments against: {claim}") | llm | StrOutputParser()


def merge(sides: dict) -> str:
    return f"FOR {sides['pros']} AGAINST {sides['cons']}"


debate = (
    {"claim": itemgetter("answer")}
    | RunnableParallel(pros=pros, cons=cons, claim=RunnablePassthrough())
    | RunnableLambda(merge)
)


class State(TypedDict):
    question: str
    history: list[BaseMessage]
    answer: str
    verdict: str


def answer(state: State):
    return {"answer": answer_chain.invoke({"question": state["question"], "history": state.get("history", [])})}


builder = StateGraph(State)
builder.add_node("answer", answer)
builder.add_node(
    "debate", RunnablePassthrough.assign(verdict=debate) | itemgetter("verdict") | (lambda v: {"verdict": v})
)
builder.add_edge(START, "answer")
builder.add_edge("answer", "debate")
builder.add_edge("debate", END)
graph = builder.compile()
