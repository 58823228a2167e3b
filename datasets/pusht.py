"""The human Push-T demonstrations of Chi et al.: where they are, what they are, and their mirror image."""

import hashlib
from pathlib import Path

import numpy as np
from jaxtyping import Float

from rnce.datasets.dataset import Dataset
from rnce.datasets.errors import DamagedDatasetError
from rnce.datasets.places import locate
from rnce.datasets.replay import read_replay

__all__ = ["FOLDER", "SHA256", "load_pusht", "mirror", "verify", "with_mirror"]

FOLDER = "pusht_cchi_v7_replay.zarr"
CANVAS = 512.0

# Of the arrays' little-endian bytes, so that it does not matter how a copy is compressed.
SHA256 = {
    "state": "dcdc539bfdba9fc01cba8d2fe91cc580539ec046a88b0ffbe91be5511948d4dc",
    "action": "6691b085749144b8db1aede97a80fb380afd08953fcd03660b441d0ffe9d6a8f",
    "episode_ends": "82db02e667c59a83fedb211ab9b84182591b75009df1385210d5235197f93d72",
}


def load_pusht(path: str | Path | None = None) -> Dataset:
    """The 206 human demonstrations: from `path`, else RNCE_DATA, else the cache folder."""
    return read_replay(locate("pusht", FOLDER, path, "rnce data pusht --download"), name="pusht")


def verify(dataset: Dataset) -> None:
    """Check that these are the published demonstrations, by the hashes of state, action and episode_ends."""
    for key, expected in SHA256.items():
        values = dataset.episode_ends if key == "episode_ends" else np.asarray(dataset.arrays[key][:])
        found = hashlib.sha256(values.astype(values.dtype.newbyteorder("<"), order="C").tobytes()).hexdigest()
        if found != expected:
            raise DamagedDatasetError(f"{dataset.name}: array {key!r} has sha256 {found}, expected {expected}")


def mirror(
    state: Float[np.ndarray, "*n 5"],
    action: Float[np.ndarray, "*n 2"] | None = None,
    keypoint: Float[np.ndarray, "*n 9 2"] | None = None,
    image: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """Reflect a demonstration about the line x + y = 512, under which goal, walls and physics stay as they are.

    (x, y) becomes (512 - y, 512 - x), the block's angle π/2 - angle mod 2π. The keypoints are marks on the block that
    do not lie symmetrically, so they move with the mirrored block rather than being reflected one by one.

    Args:
        state: Agent x, y, block x, y, angle.
        action: Target x, y.
        keypoint: Points on the block.
        image: Rows, columns, channels of the canvas.

    Returns:
        The same arrays in the same order, without those that were None.
    """
    state = np.asarray(state)
    mirrored = np.concatenate(
        [_reflect(state[..., 0:2]), _reflect(state[..., 2:4]), np.mod(np.pi / 2 - state[..., 4:5], 2 * np.pi)],
        axis=-1,
        dtype=state.dtype,
    )
    out = [mirrored]
    if action is not None:
        out.append(_reflect(np.asarray(action)))
    if keypoint is not None:
        turn = mirrored[..., 4] - state[..., 4]
        offsets = np.asarray(keypoint) - state[..., None, 2:4]
        out.append((_rotate(offsets, turn[..., None]) + mirrored[..., None, 2:4]).astype(keypoint.dtype))
    if image is not None:
        # The pixel in row r, column c goes to row last - c, column last - r.
        out.append(np.swapaxes(image, -3, -2)[..., ::-1, ::-1, :])
    return tuple(out)


def with_mirror(dataset: Dataset) -> Dataset:
    """The demonstrations followed by their mirror images: twice as many episodes. Images are left out."""
    kept = {key: dataset.arrays[key][:] for key in ("state", "action")}
    if "keypoint" in dataset.arrays:
        kept["keypoint"] = dataset.arrays["keypoint"][:]
    doubled = zip(kept.items(), mirror(**kept), strict=True)
    return Dataset(
        arrays={key: np.concatenate([original, reflected]) for (key, original), reflected in doubled},
        episode_ends=np.concatenate([dataset.episode_ends, dataset.steps + dataset.episode_ends]),
        attributes=dataset.attributes,
        name=f"{dataset.name} and its mirror image",
    )


def _reflect(points: Float[np.ndarray, "*n 2"]) -> Float[np.ndarray, "*n 2"]:
    return (CANVAS - points[..., ::-1]).astype(points.dtype)


def _rotate(points: np.ndarray, angle: np.ndarray) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = points[..., 0], points[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)
