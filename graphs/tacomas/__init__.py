"""TacoMAS as LangGraph: `build` makes the graph in Python, `graph` serves it, `machine.py` is the paper's figure.

`method.py` is the method that evaluations call.
"""

from selfwire.graphs.tacomas.build import build
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.serve import graph
from selfwire.graphs.tacomas.state import TacomasContext

__all__ = ["Tacomas", "TacomasContext", "build", "graph"]
