"""Routers of no method: every successor, and a fixed plan."""

from collections.abc import Mapping, Sequence

from selfwire.core.protocols import Router, RouterInput
from selfwire.core.trajectory import Routing


def route_to_all(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
    """Choose all successors."""
    return Routing(chosen=successors, why="every successor")


def make_fixed_router(plan: Mapping[str, Sequence[str]]) -> Router:
    """Choose as in a plan of successors by node; a node that is not in it hands on to none."""

    def choose(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        wanted = plan.get(node, ())
        return Routing(chosen=tuple(s for s in successors if s in wanted), why="fixed plan")

    return choose
