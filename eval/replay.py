"""Episodes seen again from their kept actions: the environments are deterministic, so nothing else need be stored."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from rnce.eval.environments import make_env
from rnce.eval.settings import Episode, Settings


class Recorded(Protocol):
    """Episodes with the settings that made them: a result, or what was kept of one."""

    @property
    def settings(self) -> Settings:
        """How they were made."""
        ...

    @property
    def episodes(self) -> list[Episode]:
        """Some of them with their actions."""
        ...


class Recording(NamedTuple):
    """The episodes whose actions were kept."""

    settings: Settings
    episodes: list[Episode]


class Track(NamedTuple):
    """What happened in one episode, step by step, the start first."""

    observations: list[Any]
    infos: list[dict[str, Any]]
    frames: list[np.ndarray]  # empty unless rendered


def replay(settings: Settings, episode: Episode, render: bool = False) -> Track:
    """Run the kept actions of an episode again."""
    if episode.actions is None:
        raise ValueError(f"the actions of seed {episode.seed} rollout {episode.rollout} were not kept (keep_actions)")
    options = dict(settings.env_options) | ({"render_mode": "rgb_array"} if render else {})
    env = make_env(settings.env, settings.max_steps, **options)
    observation, info = env.reset(seed=episode.seed)
    track = Track([observation], [info], [])
    if render:
        track.frames.append(_frame(env))
    for action in episode.actions:
        observation, _, _, _, info = env.step(np.asarray(action))
        track.observations.append(observation)
        track.infos.append(info)
        if render:
            track.frames.append(_frame(env))
    env.close()
    return track


def path_of(track: Track) -> np.ndarray:
    """Waypoints (n, 2) of a path-planning episode."""
    return np.stack([observation["position"] for observation in track.observations])


def _frame(env: Any) -> np.ndarray:
    return np.asarray(env.render(), dtype=np.uint8)
