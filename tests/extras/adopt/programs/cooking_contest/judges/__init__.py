from .app import graph as graph
