"""The real openpi-client 0.1.2, in a virtual environment of its own, drives Push-T episodes against the server."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import peers
import pytest

from rnce.policies import load_policy, pretrained_policies
from rnce.serving.server import Server

EPISODE = str(Path(__file__).with_name("openpi_episode.py"))


def test_openpi_client_drives_an_episode(policy):
    with Server(policy, port=0, max_batch=4, token="secret") as server:
        seen = json.loads(peers.run(EPISODE, str(server.port), "secret", "25"))
    assert seen["numpy"].startswith("1.")
    assert seen["metadata"]["observation"] == {"state": {"shape": [5], "dtype": "<f4"}}
    assert seen["keys"] == ["actions", "scores", "server_timing"]
    assert seen["timing"] == ["batch", "infer_ms", "late", "prev_total_ms"]
    assert "not finite" in seen["complaint"]
    actions = np.array(seen["actions"])
    assert actions.shape == (25, 2)
    assert np.all((actions >= 0) & (actions <= 512))
    obs, _ = gym.make("PushT-v0").reset(seed=100_000)  # gym-pusht's start for this seed
    policy.reset(seed=3)
    np.testing.assert_array_equal(actions[:8], policy.replan(obs).actions[:8])


@pytest.mark.skipif("pusht/i-r-nce" not in pretrained_policies(), reason="pusht/i-r-nce is not shipped")
def test_openpi_client_with_the_shipped_policy():
    """A whole episode; a policy that is asked for a plan every eight steps by a stranger still covers the goal."""
    with Server(load_policy("pusht/i-r-nce"), port=0, max_batch=1) as server:
        seen = json.loads(peers.run(EPISODE, str(server.port), "", "200"))
    assert seen["best"] > 0.5
