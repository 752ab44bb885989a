from react_agent.graph import graph

__all__ = ["graph"]
