"""A small bot."""

from .graph import graph

__all__ = ["graph"]
