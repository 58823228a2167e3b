"""One interface for all methods: act, plan, sample, score, save, compose."""

from functools import cache
from typing import Any

import gaussians as g
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from jax.extend.core import jaxprs_in_params

from rnce.policies import METHODS, Policy, Task, compose, load_policy
from rnce.policies.checkpoint import Checkpoint
from rnce.policies.methods import IBC, EnergySampler
from rnce.policies.task import Normalizer

ENERGIES = ("ibc", "r-nce", "i-r-nce")
ROBOT = Task(
    name="robot",
    env_id=None,
    observation={"arm": (3,), "goal": (2,)},
    bare_key=None,
    action_dim=2,
    n_ctx=2,
    n_pred=4,
    execute=2,
    relative_to=("arm", 1),
    action_low=(-1.0, -0.5),
    action_high=(1.0, 0.5),
)


@cache
def shared(method: str) -> Policy:
    """One policy per method: its plans compile once for each batch size."""
    return tiny.untrained(method, ROBOT)


@pytest.fixture(params=METHODS)
def policy(request) -> Policy:
    made = shared(request.param)
    made.reset(seed=0)
    return made


def observations(steps: int, rows: int | None = None, seed: int = 0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    batch = () if rows is None else (rows,)
    return [
        {"arm": 0.3 * rng.normal(size=(*batch, 3)), "goal": 0.3 * rng.normal(size=(*batch, 2))} for _ in range(steps)
    ]


def play(policy: Policy, seed: Any, episode: list[dict[str, np.ndarray]]) -> np.ndarray:
    policy.reset(seed=seed)
    return np.stack([policy.act(obs) for obs in episode])


def row(obs: dict[str, np.ndarray], i: int) -> dict[str, np.ndarray]:
    return {key: value[i] for key, value in obs.items()}


def test_act(policy):
    """Shapes, bounds, and the same bits for the same seed."""
    episode = observations(5)
    actions = play(policy, 7, episode)
    assert actions.shape == (5, 2)
    assert actions.dtype == np.float32
    assert np.all(np.abs(actions) <= [1.0, 0.5])
    np.testing.assert_array_equal(play(policy, 7, episode), actions)
    assert not np.array_equal(play(policy, 8, episode), actions)


def test_batched_act_equals_single_act(policy):
    episode, seeds = observations(3, rows=3), [11, 12, 13]
    batched = play(policy, seeds, episode)
    assert batched.shape == (3, 3, 2)
    for i, seed in enumerate(seeds):
        np.testing.assert_allclose(play(policy, seed, [row(obs, i) for obs in episode]), batched[:, i], atol=1e-5)
    # In another row of a batch of the same size, a robot acts the same to the bit.
    turned = play(policy, seeds[::-1], [{key: value[::-1] for key, value in obs.items()} for obs in episode])
    np.testing.assert_array_equal(turned[:, ::-1], batched)
    # One seed for all rows: the first acts as a single robot, the others have streams of their own.
    same = play(policy, 11, [{key: np.repeat(value[:1], 3, axis=0) for key, value in obs.items()} for obs in episode])
    np.testing.assert_allclose(same[:, 0], batched[:, 0], atol=1e-5)
    assert not np.allclose(same[:, 0], same[:, 1])


def test_reset_of_some_rows(policy):
    episode = observations(4, rows=3)
    undisturbed = play(policy, [1, 2, 3], episode)
    policy.reset(seed=[1, 2, 3])
    policy.act(episode[0])
    policy.reset(seed=[0, 5, 0], mask=np.array([False, True, False]))
    actions = np.stack([policy.act(obs) for obs in episode[1:]])
    np.testing.assert_array_equal(actions[:, [0, 2]], undisturbed[1:, [0, 2]])
    fresh = play(policy, [9, 5, 9], episode[1:])
    np.testing.assert_array_equal(actions[:, 1], fresh[:, 1])
    with pytest.raises(ValueError, match=r"mask has shape \(2,\); the batch has 3 rows"):
        policy.reset(mask=np.ones(2, bool))


def test_plan_shows_what_act_does(policy):
    obs = observations(1)[0]
    plan = policy.plan(obs)
    assert plan.actions.shape == (4, 2)
    assert plan.samples.shape == (4, 4, 2)
    assert plan.scores.shape == (4,)
    np.testing.assert_array_equal(plan.actions, plan.samples[np.argmax(plan.scores)])
    np.testing.assert_array_equal(policy.act(obs), plan.actions[0])
    np.testing.assert_array_equal(policy.act(obs), plan.actions[1])  # the chunk is played on
    assert not np.array_equal(policy.act(obs), plan.actions[2])  # execute = 2, then a new plan


def test_sample_and_score(policy):
    first, second = observations(2)
    samples = policy.sample(first, 4, seed=0)
    assert samples.shape == (4, 4, 2)
    np.testing.assert_array_equal(policy.sample(first, 4, seed=0), samples)
    assert not np.array_equal(policy.sample(first, 4, seed=1), samples)
    scores = policy.score(first, samples)
    assert scores.shape == (4,)
    repeated = {key: np.stack([value, value]) for key, value in first.items()}
    np.testing.assert_array_equal(policy.score(repeated, samples), scores)
    window = {key: np.stack([second[key], first[key]]) for key in first}
    assert not np.array_equal(policy.score(window, samples), scores)
    with pytest.raises(ValueError, match=r"samples have shape \(4, 2\); use \(n, 4, 2\)"):
        policy.score(first, samples[0])
    with pytest.raises(ValueError, match=r"obs\['arm'\] has shape \(3, 3\); use \(3,\) or \(2, 3\)"):
        policy.sample({"arm": np.zeros((3, 3)), "goal": np.zeros(2)}, 4, seed=0)


BAD = {
    "nan": ({"arm": np.array([0.0, np.nan, 0.0]), "goal": np.zeros(2)}, r"obs\['arm'\] has a value that is not finite"),
    "shape": ({"arm": np.zeros(4), "goal": np.zeros(2)}, r"obs\['arm'\] has shape \(4,\); use \(3,\), or \(batch, 3\)"),
    "missing": ({"arm": np.zeros(3)}, "obs lacks the key 'goal'; it has arm"),
    "bare": (np.zeros(3), "obs is a ndarray; use a dict with the keys arm, goal"),
    "mixed": ({"arm": np.zeros((1, 3)), "goal": np.zeros(2)}, "some keys have a batch axis and some have not"),
    "rows": ({"arm": np.zeros((2, 3)), "goal": np.zeros((3, 2))}, r"obs\['goal'\] has 3 rows; obs\['arm'\] has 2"),
    "empty": ({"arm": np.zeros((0, 3)), "goal": np.zeros((0, 2))}, r"obs\['arm'\] has 0 rows"),
    "size": ({"arm": np.zeros((2, 3)), "goal": np.zeros((2, 2))}, "obs has 2 rows; this episode began with 1"),
    "text": ({"arm": "left", "goal": np.zeros(2)}, r"obs\['arm'\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_observation_raises_and_changes_nothing(case):
    policy, episode = shared("nf"), observations(4)
    expected = play(policy, 3, episode)
    bad, message = BAD[case]
    policy.reset(seed=3)
    actions = []
    for obs in episode:
        actions.append(policy.act(obs))
        with pytest.raises(ValueError, match=message):
            policy.act(bad)
        with pytest.raises(ValueError, match=message):
            policy.plan(bad)
    np.testing.assert_array_equal(actions, expected)


def test_bad_first_observation_starts_no_episode():
    policy = shared("nf")
    policy.reset(seed=3)
    with pytest.raises(ValueError, match="some keys"):
        policy.act(BAD["mixed"][0])
    assert policy.act(observations(1, rows=3)[0]).shape == (3, 2)


def test_save_and_load_give_the_same_actions(policy, tmp_path):
    policy.save(tmp_path / "saved")
    again = load_policy(tmp_path / "saved")
    assert again.name == policy.name
    assert again.task == policy.task
    assert again.checkpoint.method == policy.checkpoint.method
    again._plan_batch = policy._plan_batch  # the same program, as these say; weights and statistics are its arguments
    np.testing.assert_array_equal(play(again, 5, observations(2)), play(policy, 5, observations(2)))


def test_options():
    policy = shared("r-nce")
    more = policy.with_options(samples=6, execute=4, sampler="proposal")
    assert (more.samples, more.chunk, policy.samples, policy.chunk) == (6, 4, 4, 2)
    assert more.checkpoint.method.sampler.mcmc_steps == 0
    window = {key: np.zeros((1, 2, *shape), np.float32) for key, shape in ROBOT.observation.items()}
    seed = np.zeros(1, np.uint32)
    plan = jax.eval_shape(more._plan_batch, more._params, more._normalizer, window, seed, seed)
    assert plan.samples.shape == (1, 6, 4, 2)
    assert policy.with_options(sampler={"mcmc_steps": 9}).checkpoint.method.sampler.mcmc_steps == 9
    assert policy.with_options(sampler="three-stage").checkpoint.method.sampler.start_time < 1
    assert policy.with_options(sampler="two-stage").checkpoint.method.sampler == policy.checkpoint.method.sampler
    for options, message in [
        ({"samples": 0}, "samples=0: use at least 1"),
        ({"execute": 5}, "execute=5: use 1 to n_pred=4"),
        ({"sampler": "magic"}, "sampler='magic': use 'proposal'"),
        ({"sampler": {"steps": 3}}, "sampler has no setting 'steps'"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.with_options(**options)
    with pytest.raises(ValueError, match="is for energy methods"):
        shared("nf").with_options(sampler="two-stage")


def test_warmup_compiles_what_act_runs():
    policy = tiny.untrained("nf", ROBOT)
    policy.warmup(batch=2)
    policy.act(observations(1, rows=2)[0])
    assert policy._plan_batch._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("method", METHODS)
def test_context_is_encoded_once_per_plan(method):
    """Once by each network, and outside of all loops, however many samples, flow steps and Markov steps follow."""
    policy = tiny.untrained(method, ROBOT)

    def marked(network):
        def encode(params, context):
            jax.debug.callback(lambda: None)  # an operation that the program shows
            return network.encode(params, context)

        return network._replace(encode=encode)

    networks = {name: marked(network) for name, network in policy._method.networks.items()}
    policy._method = policy._method._replace(networks=networks)
    window = {key: np.zeros((1, ROBOT.n_ctx, *shape), np.float32) for key, shape in ROBOT.observation.items()}
    seed = np.zeros(1, np.uint32)
    program = jax.make_jaxpr(policy._plan_batch)(policy._params, policy._normalizer, window, seed, seed)
    found = list(operations(program.jaxpr))
    assert [loops for name, loops in found if name == "debug_callback"] == [0] * len(networks)
    assert max(loops for _, loops in found) > 0


def operations(program, loops: int = 0):
    """(name, number of loops around it) of all operations of a program."""
    for equation in program.eqns:
        name = equation.primitive.name
        yield name, loops
        for inner in jaxprs_in_params(equation.params):
            yield from operations(inner, loops + (name in ("scan", "while")))


# Composition


class Peak:
    """An energy network that is the logarithm of a Gaussian of standard deviation 1/2."""

    def create(self, *_: Any):
        return g.network(lambda params, code, y, t: -0.5 * jnp.sum((y / 0.5) ** 2))


def gaussian_policy() -> Policy:
    """p(action | x) = N(1, 1²): events are (action − 1)/2."""
    sampler = EnergySampler(kernel="adjusted-hmc", mcmc_steps=30, leapfrog_steps=4, step_size=0.1, final_step_size=0.1)
    settings = IBC(energy=Peak(), proposal=None, sampler=sampler)  # pyright: ignore[reportArgumentType]
    eye = np.eye(2, dtype=np.float32)
    normalizer = Normalizer(np.zeros(1), np.ones(1), np.ones(2, np.float32), eye / 2, eye * 2)
    return Policy(Checkpoint(tiny.one_step_task(2), "ibc", settings, {"energy": {}}, normalizer))


def test_composition_samples_the_product_of_densities():
    """N(1, 1) times exp(−weight·‖a − context‖²/2): precisions add."""
    base, weight, context = gaussian_policy(), 3.0, np.array([-1.0])
    composed = compose(base, lambda window, actions: -0.5 * jnp.sum((actions - window["context"][-1]) ** 2), weight)
    np.testing.assert_allclose(base.sample(context, 4096, seed=0).mean((0, 1)), 1.0, atol=0.06)
    samples = composed.sample(context, 4096, seed=0)[:, 0]
    np.testing.assert_allclose(samples.mean(0), (1.0 - weight) / (1.0 + weight), atol=0.04)
    np.testing.assert_allclose(np.cov(samples.T), np.eye(2) / (1.0 + weight), atol=0.03)
    chunks = np.array([[[0.0, 0.0]], [[1.0, -2.0]]], np.float32)
    added = composed.score(context, chunks) - base.score(context, chunks)
    np.testing.assert_allclose(added, -0.5 * weight * np.sum((chunks + 1.0) ** 2, axis=(1, 2)), rtol=1e-5)
    # Terms add up, the original is untouched, and functions are not saved.
    assert len(compose(composed, lambda window, actions: jnp.zeros(()), 1.0).terms) == 2
    assert base.terms == ()
    with pytest.raises(ValueError, match="composed policy holds Python functions"):
        composed.save("never")


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ENERGIES])
def test_composition_needs_an_energy(method):
    with pytest.raises(ValueError, match=f"{method} has no energy to compose with; use ibc, r-nce or i-r-nce"):
        compose(shared(method), lambda window, actions: jnp.zeros(()), 1.0)


def test_unknown_policy_suggests():
    with pytest.raises(ValueError, match="there is no policy or checkpoint folder 'pusht/i-r-mce'"):
        load_policy("pusht/i-r-mce")


@pytest.mark.parametrize(("limit", "some"), [(0.0, True), (-np.inf, False)])
def test_samples_that_are_not_finite_never_win(limit, some):
    """Nor do they leave the policy: where there is no other, the robot does what the data do on average."""

    class Broken:
        def create(self, *_: Any):
            # The energy is highest where it is not a number.
            return g.network(lambda params, code, y, t: jnp.where(y[0] > limit, jnp.nan, y[0]))

    settings = IBC(energy=Broken(), proposal=None)  # pyright: ignore[reportArgumentType]
    base = gaussian_policy().checkpoint
    policy = Policy(Checkpoint(base.task, "ibc", settings, {"energy": {}}, base.normalizer, samples=16))
    policy.reset(seed=0)
    plan = policy.plan(np.zeros(1))
    assert np.isneginf(plan.scores).any()
    assert np.isfinite(plan.scores).any() == some
    assert np.isfinite(plan.samples).all()
    chosen = np.argmax(np.all(plan.samples == plan.actions, axis=(1, 2)))
    assert plan.scores[chosen] == plan.scores.max()
    if not some:
        np.testing.assert_allclose(plan.actions, base.normalizer.event_mean.reshape(plan.actions.shape), atol=1e-6)
