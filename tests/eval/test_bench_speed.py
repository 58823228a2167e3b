"""Speed of training and planning: what is counted, never how long it takes."""

import jax
import numpy as np
import pytest
from flax import nnx

from rnce.eval import bench_speed, peer_networks
from rnce.policies import load_policy
from rnce.policies.networks.functional import count_params
from rnce.policies.presets import recipe_for
from rnce.training import example_training


def test_every_phase_of_a_recipe_is_timed_in_the_training_loop():
    task, data = example_training("pinwheel")
    recipe = recipe_for("pinwheel", "r-nce")
    rows = bench_speed.train_speed(task, recipe, data, budget=0.01)
    phases = [phase for stage in recipe.stages for phase in stage.phases]
    assert [(row["trains"], row["loss"]) for row in rows] == [(phase.trains, phase.loss) for phase in phases]
    for row, phase in zip(rows, phases):
        assert row["share"] > 0
        per_step = row["evaluations_per_second"] * row["step_ms"] / 1e3
        assert per_step == pytest.approx(bench_speed.evaluations(recipe, phase))


@pytest.mark.parametrize(
    ("network", "published"), [(peer_networks.ChunkTransformer, 9.0e6), (peer_networks.ChunkUNet, 6.6e7)]
)
def test_the_networks_of_diffusion_policy_have_their_published_sizes(network, published):
    shapes = nnx.to_pure_dict(nnx.state(nnx.eval_shape(lambda: network(nnx.Rngs(0)))))
    assert count_params(shapes) == pytest.approx(published, rel=0.01)
    chunk = jax.ShapeDtypeStruct((peer_networks.HORIZON, peer_networks.ACTION), "float32")
    window = jax.ShapeDtypeStruct((peer_networks.N_OBS, peer_networks.OBS), "float32")
    step = jax.ShapeDtypeStruct((), "float32")
    noise = jax.eval_shape(lambda *inputs: network(nnx.Rngs(0))(*inputs), chunk, step, window)
    assert noise.shape == chunk.shape


def test_two_time_scales_rank_as_the_augmented_ode_does():
    policy = load_policy("path-planning/nf")
    figures = bench_speed.log_prob_comparison(policy, bench_speed.start_windows(policy, [50_000]), 32, budget=0.0)
    assert figures["augmented_ranking"] > 0.99
    assert figures["two_time_scales_ranking"] > 0.98


def test_pairs_are_those_of_one_row_and_far_enough_apart():
    reference = np.array([[0.0, 0.5, 2.0], [10.0, 12.0, 14.0]])
    swapped_near = np.array([[0.5, 0.0, 2.0], [0.0, 1.0, 2.0]])
    assert bench_speed.pair_agreement(swapped_near, reference) == 1.0
    swapped_far = np.array([[0.0, 0.5, 2.0], [1.0, 0.0, 2.0]])
    assert bench_speed.pair_agreement(swapped_far, reference) == pytest.approx(4 / 5)
    with pytest.raises(ValueError, match="nothing to rank"):
        bench_speed.pair_agreement(reference, np.zeros((2, 3)))


def test_the_table_shows_plans_for_one_robot():
    sizes = {"params": 3_000_000, "samples": 8, "p50_ms": 4.25, "p95_ms": 5.0}
    rows = [
        {"task": "pusht", "method": "nf", "environments": 1, **sizes},
        {"task": "pusht", "method": "nf", "environments": 64, **sizes},
        {"task": "pusht", "log_prob": {"ratio": 6.0}},
        {"task": "path-planning", "method": "nf", "environments": 1, **sizes},
    ]
    assert bench_speed.latency_markdown(rows).splitlines()[2:] == ["| nf | 3,000,000 | 8 | 4.2 | 5.0 |"]
