import re
import sqlite3
from pathlib import Path

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

SQL = Path(__file__).parent / "sql"
SCHEMA = (SQL / "schema.sql").read_text()
HINT = (SQL / "hint.txt").read_text()
VIEW = "CREATE VIEW big AS SELECT * FROM orders WHERE total > 100"
SAMPLE = "SELECT customer, total FROM orders LIMIT 3"
FENCE = "```"

db = sqlite3.connect(":memory:", check_same_thread=False)
db.executescript(SCHEMA)
db.execute(VIEW)

llm = ChatOpenAI(model="gpt-4o")


class Ask(TypedDict):
    question: str
    query: str
    rows: list
    answer: str


def write_query(state: Ask):
    sample = db.execute(SAMPLE).fetchall()
    sys = SystemMessage(HINT + "\nTables:\n" + SCHEMA + "\nViews:\n" + VIEW + f"\nSample rows: {sample}")
    reply = llm.invoke([sys, HumanMessage(state["question"])]).content
    m = re.search(r"```(?:sql)?\s*(.*?)```", reply, re.S)
    return {"query": m.group(1) if m else reply}


def run(state: Ask):
    try:
        rows = db.execute(state["query"]).fetchall()
    except sqlite3.Error as exc:
        return {"rows": [f"error: {exc}"]}
    return {"rows": rows}


def repair(state: Ask):
    return {
        "query": llm.invoke(
            f"This query fails with {state['rows'][0]}. Repair it:\n{FENCE}sql\n{state['query']}\n{FENCE}"
        ).content
    }


def answer(state: Ask):
    return {
        "answer": llm.invoke(
            "Answer in a sentence. Question: {q} Rows: {r}".format(q=state["question"], r=state["rows"])
        ).content
    }


def failed(state: Ask):
    return "repair" if state["rows"] and str(state["rows"][0]).startswith("error") else "answer"


b = StateGraph(Ask)
b.add_node(write_query)
b.add_node(run)
b.add_node(repair)
b.add_node(answer)
b.add_edge(START, "write_query")
b.add_edge("write_query", "run")
b.add_conditional_edges("run", failed, path_map=["repair", "answer"])
b.add_edge("repair", "run")
b.add_edge("answer", END)
sql_agent = b.compile()
