from functools import lru_cache

from langchain.agents import create_agent
from langchain.agents.middleware import AgentState
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

from .handoff import make_handoff
from .specs import BY_NAME, SPECS, Spec


class State(MessagesState):
    active: str


class BankState(AgentState):
    active: str


@tool
def block_card(last_four: str) -> str:
    """Block a card by its last four digits."""
    return "Blocked. Tell the customer that a new card comes by post."


@tool
def file_report(text: str, amount: float) -> str:
    """File a report of fraud.

    Only after the customer has confirmed the amount.
    """
    return "Filed under %s for %.2f pounds." % (hash(text) % 100, amount)


TOOLS = {"cards": [block_card], "fraud": [file_report]}


@lru_cache
def llm(temperature: float = 0.0) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o-mini", temperature=temperature)


def make_agent(spec: Spec):
    tools = TOOLS.get(spec.name, []) + [make_handoff(to, why) for to, why in spec.handoffs.items()]
    return create_agent(llm(), tools, system_prompt=spec.full, name=spec.name, state_schema=BankState)


def route(state: State) -> str:
    return state.get("active") or "cards"


def build() -> StateGraph:
    g = StateGraph(State)
    for spec in SPECS:
        g.add_node(spec.name, make_agent(spec), destinations=tuple(BY_NAME))
    g.add_conditional_edges(START, route, list(BY_NAME))
    return g


graph = build().compile()
