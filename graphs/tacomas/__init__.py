"""TacoMAS as LangGraph: `build` makes the graph in Python, `machine.py` is the paper's figure.

`method.py` is the method that evaluations call.
"""

from selfwire.graphs.tacomas.build import build
from selfwire.graphs.tacomas.method import Tacomas

__all__ = ["Tacomas", "build"]
