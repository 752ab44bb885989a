from typing import TypedDict

from langchain_anthropic import ChatAnthropic
from langgraph.graph import END, START, StateGraph

llm = ChatAnthropic(model_name="claude-3-5-haiku-latest")


class SectionState(TypedDict):
    title: str
    queries: list[str]
    section: str


class ReportState(TypedDict):
    title: str
    section: str
    report: str


def plan_queries(state: SectionState):
    found = llm.invoke(f"Write three search queries about {state['title']}, one a line.")
    return {"queries": found.content.splitlines()}


def write_section(state: SectionState):
    queries = "\n".join(f"- {query}" for query in state["queries"])
    return {"section": llm.invoke(f"Write a section titled {state['title']}.\nAnswer these:\n{queries}").content}


section_builder = StateGraph(SectionState)
section_builder.add_node("plan_queries", plan_queries)
section_builder.add_node("write_section", write_section)
section_builder.add_edge(START, "plan_queries")
section_builder.add_edge("plan_queries", "write_section")
section_builder.add_edge("write_section", END)


def compile_report(state: ReportState):
    return {"report": "# " + state["title"] + "\n\n" + state["section"]}


builder = StateGraph(ReportState)
builder.add_node("section", section_builder.compile())
builder.add_node("compile_report", compile_report)
builder.set_entry_point("section")
builder.add_edge("section", "compile_report")
builder.set_finish_point("compile_report")
graph = builder.compile()
