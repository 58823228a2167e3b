"""Code written for LeRobot policies, with an rnce policy in it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from rnce.lerobot import LeRobotPolicy

sys.path.insert(0, str(Path(__file__).parent / "policies"))


@pytest.fixture(scope="module")
def policy():
    import tiny

    from rnce.policies import Task

    return tiny.untrained("nf", Task("arm", None, {"state": (3,)}, "state", 2, n_ctx=2, n_pred=4, execute=2), samples=2)


def states(steps: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(steps, 2, 3)).astype(np.float32)


def test_numpy(policy):
    adapted = LeRobotPolicy(policy, seed=0).eval().to("cpu")
    found = [adapted.select_action({"observation.state": state, "task": ["reach"] * 2}) for state in states(5)]
    policy.reset(seed=0)
    np.testing.assert_array_equal(found, [policy.act(state) for state in states(5)])
    adapted.reset()
    chunk = adapted.predict_action_chunk({"state": states(1)[0]})
    assert chunk.shape == (2, 4, 2)
    np.testing.assert_array_equal(chunk[:, 0], found[0])
    later = adapted.predict_action_chunk({"state": states(1)[0]})
    assert not np.array_equal(later, chunk)  # the next plan of the episode


def test_torch(policy):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'rnce[torch]'")
    adapted = LeRobotPolicy(policy, seed=0)
    actions = adapted.select_action({"observation.state": torch.from_numpy(states(1)[0]).requires_grad_()})
    assert isinstance(actions, torch.Tensor)
    assert (actions.shape, actions.dtype, actions.device.type) == ((2, 2), torch.float32, "cpu")
    policy.reset(seed=0)
    np.testing.assert_array_equal(actions.numpy(), policy.act(states(1)[0]))
    adapted.reset()
    chunk = adapted.predict_action_chunk({"observation.state": torch.from_numpy(states(1)[0])})
    np.testing.assert_array_equal(chunk[:, 0].numpy(), actions.numpy())


class Camera:
    """Stands for a policy that sees images; keeps what it was shown."""

    class task:
        observation = {"pixels": (4, 6, 3), "agent_pos": (2,)}  # noqa: RUF012

    def reset(self, seed=None):
        self.seen = None

    def act(self, obs):
        self.seen = obs
        return np.zeros((1, 2), np.float32)

    replan = act


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 255.0), (np.uint8, 1.0)])
def test_images_are_turned_and_scaled(dtype, scale):
    camera = Camera()
    adapted = LeRobotPolicy(camera, keys={"agent_pos": "observation.state"})
    image = np.arange(72).reshape(1, 3, 4, 6).astype(dtype)
    adapted.select_action({"observation.images.pixels": image, "observation.state": np.zeros((1, 2))})
    seen = camera.seen
    assert seen is not None
    np.testing.assert_allclose(seen["pixels"], scale * np.moveaxis(image.astype(float), 1, -1))
    ours = np.moveaxis(image, 1, -1)
    adapted.select_action({"pixels": ours, "observation.state": np.zeros((1, 2))})
    np.testing.assert_array_equal((camera.seen or {})["pixels"], ours)


def test_missing_keys_are_named(policy):
    with pytest.raises(
        ValueError, match=r"lacks 'observation.state' and .*it has action. LeRobotPolicy\(policy, keys="
    ):
        LeRobotPolicy(policy).select_action({"action": np.zeros((1, 2))})
    with pytest.raises(ValueError, match="keys has 'image'; the policy observes state"):
        LeRobotPolicy(policy, keys={"image": "observation.image"})
