"""EvoMAS as LangGraph: `build` makes the graph in Python, `graph` serves it, `machine.py` is the paper's figure.

`method.py` is the method that evaluations call, `stage.py` a stage as a team.
"""

from selfwire.graphs.evomas.build import build
from selfwire.graphs.evomas.method import Evomas
from selfwire.graphs.evomas.serve import graph
from selfwire.graphs.evomas.state import EvomasContext

__all__ = ["Evomas", "EvomasContext", "build", "graph"]
