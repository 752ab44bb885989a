from .graph import make_graph

__all__ = ["make_graph"]
