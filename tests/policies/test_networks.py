"""Every network in the registry: shapes, sharing of the context, derivatives, configuration, budgets."""

import json
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from rnce.policies.networks import NETWORKS, count_params, exact_divergence, network_from_dict, network_to_dict
from rnce.policies.networks.pairs import look, segments
from rnce.policies.networks.paper_sizes import BUDGET, PAPER
from rnce.policies.networks.vision import CoordConvResNet, spatial_softmax

EVENT = (4, 2)
DIM = 8
SHAPES = {
    "obstacles": (5, 3),
    "goal": (2,),
    "history": (3, 2),
    "speed": (),
    "to_waypoints": (DIM, DIM),
    "to_waypoints_offset": (DIM,),
}
SMALL_SETTINGS = {  # small, so that the tests are quick
    "residual-mlp": {"width": 32, "depth": 2, "context_width": 16, "context_depth": 1},
    "shallow-field": {"width": 32, "context_width": 16, "context_depth": 1, "joint_depth": 1},
    "concat-squash": {"width": 32, "depth": 3},
    "pairs": {"width": 32, "depth": 1, "context_width": 16, "context_depth": 1, "pair_width": 8},
    "transformer": {"width": 16, "depth": 1, "output_width": 16, "trajectory": "history"},
    "cmhf": {"width": 16, "depth": 2, "output_width": 16, "context_width": 24},
}
ENERGIES = [name for name in NETWORKS if name != "shallow-field"]
CASES = [(name, "field") for name in NETWORKS] + [(name, "energy") for name in ENERGIES]


# Small programs run once: what takes time is compiling them.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def create(name, output, shapes=SHAPES, **settings):
    """A small network and parameters of which none is small or zero, so that no term hides behind its initial scale."""
    network = network_from_dict({"name": name} | SMALL_SETTINGS[name] | settings).create(shapes, EVENT, output)
    rng = np.random.default_rng(0)

    def fill(path, leaf):
        scale = max(leaf.shape[0], 1) ** -0.5 if leaf.ndim > 1 else 0.3
        return (path[-1].key == "scale") + scale * rng.normal(size=leaf.shape).astype(np.float32)

    params = jax.tree_util.tree_map_with_path(fill, jax.eval_shape(network.init, jax.random.key(0)))
    return network, params


built = cache(create)


@cache
def evaluator(name, output):
    """Values at many events that share a context and a time."""
    network, params = built(name, output)

    @quick_jit
    def values(context, ys, t):
        code = network.encode(params, context)
        return jax.vmap(lambda y: network.apply(params, code, y, t))(ys)

    return values


def make_context(seed=2, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


def events(count=6):
    return jnp.asarray(np.random.default_rng(3).normal(size=(count, DIM)), jnp.float32)


@pytest.mark.parametrize(("name", "output"), CASES)
def test_candidates_that_share_a_context_equal_a_loop(name, output):
    network, params = built(name, output)
    mapped = evaluator(name, output)(make_context(), events(), 0.3)
    assert mapped.shape == ((6, DIM) if output == "field" else (6,))
    assert np.isfinite(mapped).all()
    single = quick_jit(lambda context, y, t: network.apply(params, network.encode(params, context), y, t))
    looped = [single(make_context(), y, 0.3) for y in events()]
    np.testing.assert_allclose(mapped, looped, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "output"), CASES)
def test_output_depends_on_context_event_and_time(name, output):
    values = evaluator(name, output)
    one = values(make_context(), events(), 0.3)
    assert not np.allclose(one, values(make_context(seed=9), events(), 0.3))
    assert not np.allclose(one, values(make_context(), events() + 0.5, 0.3))
    assert not np.allclose(one, values(make_context(), events(), 0.9))


@pytest.mark.parametrize("name", NETWORKS)
def test_divergence_is_the_trace_of_the_jacobian(name):
    network, params = built(name, "field")

    @quick_jit
    def compare(context, y, t):
        code = network.encode(params, context)
        field = lambda y: network.apply(params, code, y, t)
        known, generic = network.apply_with_divergence(params, code, y, t), exact_divergence(field, y)
        return known, generic, (field(y), jnp.trace(jax.jacfwd(field)(y)))

    known, generic, expected = compare(make_context(), events()[0], 0.7)
    for found in (known, generic):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ENERGIES)
