"""The paper's theory: cheap parts again, against closed forms; the committed numbers, within their bounds."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from rnce.cli import main
from rnce.eval.theory import (
    bench,
    density_ratio,
    figures,
    fisher,
    ibc_bias,
    likelihood,
    normality,
    profiles,
    saddle,
    statements,
)
from rnce.eval.theory.estimation import (
    Size,
    estimates,
    fisher_information,
    moments,
    population_gradient_and_hessian,
    relative_eigenvalues,
)
from rnce.eval.theory.mixture import random_mixture
from rnce.eval.theory.objective import Gaussian, in_double_precision, problem, ranking_objective, uniform_problem
from rnce.policies.bridges import Interpolant
from rnce.policies.samplers import flow as flows

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "eval" / "results"
OUTCOME = json.loads((RESULTS / "theory.json").read_text())
DATA, OTHER = Gaussian(1.0, 0.8), Gaussian(-0.2, 1.3)
NOT_SO = {  # what the paper states and is not so, and what trainings of two minutes do not reach
    ("normality", "the same for the objective as written, with the negatives averaged out"),
    ("fisher", "N(μ, σ²): tr(I⁻¹J) = 3/σ² + 4μ²/σ⁴"),
    ("profiles-path-planning", "with balanced capacities it tends to −log(K + 1)"),
}


def objective(setting, energies, negatives, correction=True):
    return float(in_double_precision(lambda e: ranking_objective(setting, e, negatives, correction))(energies))


# The population objective by quadrature


@pytest.mark.parametrize("negatives", [1, 10, 1000])
def test_chance_where_proposal_energy_and_data_are_one(negatives):
    setting = problem(DATA, DATA)
    assert objective(setting, DATA.log_prob(setting.y), negatives) == pytest.approx(-np.log(negatives + 1), abs=1e-9)


def test_one_negative_is_a_logistic_regression():
    setting = problem(DATA, OTHER)
    energies = np.sin(setting.y) - 0.1 * setting.y**2
    logits = energies - setting.log_q
    direct = -setting.data @ np.logaddexp(0, logits[None] - logits[:, None]) @ setting.proposal
    assert objective(setting, energies, 1) == pytest.approx(direct, abs=1e-9)


def test_uniform_proposal_needs_no_correction():
    setting = uniform_problem(DATA, 8.0)
    energies = np.cos(setting.y)
    assert objective(setting, energies, 7) == pytest.approx(objective(setting, energies, 7, correction=False), abs=1e-9)


# IBC's bias


def test_where_the_objectives_peak():
    gaussian = problem(ibc_bias.DATA, ibc_bias.PROPOSAL)
    assert ibc_bias.peak(ibc_bias.landscape(gaussian, 10, correction=True)) == pytest.approx(1.0, abs=1e-4)
    assert ibc_bias.peak(ibc_bias.landscape(gaussian, 10_000, correction=False)) == pytest.approx(2.0, abs=1e-3)


def test_sampled_objective_is_the_exact_one():
    exact = ibc_bias.landscape(problem(ibc_bias.DATA, ibc_bias.PROPOSAL), 10, correction=False)
    draws = ibc_bias.draw(jax.random.key(0), 2000, 10, correction=False)
    value, error = ibc_bias.sampled_landscape(draws, jnp.array([0.5, 1.5]))
    assert np.all(np.abs(value - np.array([exact(0.5), exact(1.5)])) < 5 * error)
    found, found_error = ibc_bias.sampled_peak(draws, jnp.asarray(1.5))
    assert abs(found - ibc_bias.peak(exact)) < 5 * found_error


def test_energies_learn_ratio_and_density():
    part = density_ratio.density_ratio(steps=40, points=256)
    ibc, rnce = part["rows"]
    assert ibc["rms_from_log_ratio"] < ibc["rms_from_log_density"]
    assert rnce["bc_of_energy"] > ibc["bc_of_energy"]


# Estimates of a normal density


@pytest.mark.parametrize("negatives", [1, 4, 16])
def test_hessian_where_proposal_and_data_are_one(negatives):
    gradient, hessian = population_gradient_and_hessian(DATA, DATA, negatives)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
    np.testing.assert_allclose(-hessian, fisher_information(DATA) / (1 + 1 / negatives), rtol=1e-9)


def test_truth_is_optimal_for_another_proposal():
    gradient, hessian = population_gradient_and_hessian(DATA, OTHER, 4)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
    assert np.linalg.eigvalsh(hessian).max() < 0


@pytest.fixture(scope="module")
def few_estimates():
    return estimates(jax.random.key(0), DATA, OTHER, Size(n=400, negatives=4, replications=128))


def test_estimates_scatter_as_the_hessian_says(few_estimates):
    expected = -np.linalg.inv(population_gradient_and_hessian(DATA, OTHER, 4)[1])
    ratios = relative_eigenvalues(400 * np.cov(few_estimates.T), expected)
    assert 0.6 < ratios[0] < ratios[1] < 1.6
    mean, variance = moments(few_estimates)
    assert mean.mean() == pytest.approx(DATA.mean, abs=0.03)
    assert np.sqrt(variance).mean() == pytest.approx(DATA.std, abs=0.03)


def test_divergences_of_normal_densities(few_estimates):
    theta = few_estimates[:1]
    mean, variance = (float(value[0]) for value in moments(theta))
    nodes, other = problem(DATA, DATA), Gaussian(mean, np.sqrt(variance))
    difference = DATA.log_prob(nodes.y) - other.log_prob(nodes.y)
    assert normality.kl(DATA, theta)[0] == pytest.approx(nodes.data @ difference, rel=1e-6)
    slope = -(nodes.y - DATA.mean) / DATA.std**2 + (nodes.y - mean) / variance
    assert fisher.relative_information(DATA, theta)[0] == pytest.approx(nodes.data @ slope**2, rel=1e-6)


@pytest.mark.parametrize("data", fisher.DENSITIES)
def test_trace_of_relative_fisher_information(data):
    assert fisher.trace_by_quadrature(data) == pytest.approx(3 / data.std**2, rel=1e-9)


def test_saddle_value():
    part = saddle.saddle(points=5, negatives=3)
    assert part["max_min"] == pytest.approx(-np.log(4), abs=1e-9)
    assert part["max_min_energy_mean"] == part["max_min_proposal_mean"] == 1.0


# Likelihoods


@pytest.fixture(scope="module")
def small_mixture():
    return random_mixture(seed=1, dim=3, components=2, stds=(0.2, 1.0), spread=1.5)


def test_mixture_knows_its_density(small_mixture):
    m = small_mixture
    y = np.asarray(m.sample(jax.random.key(0), 16))
    parts = [
        log_weight + multivariate_normal(mean, axes * stds**2 @ axes.T).logpdf(y)
        for log_weight, mean, axes, stds in zip(*map(np.asarray, m))
    ]
    np.testing.assert_allclose(
        jax.jit(jax.vmap(m.log_prob))(y), np.logaddexp.reduce(parts, axis=0), rtol=1e-3, atol=1e-3
    )


def test_exact_flow_gives_the_density(small_mixture):
    bridge = Interpolant(alpha=2.0).create()
    flow, y = likelihood.exact_flow(small_mixture, bridge), small_mixture.sample(jax.random.key(1), 16)
    found = jax.jit(lambda y: flows.log_prob(flow, y, bridge.grid(96), 33))(y)
    np.testing.assert_allclose(found, jax.jit(jax.vmap(small_mixture.log_prob))(y), atol=0.02)


@pytest.mark.parametrize("fresh", [False, True])
def test_hutchinson_is_right_on_average(small_mixture, fresh):
    bridge, t, y = Interpolant().create(), jnp.asarray(0.7), jnp.array([[0.3, -0.2, 0.5]])
    exact, estimate = (
        jax.jit(flow.velocity_and_divergence)(t, y)[1][0]
        for flow in (
            likelihood.exact_flow(small_mixture, bridge),
            likelihood.hutchinson_flow(small_mixture, bridge, jax.random.key(0), 2048, fresh),
        )
    )
    assert float(estimate) == pytest.approx(float(exact), abs=0.15)


def test_judging_a_ranking():
    truth = np.arange(16.0)[np.random.default_rng(0).permutation(16)]
    perfect, reversed_ = likelihood.judge(truth + 3.0, truth), likelihood.judge(-truth, truth)
    assert perfect == {"rms_error": 3.0, "pairs_in_order": 1.0, "best_picked": 1.0, "nats_lost": 0.0}
    assert reversed_["pairs_in_order"] == reversed_["best_picked"] == 0.0


# What is committed


@pytest.mark.parametrize(
    "row", statements.statements(OUTCOME["parts"]), ids=lambda row: f"{row.part}: {row.paper[:40]}"
)  # fmt: skip
def test_committed_numbers_are_within_their_bounds(row):
    assert row.holds == ((row.part, row.paper) not in NOT_SO), f"{row.paper}: {row.measured}"


def test_every_part_is_committed_with_its_pictures():
    assert list(OUTCOME["parts"]) == list(bench.PARTS) == list(statements.ROWS) == list(figures.PICTURES)
    for name in bench.PARTS:
        for suffix in (".png", ".pdf"):
            picture = RESULTS / "theory" / (name + suffix)
            assert 1_000 < picture.stat().st_size < 300_000, picture


@pytest.mark.parametrize("name", figures.PICTURES)
def test_pictures_are_drawn_from_the_numbers(name):
    figures.PICTURES[name](OUTCOME["parts"][name]).draw_without_rendering()


def test_page_shows_what_was_computed():
    page = (ROOT / "eval" / "theory" / "README.md").read_text()
    shown = re.search(r"<!-- theory -->\n(.*?)\n<!-- /theory -->", page, re.DOTALL)
    assert shown
    assert shown.group(1) == statements.markdown(OUTCOME)
    for name in bench.PARTS:
        assert f"../results/theory/{name}.png" in page


# The command


def test_joint_profiles_have_one_stage_of_constant_rates():
    for task, setting in profiles.SETTINGS.items():
        made = profiles.recipes(task, setting)
        for name in ("joint, balanced", "joint, small proposal"):
            (stage,) = made[name].stages
            assert [phase.trains for phase in stage.phases] == ["proposal", "energy"]
            assert all(phase.optimizer.schedule == "constant" for phase in stage.phases)
            assert made[name].perturbation[0] == made[name].perturbation[1]


def test_longest_parts_are_first():
    assert bench.in_order(["saddle", "adversarial", "profiles-path-planning"])[0] == "profiles-path-planning"
    assert sorted(bench.in_order(list(bench.PARTS))) == sorted(bench.PARTS)


def test_only_some_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(bench.PARTS, "saddle", lambda: saddle.saddle(points=3))
    (tmp_path / "theory.json").write_text(json.dumps({"parts": {"fisher": OUTCOME["parts"]["fisher"]}}))
    main(["bench", "theory", "--only", "saddle", "--out", str(tmp_path), "--json", str(tmp_path / "copy.json")])
    written = json.loads((tmp_path / "theory.json").read_text())
    assert list(written["parts"]) == ["fisher", "saddle"]
    assert json.loads((tmp_path / "copy.json").read_text()) == written
    assert (tmp_path / "theory" / "saddle.png").exists()
    assert "−log(K + 1)" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "named"), [(["--only", "sadle"], "sadle"), (["--workers", "0"], "workers=0")])
def test_bad_input_is_one_line(words, named, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "theory", "--out", str(tmp_path), *words])
    assert stop.value.code == 2
    assert named in capsys.readouterr().err
