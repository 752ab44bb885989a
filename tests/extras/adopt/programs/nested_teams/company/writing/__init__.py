from company.writing.graph import graph as writing_graph

__all__ = ["writing_graph"]
