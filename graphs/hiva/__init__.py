"""HiVA as LangGraph: `machine.py` is the paper's figure, `method.py` the method that the outer evolution calls."""
