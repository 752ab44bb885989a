"""DyTopo as LangGraph: `build` makes the graph, `graph` serves it, `state_graph.py` is the paper's figure.

`method.py` is the method that evaluations call; `Report` is what a run came to.
"""

from selfwire.graphs.dytopo.descriptor import DESCRIPTOR
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state import DytopoContext, Report

build, graph = DESCRIPTOR.build, DESCRIPTOR.graph

__all__ = ["DESCRIPTOR", "Dytopo", "DytopoContext", "Report", "build", "graph"]
