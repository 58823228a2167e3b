"""Obstacle-avoiding path planning in the plane: geometry and cost as pure functions, and the environments on top."""

from rnce.envs.path_planning.geometry import (
    CostTerms,
    CostWeights,
    collided,
    min_clearance,
    obstacle_cost,
    path_cost,
    segment_clearance,
    segment_distance,
)
from rnce.envs.path_planning.scenes import (
    Scene,
    SceneParams,
    check_scene,
    sample_scene,
    sample_scenes,
    scene_for_seed,
    scenes_for_seeds,
)

__all__ = [
    "CostTerms",
    "CostWeights",
    "Scene",
    "SceneParams",
    "check_scene",
    "collided",
    "min_clearance",
    "obstacle_cost",
    "path_cost",
    "sample_scene",
    "sample_scenes",
    "scene_for_seed",
    "scenes_for_seeds",
    "segment_clearance",
    "segment_distance",
]
