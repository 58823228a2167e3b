"""Pinwheel and spiral against their own densities and against plain quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad

from rnce.datasets import Synthetic, load
from rnce.datasets.errors import DatasetError


def named(name: str) -> Synthetic:
    problem = load(name)
    assert isinstance(problem, Synthetic)
    return problem


EVERY = [(name, context) for name in ("pinwheel", "spiral") for context in named(name).contexts]


@pytest.mark.parametrize(("name", "context"), EVERY)
def test_mass_lies_in_the_box_and_sums_to_one(name: str, context: float):
    problem = named(name)
    samples = problem.sample(context, 50_000, seed=0)
    assert np.mean(np.all(np.abs(samples) <= 4, axis=1)) >= 0.999
    centres = np.linspace(-5, 5, 81)
    grid = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
    density = np.exp(problem.log_density(context, grid))
    area = (centres[1] - centres[0]) ** 2
    assert density.sum() * area == pytest.approx(1, abs=1e-3)
    assert density[np.all(np.abs(grid) <= 4, axis=1)].sum() * area >= 0.999


@pytest.mark.parametrize(("name", "context"), EVERY)
def test_samples_follow_the_density(name: str, context: float):
    problem = named(name)
    counts, edges, _ = np.histogram2d(*problem.sample(context, 100_000, seed=1).T, bins=20, range=[[-4, 4], [-4, 4]])
    fine = np.linspace(-4, 4, 81)[:-1] + 0.05
    grid = np.stack(np.meshgrid(fine, fine, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(problem.log_density(context, grid)).reshape(20, 4, 20, 4).sum(axis=(1, 3)) * 0.1**2
    assert len(edges) == 21
    # Twice the total variation distance; about 0.8 * sqrt(cells / samples) = 0.05 for perfect samples.
    assert np.abs(counts / 100_000 - mass).sum() < 0.06


def test_spiral_density_against_adaptive_quadrature():
    spiral = load("spiral")
    for point in spiral.sample(650, 5, seed=2).astype(np.float64):

        def integrand(u: float, point: np.ndarray = point) -> float:
            angle = np.radians(650) * np.sqrt(u)
            radius = 3.6 * angle / np.radians(800)
            squared = (point[0] + radius * np.cos(angle)) ** 2 + (point[1] - radius * np.sin(angle)) ** 2
            return np.exp(-0.5 * squared / 0.01) / (2 * np.pi * 0.01)

        expected, _ = quad(integrand, 0, 1, limit=1000, epsabs=1e-10, points=np.linspace(0, 1, 50).tolist())
        assert np.exp(spiral.log_density(650, point[None]))[0] == pytest.approx(expected, rel=1e-7)


def test_pinwheel_has_as_many_spokes_as_its_context_says():
    pinwheel = load("pinwheel")
    y = pinwheel.sample(5, 1000, seed=0).astype(np.float64)
    turn = 2 * np.pi / 5
    turned = y @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    assert pinwheel.log_density(5, turned) == pytest.approx(pinwheel.log_density(5, y))
    assert not np.allclose(pinwheel.log_density(6, turned), pinwheel.log_density(6, y), atol=0.1)


@pytest.mark.parametrize("name", ["pinwheel", "spiral"])
def test_seeded_typed_and_joint(name: str):
    problem = named(name)
    context = problem.contexts[1]
    draws = problem.sample(context, 8192, seed=0)
    assert draws.shape == (8192, 2)
    assert draws.dtype == np.float32
    assert np.array_equal(draws, problem.sample(context, 8192, seed=0))
    assert not np.array_equal(draws, problem.sample(context, 8192, seed=1))
    contexts, events = problem.sample_joint(2000, seed=0)
    assert contexts.shape == (2000,)
    assert events.shape == (2000, 2)
    assert problem.embed(contexts).shape == (2000, problem.context_dim)
    assert problem.log_density(contexts[:50], events[:50]).mean() > -4
    single = problem.log_density(contexts[7], events[7:8])
    assert problem.log_density(contexts[:50], events[:50])[7] == pytest.approx(single[0])


def test_embeddings():
    assert load("spiral").embed([400, 600, 800])[:, 0].tolist() == [-1, 0, 1]
    embedded = load("pinwheel").embed(4)
    assert embedded.shape == (10,)
    assert embedded[0] == pytest.approx(np.sin(4), abs=1e-6)
    assert embedded[9] == pytest.approx(np.cos(4 * 10_000**-0.8), abs=1e-6)
    assert len(np.unique(load("pinwheel").embed([4, 5, 6, 7]), axis=0)) == 4


@pytest.mark.parametrize(("name", "bad"), [("pinwheel", 8), ("pinwheel", 4.5), ("spiral", 399), ("spiral", np.nan)])
def test_contexts_out_of_range_are_refused(name: str, bad: float):
    problem = named(name)
    for call in (lambda: problem.sample(bad, 3, seed=0), lambda: problem.embed(bad)):
        with pytest.raises(DatasetError, match=f"{name}: a context must be"):
            call()


def test_points_of_the_wrong_shape_are_refused():
    with pytest.raises(DatasetError, match=r"y must have shape \(n, 2\), got \(2,\)"):
        load("spiral").log_density(500, np.zeros(2))
