"""EvoMAS as LangGraph: `build` makes the graph, `graph` serves it, `state_graph.py` is the paper's figure.

`method.py` is the method that evaluations call, `stage.py` a stage as a team.
"""

from selfwire.graphs.evomas.descriptor import DESCRIPTOR
from selfwire.graphs.evomas.method import Evomas
from selfwire.graphs.evomas.state import EvomasContext

build, graph = DESCRIPTOR.build, DESCRIPTOR.graph

__all__ = ["DESCRIPTOR", "Evomas", "EvomasContext", "build", "graph"]
