"""A local two-worker Ray gives what one process gives."""

import importlib.util
import shutil

import pytest
from small_sweep import small_sweep, write_demonstrations

from rnce.eval.evaluate import evaluate
from rnce.eval.ray_workers import ray_session
from rnce.eval.settings import Settings

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.xdist_group("ray"),  # one cluster for all tests here
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with ray_session("local", 2) as ray:
        assert ray.cluster_resources()["CPU"] == 2
        yield


def test_two_ray_workers_give_the_bits_of_one_process():
    settings = Settings("peer_policies:BatchedWanderer", "PathPlanning-v0", (50_000, 50_008), rollouts=4, slots=8)
    alone = evaluate(settings, progress=False)
    spread = evaluate(settings, workers=2, ray="local", progress=False)
    assert spread.episodes == alone.episodes
    assert spread.params == alone.params


def test_two_ray_workers_find_what_one_process_finds(tmp_path):
    demonstrations, here, there = (write_demonstrations(tmp_path / "data.zarr"), tmp_path / "here", tmp_path / "there")
    alone = small_sweep(demonstrations, here)
    shutil.copytree(here, there)
    for result in there.glob("*/result-*.json"):  # measured again, not trained again: that would take a minute
        result.unlink()
    assert small_sweep(demonstrations, there, workers=2, ray="local") == alone
