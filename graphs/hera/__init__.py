"""HERA as LangGraph: `build` makes the graph, `graph` serves it, `state_graph.py` is the paper's figure.

`method.py` is the method that the outer evolution calls, `learning.py` the nodes that learn.
"""

from selfwire.graphs.hera.descriptor import DESCRIPTOR
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.state import HeraContext

build, graph = DESCRIPTOR.build, DESCRIPTOR.graph

__all__ = ["DESCRIPTOR", "Hera", "HeraContext", "build", "graph"]
