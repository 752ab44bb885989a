from .graph import graph as graph