def test_score_of_an_energy_can_be_trained(name):
    network, params = built(name, "energy")

    @quick_jit
    @jax.grad
    def gradient(params, context, y, t):
        code = network.encode(params, context)
        return jnp.sum(jax.grad(lambda y: network.apply(params, code, y, t))(y) ** 2)

    # At the origin all waypoints may coincide, which is where a careless distance has no gradient.
    still = make_context() | {"to_waypoints_offset": jnp.zeros(DIM)}
    for context, y in ((make_context(), events()[0]), (still, jnp.zeros(DIM))):
        leaves = jax.tree.leaves(gradient(params, context, y, jnp.array(0.3)))
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        assert any((leaf != 0).any() for leaf in leaves)


@pytest.mark.parametrize("name", ["pairs", "transformer", "cmhf"])
@pytest.mark.parametrize("output", ["field", "energy"])
def test_order_of_obstacles_does_not_matter(name, output):
    values, context = evaluator(name, output), make_context()
    shuffled = context | {"obstacles": context["obstacles"][jnp.array([3, 0, 4, 1, 2])]}
    one, other = values(context, events(), 0.3), values(shuffled, events(), 0.3)
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def flops(function, *args):
    cost = jax.jit(function).lower(*args).cost_analysis()
    assert cost is not None
    return cost["flops"]


@pytest.mark.parametrize("name", ["residual-mlp", "shallow-field", "concat-squash", "pairs", "cmhf"])
def test_parts_of_context_and_time_are_computed_once(name):
    # Contexts so expensive that a candidate that paid for its own would show.
    settings = {"concat-squash": {}, "cmhf": {}}.get(name, {"context_width": 256})
    shapes = SHAPES | {"observation": (4, 256)}
    network, params = create(name, "field", shapes, **settings)

    def cost(count):
        def values(context, ys, t):
            code = network.encode(params, context)
            return jax.vmap(lambda y: network.apply(params, code, y, t))(ys)

        return flops(values, make_context(shapes=shapes), events(count), 0.3)

    one, two, many = cost(1), cost(2), cost(65)
    candidate = (many - two) / 63
    assert candidate < 0.5 * one
    assert abs((two - one) - candidate) <= 0.05 * candidate


@pytest.mark.parametrize("name", NETWORKS)
def test_configuration_survives_json(name):
    config = network_from_dict({"name": name} | SMALL_SETTINGS[name])
    assert network_from_dict(json.loads(json.dumps(network_to_dict(config)))) == config
    assert hash(config) == hash(network_from_dict(network_to_dict(config)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "residual-mpl"}, "did you mean 'residual-mlp'"),
        ({"name": "pairs", "widht": 3}, "did you mean 'width'"),
        ({"name": "pairs", "width": -3}, "width=-3"),
        ({"name": "pairs", "width": 2.5}, "width=2.5"),
        ({"name": "pairs", "base": "gauss"}, "none, gaussian"),
        ({"name": "transformer", "width": 20}, "multiple of 8"),
        ({"width": 3}, "No network is called None"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        network_from_dict(settings)


@pytest.mark.parametrize(
    ("settings", "shapes", "output", "message"),
    [
        ({"name": "residual-mlp"}, SHAPES, "score", "output='score'"),
        ({"name": "residual-mlp", "base": "gaussian"}, SHAPES, "field", "base='gaussian'"),
        ({"name": "shallow-field"}, SHAPES, "energy", "output='field'"),
        ({"name": "pairs"}, {"goal": (2,)}, "field", "obstacles"),
        ({"name": "transformer", "trajectory": "past"}, SHAPES, "field", "trajectory='past'"),
        ({"name": "concat-squash", "depth": 0}, SHAPES, "field", "depth=0"),
    ],
)
def test_wrong_use_is_named(settings, shapes, output, message):
    with pytest.raises(ValueError, match=message):
        network_from_dict(settings).create(shapes, EVENT, output)


@pytest.mark.parametrize("name", ENERGIES)
def test_gaussian_base_starts_at_the_prior(name):
    network, _ = create(name, "energy", base="gaussian")

    @quick_jit
    def score(key, context, y):
        params = network.init(key)
        code = network.encode(params, context)
        return jax.grad(lambda y: network.apply(params, code, y, jnp.array(0.5)))(y)

    np.testing.assert_allclose(
        score(jax.random.key(0, impl="rbg"), make_context(), events()[0]), -events()[0], atol=0.3
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_logarithmic_time_is_finite_from_prior_to_data(name):
    network, params = create(name, "field", time_transform="log")
    apply = quick_jit(lambda x, y, t: network.apply(params, network.encode(params, x), y, t))
    values = [apply(make_context(), events()[0], t) for t in (0.0, 1.0)]
    assert np.isfinite(values).all()
    assert not np.allclose(*values)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "pairs"])
