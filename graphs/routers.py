"""Routers that no paper owns: every successor, and a plan fixed beforehand."""

from collections.abc import Mapping, Sequence

from selfwire.core.protocols import Router, RouterInput
from selfwire.core.trajectory import Routing


def route_to_all(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
    """Choose all successors."""
    return Routing(chosen=successors, why="every successor")


def make_fixed_router(plan: Mapping[str, Sequence[str]]) -> Router:
    """Choose what a plan says; a node that the plan does not name hands on to nobody.

    Args:
        plan: node id to the successors that it hands on to; those without an edge are left out.
    """

    def planned(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        wanted = plan.get(node, ())
        return Routing(chosen=tuple(s for s in successors if s in wanted), why="fixed plan")

    return planned
