"""How much of the goal the block covers: the exact area of the intersection of two T's."""

from rnce.envs.pusht.geometry import AREA, BAR, OUTLINE, STEM, Point, Pose, relative, transform


def coverage(block: Pose, goal: Pose) -> float:
    """Area of block ∩ goal over the area of the goal, in [0, 1].

    In the goal's frame the goal is two axis-aligned boxes, and cutting the block's outline to such a box takes only
    comparisons with four numbers: far cheaper than the intersection of general polygons.
    """
    outline = transform(OUTLINE, relative(block, goal))
    area = 0.0
    for left, right, top, bottom in (BAR, STEM):
        area += abs(_signed_area(_cut_to_band(_cut_to_band(outline, left, right), top, bottom)))
    return min(area / AREA, 1.0)


def _cut_to_band(polygon: list[Point], low: float, high: float) -> list[Point]:
    """The part of a polygon whose first coordinate lies in [low, high], with the coordinates swapped.

    Swapping makes two calls cut to a rectangle. Where a polygon that is not convex falls apart, the pieces stay
    joined by edges that run along the cut and back, which enclose no area.
    """
    if not polygon:
        return polygon
    xs = [x for x, _ in polygon]
    lowest, highest = min(xs), max(xs)
    if lowest >= high or highest <= low:
        return []
    if lowest < low:
        polygon = _cut(polygon, low, 1.0)
    if highest > high:
        polygon = _cut(polygon, high, -1.0)
    return [(y, x) for x, y in polygon]


def _cut(polygon: list[Point], bound: float, sign: float) -> list[Point]:
    """The part of a polygon with sign · (x − bound) ≥ 0 (one step of the Sutherland–Hodgman algorithm)."""
    kept: list[Point] = []
    x0, y0 = polygon[-1]
    inside0 = sign * (x0 - bound) >= 0.0
    for point in polygon:
        x, y = point
        inside = sign * (x - bound) >= 0.0
        if inside != inside0:
            kept.append((bound, y0 + (bound - x0) / (x - x0) * (y - y0)))
        if inside:
            kept.append(point)
        x0, y0, inside0 = x, y, inside
    return kept


def _signed_area(polygon: list[Point]) -> float:
    """Half the sum of cross products; coordinates in a T's frame are small, so nothing is lost to cancellation."""
    if not polygon:
        return 0.0
    total = 0.0
    x0, y0 = polygon[-1]
    for x, y in polygon:
        total += x0 * y - x * y0
        x0, y0 = x, y
    return total / 2
