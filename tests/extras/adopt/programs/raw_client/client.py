import json
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from openai import OpenAI

client = OpenAI()
JUDGE = "You judge answers. Reply with JSON."


class State(TypedDict):
    question: str
    answer: str
    score: str


def ask(system: str, user: str) -> str:
    reply = client.chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
    )
    return reply.choices[0].message.content


def answer(state: State) -> dict:
    return {"answer": ask("You answer questions.", state["question"])}


def judge(state: State) -> dict:
    reply = ask(JUDGE, f"Question: {state['question']}\nAnswer: {state['answer']}")
    return {"score": json.loads(reply)["score"]}


workflow = StateGraph(State)
workflow.add_node("answer", answer)
workflow.add_node("judge", judge)
workflow.add_edge(START, "answer")
workflow.add_edge("answer", "judge")
workflow.add_edge("judge", END)


def make_graph():
    return workflow.compile()
