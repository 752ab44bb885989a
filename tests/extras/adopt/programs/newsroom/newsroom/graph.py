from langgraph.graph import END, START, StateGraph

from . import nodes
from .state import Story


def is_clear(story: Story) -> bool:
    return all("CLEAR" in note for note in story.notes[-1:])


def make_graph():
    builder = StateGraph(Story)
    builder.add_sequence([nodes.report, ("edit", nodes.edit)])
    builder.add_node("facts", nodes.fact_check)
    builder.add_node("legal", nodes.legal)
    builder.add_node("headline", nodes.headline)
    builder.add_edge(START, "report")
    for check in ("facts", "legal"):
        builder.add_edge("edit", check)
    builder.add_edge("facts", "legal")
    builder.add_conditional_edges("legal", is_clear, {True: "headline", False: "edit"})
    builder.add_edge("headline", END)
    return builder.compile()
