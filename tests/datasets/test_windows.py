"""A toy dataset of two episodes, its windows written out by hand."""

import numpy as np
import pytest

from rnce.datasets import Dataset, Windows, windows

# rows      0 1 2 3 | 4 5
ENDS = np.array([4, 6])


def test_windows_written_out_by_hand():
    cut = windows(ENDS, n_ctx=3, n_pred=4)
    assert cut.context.tolist() == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 2],
        [1, 2, 3],
        [4, 4, 4],
        [4, 4, 5],
    ]
    assert cut.event.tolist() == [
        [0, 1, 2, 3],
        [1, 2, 3, 3],
        [2, 3, 3, 3],
        [3, 3, 3, 3],
        [4, 5, 5, 5],
        [5, 5, 5, 5],
    ]
    assert cut.episode.tolist() == [0, 0, 0, 0, 1, 1]


def test_first_predicted_action_is_the_one_taken_now():
    cut = windows(np.array([50, 120]), n_ctx=2, n_pred=16)
    assert np.array_equal(cut.context[:, -1], np.arange(120))
    assert np.array_equal(cut.event[:, 0], np.arange(120))


def test_waypoints_as_actions_give_history_and_future():
    positions = np.arange(50.0)
    data = Dataset({"position": positions[:-1, None], "action": positions[1:, None]}, np.array([49]))
    pairs = data.gather(data.windows(3, 10))
    assert pairs.context["position"][20, :, 0].tolist() == [18, 19, 20]
    assert pairs.event["action"][20, :, 0].tolist() == list(range(21, 31))
    assert pairs.context["position"][0, :, 0].tolist() == [0, 0, 0]
    assert pairs.event["action"][-1, :, 0].tolist() == [49] * 10


def test_gather_some_windows_and_what_is_stored_once_per_episode():
    data = Dataset(
        {"state": np.arange(6.0)[:, None], "action": np.arange(6.0)[:, None] + 10},
        ENDS,
        {"scene": np.array([[7.0], [8.0]])},
    )
    every = data.windows(2, 2)
    pairs = data.gather(Windows(*(part[[3, 4]] for part in every)))
    assert pairs.context["state"][..., 0].tolist() == [[2, 3], [4, 4]]
    assert pairs.event["action"][..., 0].tolist() == [[13, 13], [14, 15]]
    assert pairs.context["scene"].tolist() == [[7], [8]]
    assert list(data.gather(every, observations=["state"]).context) == ["state"]


def test_no_episodes_no_windows():
    cut = windows(np.array([], dtype=np.int64), 2, 16)
    assert cut.context.shape == (0, 2)
    assert cut.event.shape == (0, 16)


@pytest.mark.parametrize(("n_ctx", "n_pred", "name"), [(0, 1, "n_ctx"), (1, 0, "n_pred")])
def test_empty_windows_are_refused(n_ctx: int, n_pred: int, name: str):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        windows(ENDS, n_ctx, n_pred)
