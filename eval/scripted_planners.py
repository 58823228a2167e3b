"""Policies that plan by search instead of learning: for the demo until a trained one ships, and as a yardstick.

`rnce eval rnce.eval.scripted_planners:GridPlanner --seeds 50000:50025`
"""

import numpy as np
from numpy.typing import NDArray

from rnce.envs.path_planning import segment_clearance
from rnce.envs.pusht import PushTEnv
from rnce.envs.pusht.geometry import CANVAS, OUTLINE, Pose, centre_of_gravity, transform

Points = NDArray[np.float64]


class GridPlanner:
    """Path planning: the shortest way over a grid, pulled tight, walked in equal steps."""

    env_id = "PathPlanning-v0"
    name = "scripted grid planner"
    n_params = 0

    def __init__(self, margin: float = 0.03, cells: int = 61, moves: int = 49) -> None:
        self._margin, self._cells, self._moves = margin, cells, moves
        self._plan: list[Points] = []

    def reset(self, seed: int | None = None) -> None:
        """Forget the plan."""
        self._plan = []

    def act(self, observation: dict[str, Points]) -> Points:
        """The next waypoint of the plan that was made at the start."""
        if not self._plan:
            obstacles = observation["obstacles"] + [0.0, 0.0, self._margin]
            corners = shortest_path(observation["position"], observation["goal"], obstacles, self._cells)
            self._plan = list(equal_steps(pulled_tight(corners, obstacles), self._moves)[1:])
        return self._plan.pop(0)


def shortest_path(start: Points, goal: Points, obstacles: Points, cells: int) -> Points:
    """Corners (n, 2) of the shortest free path over a grid; the straight line where the grid knows none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    axis = np.linspace(-1, 1, cells)
    nodes = np.concatenate([np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2), [start, goal]])
    index = np.arange(cells * cells).reshape(cells, cells)
    edges = [
        np.stack([index[:-1].ravel(), index[1:].ravel()], -1),
        np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], -1),
        np.stack([index[:-1, :-1].ravel(), index[1:, 1:].ravel()], -1),
        np.stack([index[:-1, 1:].ravel(), index[1:, :-1].ravel()], -1),
    ]
    for end in (len(nodes) - 2, len(nodes) - 1):  # start and goal reach the four nodes around them
        near = np.argsort(((nodes[:-2] - nodes[end]) ** 2).sum(-1))[:4]
        edges.append(np.stack([np.full(4, end), near], -1))
    pairs = np.concatenate(edges)
    free = (segment_clearance(nodes[pairs], obstacles) > 0).all(axis=(-2, -1))
    pairs = pairs[free]
    lengths = np.linalg.norm(nodes[pairs[:, 0]] - nodes[pairs[:, 1]], axis=-1)
    graph = coo_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(len(nodes), len(nodes))).tocsr()
    before = dijkstra(graph, directed=False, indices=len(nodes) - 2, return_predecessors=True)[1]
    way = [len(nodes) - 1]
    while way[-1] != len(nodes) - 2:
        if before[way[-1]] < 0:
            return np.stack([start, goal])
        way.append(int(before[way[-1]]))
    return nodes[way[::-1]]


def pulled_tight(corners: Points, obstacles: Points) -> Points:
    """Leave out every corner that can be: from each, go straight to the farthest one in sight."""
    kept = [0]
    while kept[-1] < len(corners) - 1:
        ahead = corners[kept[-1] + 1 :]
        segments = np.stack([np.broadcast_to(corners[kept[-1]], ahead.shape), ahead], axis=1)
        seen = np.flatnonzero((segment_clearance(segments, obstacles) > 0).all(axis=(-2, -1)))
        kept.append(kept[-1] + 1 + (int(seen[-1]) if len(seen) else 0))
    return corners[kept]


def equal_steps(corners: Points, moves: int) -> Points:
    """Waypoints (moves + 1, 2) along the corners, equally far apart."""
    distance = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=-1))])
    at = np.linspace(0, distance[-1], moves + 1)
    return np.stack([np.interp(at, distance, corners[:, axis]) for axis in range(2)], axis=-1)


class ShootingPusher:
    """Push-T: tries random pushes in a simulation of its own and does the one that leaves the block best."""

    env_id = "PushT-v0"
    name = "scripted shooting pusher"
    n_params = 0

    def __init__(self, tries: int = 96) -> None:
        self._tries = tries
        self._simulation = PushTEnv(render_mode=None)
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Forget the push under way; the same seed tries the same pushes."""
        self._rng = np.random.default_rng(seed)
        self._plan: list[Points] = []

    def act(self, observation: Points) -> Points:
        """The next target of the push under way, or of a new one."""
        if not self._plan:
            pushes = [random_push(self._rng, observation) for _ in range(self._tries)]
            self._plan = min((self._outcome(observation, push) for push in pushes), key=lambda outcome: outcome[0])[1]
        return self._plan.pop(0)

    def _outcome(self, state: Points, push: Points) -> tuple[float, list[Points]]:
        """The best pose error on the way, in pixels of the block's edge, and the push up to there."""
        _, info = self._simulation.reset(options={"state": state})
        best, until = np.inf, len(push)
        for step, target in enumerate(push):
            _, _, terminated, _, info = self._simulation.step(target)
            shift, turn = info["pose_error"]
            error = abs(shift) + 60.0 * abs(turn) + 0.02 * step  # half a bar's length turns radians into pixels
            if error < best:
                best, until = error, step + 1
            if terminated:
                return -1.0, list(push[: step + 1])
        return best, list(push[:until])


def random_push(rng: np.random.Generator, state: Points, stride: float = 30.0) -> Points:
    """Targets (n, 2): around the block to a random place on its edge, then into it."""
    pose = Pose(*state[2:])
    edge = rng.integers(len(OUTLINE))
    a, b = (np.array(p) for p in transform((OUTLINE[edge], OUTLINE[(edge + 1) % len(OUTLINE)]), pose))
    outward = np.array([b[1] - a[1], a[0] - b[0]]) / np.linalg.norm(b - a)
    contact = a + rng.uniform(0.1, 0.9) * (b - a)
    direction = outward + rng.normal(0, 0.15, 2)
    before, after = contact + 40.0 * direction, contact + (15.0 - rng.uniform(2, 60)) * direction
    corners = np.concatenate([way_around(state[:2], before, np.array(centre_of_gravity(pose))), [after]])
    n_moves = max(2, round(np.linalg.norm(np.diff(corners, axis=0), axis=-1).sum() / stride))
    settle = np.repeat(corners[-1:], 3, axis=0)  # the disc lags behind its target
    return np.clip(np.concatenate([equal_steps(corners, n_moves)[1:], settle]), 0, CANVAS)


def way_around(start: Points, end: Points, centre: Points, radius: float = 125.0) -> Points:
    """Corners from start to end along a circle about the block, the shorter way round."""
    angle_from, angle_to = (np.arctan2(*(point - centre)[::-1]) for point in (start, end))
    turn = (angle_to - angle_from + np.pi) % (2 * np.pi) - np.pi
    if abs(turn) < 0.3:
        return np.stack([start, end])
    angles = angle_from + np.linspace(0, 1, 2 + int(abs(turn) / 0.4)) * turn
    arc = centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return np.concatenate([[start], arc, [end]])
