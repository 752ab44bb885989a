from studio.agents.base import BaseAgent, REGISTRY
from studio.agents import critic as _critic, painter as _painter  # noqa: F401  (registers)

__all__ = ["BaseAgent", "REGISTRY"]
