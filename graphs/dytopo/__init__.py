"""DyTopo as LangGraph: `build` makes the graph in Python, `graph` serves it, `state_graph.py` is the paper's figure.

`method.py` is the method that evaluations call. `Report.of(state)` reads a run off its final state; its `text` is for
people.
"""

from selfwire.evolvers.dytopo.report import Report
from selfwire.graphs.dytopo.descriptor import DESCRIPTOR
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state import DytopoContext

build, graph = DESCRIPTOR.build, DESCRIPTOR.graph

__all__ = ["DESCRIPTOR", "Dytopo", "DytopoContext", "Report", "build", "graph"]
