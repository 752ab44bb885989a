"""HiVA as LangGraph: `build` makes the graph in Python, `graph` serves it, `machine.py` is the paper's figure.

`method.py` is the method that the outer evolution calls.
"""

from selfwire.graphs.hiva.build import build
from selfwire.graphs.hiva.serve import graph
from selfwire.graphs.hiva.state import HivaContext

__all__ = ["HivaContext", "build", "graph"]
