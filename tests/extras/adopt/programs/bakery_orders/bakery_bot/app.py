from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

from . import nodes
from .config import Configuration


class GraphBuilder:
    def __init__(self, schema=MessagesState):
        self._graph = StateGraph(schema, context_schema=Configuration)

    def with_nodes(self) -> "GraphBuilder":
        self._graph.add_node("split", nodes.split, destinations=("order", "complaint", "joke"))
        for name, node in nodes.NODES.items():
            self._graph.add_node(name, node)
            self._graph.add_edge(name, END)
        self._graph.add_node("joke", nodes.joke)
        return self

    def with_edges(self) -> "GraphBuilder":
        self._graph.add_edge(START, "split")
        self._graph.add_edge("joke", END)
        return self

    def build(self):
        return self._graph.compile()


async def make_graph(config: RunnableConfig):
    return GraphBuilder().with_nodes().with_edges().build()