def test_no_context_and_no_time(name):
    settings = {"trajectory": ""} if name == "transformer" else {}
    network, params = create(name, "field", {}, time_width=0, **settings)
    apply = quick_jit(lambda y, t: network.apply(params, network.encode(params, {}), y, t))
    one, other = (apply(events()[0], t) for t in (0.1, 0.9))
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, other)


PAPER_SHAPES = {
    "plane": ({"x": (10,)}, (1, 2)),
    "path-planning": ({"obstacles": (10, 3), "goal": (2,), "history": (3, 2)}, (10, 2)),
    "pusht": ({"images": (2, 96, 96, 3), "history": (2, 2)}, (16, 2)),
}


@cache
def paper_count(task, role):
    shapes, event = PAPER_SHAPES[task]
    network = PAPER[task][role].create(shapes, event, "field" if role in ("field", "proposal") else "energy")
    return count_params(jax.eval_shape(network.init, jax.random.key(0)))


@pytest.mark.parametrize("task", PAPER)
def test_paper_sizes_fit_the_paper_budgets(task):
    assert paper_count(task, "field") <= BUDGET[task]
    assert paper_count(task, "phi") <= BUDGET[task]
    assert paper_count(task, "energy") + paper_count(task, "proposal") <= BUDGET[task]
    assert paper_count(task, "timed-energy") + paper_count(task, "proposal") <= BUDGET[task]
    # A budget met by far would be another network than the paper's.
    assert paper_count(task, "field") >= 0.7 * BUDGET[task]


def test_paper_energy_and_proposal_in_the_plane():
    assert paper_count("plane", "energy") + paper_count("plane", "proposal") <= 11_000


def test_images_enter_through_the_vision_network():
    shapes = {"images": (2, 16, 16, 3), "history": (2, 2)}
    network, params = create("cmhf", "field", shapes, vision_width=8, vision_layers=2)
    encode = quick_jit(lambda images: network.encode(params, {"images": images, "history": jnp.zeros((2, 2))}))
    pixels = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
    np.testing.assert_allclose(encode(pixels), encode(np.float32(pixels / 255.0)), rtol=1e-3, atol=1e-4)
    assert not np.allclose(encode(pixels), encode(pixels[::-1]))


def test_vision_gives_two_coordinates_per_filter():
    images = jax.ShapeDtypeStruct((2, 96, 96, 3), jnp.uint8)
    features = jax.eval_shape(lambda x: CoordConvResNet(3, width=64, layers=4, filters=4, rngs=nnx.Rngs(0))(x), images)
    assert features.shape == (2, 8)


def test_spatial_softmax_finds_the_peak():
    maps = jnp.zeros((1, 5, 9, 2)).at[0, 0, 8, 0].set(100.0).at[0, 4, 0, 1].set(100.0)
    np.testing.assert_allclose(spatial_softmax(maps)[0], [1.0, -1.0, -1.0, 1.0], atol=1e-4)


def test_segment_distance_against_dense_points():
    rng = np.random.default_rng(0)
    waypoints, obstacles = rng.normal(size=(4, 2)), rng.normal(size=(5, 3))
    starts = np.concatenate([np.zeros((1, 2)), waypoints[:-1]])
    along = np.linspace(0, 1, 2001)[:, None, None]
    points = starts + along * (waypoints - starts)
    expected = np.linalg.norm(points[:, :, None] - obstacles[:, :2], axis=-1).min(axis=0)
    seen = look(segments(jnp.array(waypoints)), jnp.repeat(obstacles.T, len(waypoints), axis=1))
    distance, clearance = (values.reshape(len(obstacles), -1).T for values in (seen.distance, seen.clearance))
    np.testing.assert_allclose(distance, expected, atol=2e-3)
    np.testing.assert_allclose(clearance, expected - obstacles[:, 2], atol=2e-3)


def test_pair_network_sees_waypoints_through_the_given_map():
    values, context = evaluator("pairs", "energy"), make_context()
    plain = {name: value for name, value in context.items() if not name.startswith("to_waypoints")}
    identity = plain | {"to_waypoints": jnp.eye(DIM), "to_waypoints_offset": jnp.zeros(DIM)}
    one, other, mapped = (values(c, events(), 0.3) for c in (plain, identity, context))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert not np.allclose(one, mapped)
