"""HiVA as LangGraph: `build` makes the graph, `graph` serves it, `state_graph.py` is the paper's figure.

`method.py` is the method that the outer evolution calls.
"""

from selfwire.graphs.hiva.descriptor import DESCRIPTOR
from selfwire.graphs.hiva.state import HivaContext

build, graph = DESCRIPTOR.build, DESCRIPTOR.graph

__all__ = ["DESCRIPTOR", "HivaContext", "build", "graph"]
