"""Gymnasium environments: Push-T and obstacle path planning."""

from typing import Any

from gymnasium.envs.registration import register, registry

__all__ = ["ENVIRONMENTS", "register_environments"]

# Arguments of `gymnasium.register`; entry points are strings, so nothing is imported before it is made.
ENVIRONMENTS: tuple[dict[str, Any], ...] = (
    {"id": "PushT-v0", "entry_point": "rnce.envs.pusht:PushTEnv", "max_episode_steps": 200},
    {
        "id": "PushTEasy-v0",
        "entry_point": "rnce.envs.pusht:PushTEnv",
        "max_episode_steps": 200,
        "kwargs": {"init": "near_goal"},
    },
    {
        "id": "PushTPixels-v0",
        "entry_point": "rnce.envs.pusht:PushTEnv",
        "max_episode_steps": 200,
        "kwargs": {"obs_type": "pixels_agent_pos"},
    },
    {
        "id": "PathPlanning-v0",
        "entry_point": "rnce.envs.path_planning.env:PathPlanningEnv",
        "vector_entry_point": "rnce.envs.path_planning.vector_env:PathPlanningVectorEnv",
    },
)


def register_environments() -> None:
    """Add the environments to Gymnasium's registry; doing it twice changes nothing."""
    for spec in ENVIRONMENTS:
        if spec["id"] not in registry:
            register(**spec)
