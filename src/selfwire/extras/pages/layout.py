"""Places of nodes: the union of all versions is laid out once, so that no node moves between versions."""

from collections.abc import Iterable
from itertools import pairwise

from selfwire.core.values import FrozenModel
from selfwire.extras.pages.data import TeamVersion

SPACING = (186.0, 84.0)
"""Between centres of neighbours in a layer, and between layers."""
_UNIT = 72.0
"""Between layers, in the units of the library."""
_NARROW = 0.25
"""Width of an edge that passes a layer, as a share of a node's."""

Point = tuple[float, float]


class Route(FrozenModel):
    """The points through which an edge goes, its ends among them."""

    source: str
    target: str
    points: tuple[Point, ...]


class TeamLayout(FrozenModel):
    """Where the nodes and edges of all versions lie: centres by node, and how edges run."""

    nodes: dict[str, Point]
    routes: tuple[Route, ...]
    width: float
    height: float


def lay_out_team(versions: Iterable[TeamVersion]) -> TeamLayout:
    """Sugiyama's layers over the union of all versions, parts that no edge joins side by side."""
    from fast_sugiyama import from_edges

    versions = tuple(versions)
    edges = sorted({(link.source, link.target) for version in versions for link in version.links})
    joined = sorted({node for edge in edges for node in edge})
    number = {name: place for place, name in enumerate(joined)}  # texts would be ordered by their hashes
    places: dict[str, Point] = {}
    routes: list[Route] = []
    right = 0.0
    laid_out = from_edges([(number[a], number[b]) for a, b in edges], dummy_size=_NARROW) if edges else ()
    for found, width, height, parts in laid_out:
        positions = {int(node): point for node, point in found}
        wide = _scale_width(point for node, point in positions.items() if node < len(joined))
        here = {node: (right + x * wide, (height - y) / _UNIT * SPACING[1]) for node, (x, y) in positions.items()}
        places |= {joined[node]: point for node, point in here.items() if node < len(joined)}
        routes += _follow(joined, here, [(int(start), int(end)) for start, end in parts or ()])
        right += width * wide + SPACING[0]
    for alone in sorted({node for version in versions for node in version.nodes} - places.keys()):
        places[alone] = (right, 0.0)
        right += SPACING[0]
    everywhere = [*places.values(), *(point for route in routes for point in route.points)]
    return TeamLayout(
        nodes=dict(sorted(places.items())),
        routes=tuple(routes),
        width=max((x for x, _ in everywhere), default=0.0),
        height=max((y for _, y in places.values()), default=0.0),
    )


def _scale_width(points: Iterable[Point]) -> float:
    """The factor by which no two nodes of a layer overlap."""
    layers: dict[float, list[float]] = {}
    for x, y in points:
        layers.setdefault(y, []).append(x)
    gaps = [b - a for row in layers.values() for a, b in pairwise(sorted(row)) if b > a]
    return SPACING[0] / min(gaps, default=_UNIT * 2)


def _follow(names: list[str], places: dict[int, Point], parts: Iterable[tuple[int, int]]) -> Iterable[Route]:
    """The routes of edges, which the library cuts where they pass a layer."""
    following: dict[int, list[int]] = {}
    for start, end in parts:
        following.setdefault(start, []).append(end)
    for start in sorted(following):
        if start >= len(names):
            continue
        for end in following[start]:
            through = [start, end]
            while through[-1] >= len(names):
                through += following[through[-1]]
            points = tuple(places[node] for node in through)
            yield Route(source=names[start], target=names[through[-1]], points=points)
