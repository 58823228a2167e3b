"""Where an episode starts: seeded draws of the agent's position, the block's pose and the goal's."""

import math
from typing import NamedTuple

import numpy as np

from rnce.envs.pusht.coverage import coverage
from rnce.envs.pusht.geometry import (
    AGENT_RADIUS,
    BLOCK_REACH,
    SAFE_HIGH,
    SAFE_LOW,
    Point,
    Pose,
    centre_of_gravity,
)

INITS = ("uniform", "legacy", "near_goal")


class Start(NamedTuple):
    """Agent and block at the start; `exact` is false where gym-pusht's way of placing the block has to be followed."""

    agent: Point
    block: Pose
    exact: bool


def draw_start(init: str, rng: np.random.Generator, seed: int | None, goal: Pose, threshold: float) -> Start:
    """Draw a start state.

    `"uniform"` gives what gym-pusht 0.1.8 gives for the same seed, `"legacy"` what the original environment of
    Diffusion Policy gave, and `"near_goal"` a block that one or two pushes bring home.
    """
    if init == "uniform":
        return _uniform(rng)
    if init == "legacy":
        # The old environment made a generator of each episode's seed; without one, take a seed from ours.
        return _legacy(int(rng.integers(2**31)) if seed is None else seed % 2**32)
    return _near_goal(rng, goal, threshold)


def draw_goal(rng: np.random.Generator) -> Pose:
    """A goal anywhere, at any angle, with the whole T inside the walls."""
    x, y = rng.uniform(SAFE_LOW, SAFE_HIGH, size=2).tolist()
    return Pose(x, y, float(rng.uniform(0.0, 2 * math.pi)))


def _uniform(rng: np.random.Generator) -> Start:
    agent = float(rng.integers(50, 450)), float(rng.integers(50, 450))
    block = float(rng.integers(100, 400)), float(rng.integers(100, 400))
    return Start(agent, Pose(*block, float(rng.uniform(-math.pi, math.pi))), exact=False)


def _legacy(seed: int) -> Start:
    rng = np.random.RandomState(seed)  # the recorded demonstrations start from its draws
    agent = float(rng.randint(50, 450)), float(rng.randint(50, 450))
    block = float(rng.randint(100, 400)), float(rng.randint(100, 400))
    return Start(agent, Pose(*block, float(rng.randn() * 2 * math.pi - math.pi)), exact=False)


def _near_goal(rng: np.random.Generator, goal: Pose, threshold: float) -> Start:
    """A block 5 to 30 px and up to 20° off the goal, not yet solved; an agent that does not touch it."""
    while True:
        distance, direction = rng.uniform(5.0, 30.0), rng.uniform(-math.pi, math.pi)
        block = Pose(
            min(max(float(goal.x + distance * math.cos(direction)), SAFE_LOW), SAFE_HIGH),
            min(max(float(goal.y + distance * math.sin(direction)), SAFE_LOW), SAFE_HIGH),
            float(goal.angle + rng.uniform(-math.pi / 9, math.pi / 9)),
        )
        agent_x, agent_y = rng.uniform(50.0, 450.0, size=2).tolist()
        clear = math.dist((agent_x, agent_y), centre_of_gravity(block)) > BLOCK_REACH + AGENT_RADIUS
        if clear and coverage(block, goal) <= threshold:
            return Start((agent_x, agent_y), block, exact=True)
