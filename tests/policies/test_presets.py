"""Every preset of every task and method builds, fits its budget, survives JSON and has losses of the right shape."""

import jax
import jax.numpy as jnp
import pytest

from rnce import training
from rnce.policies.checkpoint import context_shapes
from rnce.policies.config import from_json, to_json
from rnce.policies.methods import METHODS, encode, init, make_keys
from rnce.policies.networks.functional import count_params
from rnce.policies.presets import recipe_for
from rnce.policies.recipe import Stage, scaled

BUDGETS = {"pinwheel": 22_000, "spiral": 22_000, "path-planning": 500_000, "pusht": 3_300_000}
PRESETS = [(task, preset) for task in BUDGETS for preset in ("cpu", "paper")]


def task_for(name: str, preset: str):
    return training.PUSHT_PIXELS if (name, preset) == ("pusht", "paper") else training.task_of(name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BUDGETS)
def test_presets_fit_their_budget(name, method):  # the paper's sizes are tested with the networks
    task, recipe = task_for(name, "cpu"), recipe_for(name, method)
    built = recipe.method.create(context_shapes(task), task.event_shape)
    assert count_params(jax.eval_shape(lambda: init(built, jax.random.key(0)))) <= BUDGETS[name]


# Tracing takes a while: methods that share their code are traced once for each task.
TRACED = [(name, "cpu", method) for name in ("path-planning", "pusht") for method in ("nf", "diffusion-phi", "i-r-nce")]
TRACED += [("pinwheel", "cpu", "ibc"), ("pinwheel", "cpu", "r-nce"), ("pusht", "paper", "i-r-nce")]


@pytest.mark.parametrize(("name", "preset", "method"), TRACED)
def test_losses_and_plans_of_presets_have_the_right_shapes(name, preset, method):
    task, recipe = task_for(name, preset), recipe_for(name, method, preset)
    built = recipe.method.create(context_shapes(task), task.event_shape)
    params = jax.eval_shape(lambda: init(built, jax.random.key(0)))
    contexts = {key: jax.ShapeDtypeStruct((2, *shape), jnp.float32) for key, shape in context_shapes(task).items()}
    events = jax.ShapeDtypeStruct((2, task.dim), jnp.float32)
    for phase in {(p.trains, p.loss): p for stage in recipe.stages for p in stage.phases}.values():
        loss = built.losses[phase.loss]
        value, _ = jax.eval_shape(
            lambda p, x, y, loss=loss: loss(p, x, y, make_keys(jax.random.key(0), 2)), params, contexts, events
        )
        assert value.shape == ()

    def plan(params, context):
        codes = encode(built, params, context)
        return built.candidates(params, codes, jax.random.key(0), recipe.samples, None)

    context = {key: jax.ShapeDtypeStruct(shape, jnp.float32) for key, shape in context_shapes(task).items()}
    drawn, scores = jax.eval_shape(plan, params, context)
    assert drawn.shape == (recipe.samples, task.dim)
    assert scores.shape == (recipe.samples,)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_presets_survive_json(name, preset, method):
    recipe = recipe_for(name, method, preset)
    assert from_json(METHODS[method], to_json(recipe.method)) == recipe.method
    for stage in recipe.stages:
        assert from_json(Stage, to_json(stage)) == stage


def test_unknown_names_suggest():
    with pytest.raises(ValueError, match="did you mean 'i-r-nce'"):
        recipe_for("pusht", "i-rnce")
    with pytest.raises(ValueError, match="'cpu' or 'paper'"):
        recipe_for("pusht", "nf", "gpu")


def test_your_own_task_trains_without_noise():
    assert recipe_for("my-robot", "nf").perturbation == (0.0, 0.0)


def test_scaled_keeps_the_proportions_of_stages():
    recipe = recipe_for("pusht", "i-r-nce")
    short = scaled(recipe, recipe.rounds // 10)
    assert [stage.rounds for stage in short.stages] == [stage.rounds // 10 for stage in recipe.stages]


def test_warm_start_is_an_option_and_pure_ranking_the_alternative():
    warm = recipe_for("pusht", "r-nce")
    pure = recipe_for("pusht", "r-nce", warm_start="none")
    assert [stage.name for stage in warm.stages] == ["warm", "rank"]
    assert [stage.name for stage in pure.stages] == ["rank"]
    assert pure.method.score_weight == 0.0
    assert [stage.name for stage in recipe_for("pinwheel", "r-nce", warm_start="score").stages] == ["warm", "rank"]
    with pytest.raises(ValueError, match="nf has none"):
        recipe_for("pusht", "nf", warm_start="score")


def test_the_proposal_trains_beside_before_or_against_the_energy():
    pretrained = recipe_for("pinwheel", "r-nce", proposal="pretrained")
    assert [[phase.trains for phase in stage.phases] for stage in pretrained.stages] == [["proposal"], ["energy"]]
    adversarial = recipe_for("pinwheel", "r-nce", proposal="adversarial")
    assert [phase.loss for phase in adversarial.stages[0].phases] == ["adversary", "rank"]
    assert recipe_for("pinwheel", "r-nce", proposal="joint") == recipe_for("pinwheel", "r-nce")
    with pytest.raises(ValueError, match="this recipe has none"):
        recipe_for("pinwheel", "ibc", proposal="pretrained")
