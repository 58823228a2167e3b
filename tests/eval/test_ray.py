"""A local two-worker Ray gives what one process gives."""

import importlib.util

import pytest

from rnce.eval.evaluate import evaluate
from rnce.eval.settings import Settings

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed")


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_two_ray_workers_give_the_bits_of_one_process():
    settings = Settings("peer_policies:BatchedWanderer", "PathPlanning-v0", (50_000, 50_008), rollouts=4, slots=8)
    alone = evaluate(settings, progress=False)
    spread = evaluate(settings, workers=2, ray="local", progress=False)
    assert spread.episodes == alone.episodes
    assert spread.params == alone.params
