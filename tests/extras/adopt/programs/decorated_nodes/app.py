from itertools import pairwise

from langgraph.graph import END, START, MessagesState, StateGraph

from nodes import NODES

builder = StateGraph(MessagesState)
for name, fn in NODES.items():
    builder.add_node(name, fn)
for a, b in pairwise([START, *NODES, END]):
    builder.add_edge(a, b)
graph = builder.compile()
