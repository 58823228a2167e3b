"""The eleventh obstacle, the term that keeps clear of it, and samplers of a budget."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rnce.envs.path_planning import Scene, scenes_for_seeds
from rnce.eval import bench_composition as composition
from rnce.eval.adapters import parse_sampler
from rnce.eval.bench_samplers import bench_samplers, sampler_text

GOAL = np.array([0.6, 0.8])
WINDOW = {"position": jnp.array([[0.0, 0.0]] * 3), "goal": jnp.array([GOAL] * 3)}


def straight_to(point) -> jnp.ndarray:
    return jnp.linspace(0, 1, 11)[1:, None] * jnp.asarray(point)


def test_the_newcomer_stands_before_the_goal():
    x, y, radius = composition.newcomer(GOAL)
    assert np.hypot(*(GOAL - [x, y])) == pytest.approx(np.hypot(composition.BEFORE_GOAL, composition.ASIDE))
    assert (x, y) == pytest.approx(tuple(0.65 * GOAL + composition.ASIDE * np.array([-0.8, 0.6])))
    assert radius == composition.RADIUS
    np.testing.assert_allclose(composition.newcomer(jnp.asarray(GOAL), jnp), [x, y, radius], rtol=1e-5)


def test_the_term_is_paid_for_coming_near_only():
    near, far = straight_to(GOAL), straight_to([0.8, -0.6])
    assert composition.keeps_clear(WINDOW, near) < -0.05
    assert composition.keeps_clear(WINDOW, far) > -1e-6
    slope = jax.grad(lambda path: composition.keeps_clear(WINDOW, path))(near)
    assert jnp.sum(slope * jnp.array([0.8, -0.6])) > 0  # away from where it stands is better


def test_haste_is_paid_for_ending_near_the_goal():
    assert composition.arrives(WINDOW, straight_to(GOAL)) == pytest.approx(0, abs=1e-3)
    assert composition.arrives(WINDOW, straight_to(0.5 * GOAL)) == pytest.approx(-0.5, abs=1e-3)


def test_changes_are_to_the_first_policy():
    def outcome(distance: float, hit: bool) -> composition.Outcome:
        return composition.Outcome(np.zeros((3, 2, 50, 2)), np.full((3, 2), hit), np.full((3, 2), distance))

    rows = composition.summaries({"alone": outcome(0.1, True), "composed": outcome(0.3, False)})
    assert [row["collision"] for row in rows] == [1.0, 0.0]
    assert "goal_distance_change" not in rows[0]
    assert rows[1]["goal_distance_change"]["mean"] == pytest.approx(0.2)
    _, texts = composition.composition_rows(rows)
    assert texts[1][-1] == "+0.200 [+0.200, +0.200]"


def test_the_picture_shows_scenes_with_the_most_harm():
    scenes = scenes_for_seeds(range(50_000, 50_003))
    paths = np.linspace(scenes.start, scenes.goal, 50, axis=1)[:, None]
    hit = np.array([[False], [True], [False]])
    outcome = composition.Outcome(paths, hit, np.zeros((3, 1)))
    figure = composition.picture({"alone": outcome, "composed": outcome}, Scene(*scenes), count=2)
    assert [axes.get_title() for axes in figure.axes] == ["collisions 1.000", "collisions 0.000"] * 2


@pytest.mark.parametrize(("kind", "chain", "sde"), [("two-stage", 100, 0), ("three-stage", 90, 10)])
def test_budgets_are_split_as_in_the_paper(kind, chain, sde):
    settings = parse_sampler(sampler_text(kind, 100))
    assert isinstance(settings, dict)
    assert (settings["mcmc_steps"], settings["sde_steps"]) == (chain, sde)


def test_policies_without_an_energy_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no energy"):
        bench_samplers("pinwheel/nf", (50_000, 50_001), 1, None, [10], tmp_path)
    with pytest.raises(ValueError, match="energy policy for path planning"):
        composition.bench_composition("pinwheel/r-nce", range(50_000, 50_001), 1, tmp_path)
