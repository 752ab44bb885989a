"""HERA as LangGraph: `build` makes the graph in Python, `graph` serves it, `machine.py` is the paper's figure.

`method.py` is the method that the outer evolution calls, `learning.py` the nodes that learn.
"""

from selfwire.graphs.hera.build import build
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.serve import graph
from selfwire.graphs.hera.state import HeraContext

__all__ = ["Hera", "HeraContext", "build", "graph"]
