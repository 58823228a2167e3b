"""From episodes to (context, event) pairs: one window per time step, as index arrays."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

__all__ = ["Windows", "windows"]


class Windows(NamedTuple):
    """Row numbers into the step arrays of a dataset; `episode` numbers the episode of each window."""

    context: Int[np.ndarray, "n n_ctx"]
    event: Int[np.ndarray, "n n_pred"]
    episode: Int[np.ndarray, " n"]


def windows(episode_ends: Int[np.ndarray, " episodes"], n_ctx: int, n_pred: int) -> Windows:
    """One window for every time step of every episode.

    The window of time i holds the last `n_ctx` observations, o[i] being the newest, and the next
    `n_pred` actions, a[i] being the one taken on seeing o[i]. With n_ctx = 2 and n_pred = 4:

        time       0    1    2    3    4    5    6    7
        context              o2   o3                        seen at i = 3
        event                     a3   a4   a5   a6         decided at i = 3

    A rollout starts without a past and its history is filled with the first observation; so is the window's.
    After an episode's last action the target is held; so the window repeats it:

        i = 0      o0 o0 | a0 a1 a2 a3          i = 6      o5 o6 | a6 a7 a7 a7

    Windows never cross from one episode into the next. A planner that takes positions as actions
    (a[i] = p[i+1]) gets the history p[i-n_ctx+1 .. i] and the future p[i+1 .. i+n_pred].

    Args:
        episode_ends: For each episode, the number of the row after its last; increasing.
        n_ctx: Observations in a context.
        n_pred: Actions in an event.
    """
    for name, value in (("n_ctx", n_ctx), ("n_pred", n_pred)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    ends = np.asarray(episode_ends, dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    episode = np.repeat(np.arange(len(ends)), ends - starts)
    now = np.arange(len(episode))[:, None]
    first, last = starts[episode, None], ends[episode, None] - 1
    return Windows(
        context=np.maximum(now + np.arange(1 - n_ctx, 1), first),
        event=np.minimum(now + np.arange(n_pred), last),
        episode=episode,
    )
