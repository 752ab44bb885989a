"""DyTopo as LangGraph: `build` makes the graph in Python, `graph` serves it, `machine.py` is the paper's figure.

`method.py` is the method that evaluations call; `Report` is what a run came to.
"""

from selfwire.evolvers.dytopo.report import Report
from selfwire.graphs.dytopo.build import build
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.serve import graph
from selfwire.graphs.dytopo.state import DytopoContext

__all__ = ["Dytopo", "DytopoContext", "Report", "build", "graph"]
