"""TacoMAS as LangGraph: `build` makes the graph, `graph` serves it, `state_graph.py` is the paper's figure."""

from selfwire.graphs.tacomas.descriptor import DESCRIPTOR
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.state import TacomasContext

build, graph = DESCRIPTOR.build, DESCRIPTOR.graph

__all__ = ["DESCRIPTOR", "Tacomas", "TacomasContext", "build", "graph"]
