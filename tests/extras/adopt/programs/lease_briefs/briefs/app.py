from typing import TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.cache.memory import InMemoryCache
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy, RetryPolicy

from .prompts import load


class Brief(TypedDict):
    contract: str
    duties: str
    answer: str


class Settings(TypedDict, total=False):
    party: str


llm = ChatOpenAI(model="gpt-4.1-mini", max_retries=1)


async def extract(state: Brief) -> dict:
    system, user = load("extract")
    reply = await llm.ainvoke([SystemMessage(system), HumanMessage(user.format(contract=state["contract"]))])
    return {"duties": reply.text}


async def rate(state: Brief, runtime: Runtime[Settings]) -> dict:
    system, user = load("rate")
    party = (runtime.context or {}).get("party", "the tenant")
    reply = await llm.ainvoke([SystemMessage(system), HumanMessage(user.format(duties=state["duties"], party=party))])
    return {"answer": reply.text}


builder = StateGraph(Brief, context_schema=Settings)
builder.add_node("extract", extract, retry_policy=RetryPolicy(max_attempts=2), cache_policy=CachePolicy(ttl=60))
builder.add_node("rate", rate, retry_policy=[RetryPolicy(max_attempts=3)])
builder.add_edge(START, "extract")
builder.add_edge("extract", "rate")
builder.add_edge("rate", END)
app = builder.compile(cache=InMemoryCache())
