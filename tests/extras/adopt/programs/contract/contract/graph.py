from typing import TypedDict

from langchain.chat_models import init_chat_model
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph

from contract.config import Configuration, Depth
from contract.prompts import CITE


class ContractState(TypedDict):
    contract: str
    clauses: list[str]
    risks: list[str]
    summary: str


class ReviewState(TypedDict):
    clause: str
    risk: str
    second: str


def review(state: ReviewState, config: RunnableConfig):
    conf = Configuration.from_runnable_config(config)
    parts = [conf.review_prompt]
    if conf.cite:
        parts.append(CITE)
    if conf.jurisdiction:
        parts.append(f"The law of {conf.jurisdiction} applies.")
    llm = init_chat_model(conf.model)
    messages = [{"role": "system", "content": " ".join(parts)}, {"role": "user", "content": state["clause"]}]
    return {"risk": llm.invoke(messages).text}


def second_look(state: ReviewState, config: RunnableConfig):
    conf = Configuration.from_runnable_config(config)
    prompt = "A colleague rated a clause. Argue against the rating.\n\nClause: %s\nRating: %s" % (
        state["clause"],
        state["risk"],
    )
    return {"second": init_chat_model(conf.model).invoke(prompt).text}


def needs_second(state: ReviewState, config: RunnableConfig):
    return "second_look" if Configuration.from_runnable_config(config).depth == Depth.THOROUGH else "__end__"


inner = StateGraph(ReviewState)
inner.add_node("review", review)
inner.add_node("second_look", second_look)
inner.set_entry_point("review")
inner.add_conditional_edges("review", needs_second, ["second_look", "__end__"])
inner.set_finish_point("second_look")
reviewer = inner.compile()


def extract(state: ContractState, config: RunnableConfig):
    conf = Configuration.from_runnable_config(config)
    text = conf.extract_prompt.format(contract=state["contract"], max_clauses=conf.max_clauses)
    found = init_chat_model(conf.model).invoke(text).text
    return {"clauses": found.splitlines()[: conf.max_clauses]}


def review_all(state: ContractState, config: RunnableConfig):
    done = reviewer.batch([{"clause": c} for c in state["clauses"]], config)
    return {"risks": [r["risk"] for r in done]}


async def summarise(state: ContractState, config: RunnableConfig):
    conf = Configuration.from_runnable_config(config)
    chunks = []
    async for chunk in init_chat_model(conf.model).astream(
        [
            ("system", "Summarise the risks of a contract for a manager in three bullet points."),
            ("human", "\n\n".join(state["risks"])),
        ]
    ):
        chunks.append(chunk.text)
    return {"summary": "".join(chunks)}


builder = StateGraph(ContractState, context_schema=Configuration)
builder.add_node("extract", extract)
builder.add_node("review_all", review_all)
builder.add_node("summarise", summarise)
builder.set_entry_point("extract")
builder.add_edge("extract", "review_all")
builder.add_edge("review_all", "summarise")
builder.set_finish_point("summarise")
graph = builder.compile()
graph.name = "Contract reviewer"
