"""Networks, tasks and policies small enough to compile in a second."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rnce.policies import METHODS, Policy, Task
from rnce.policies.checkpoint import Checkpoint, context_shapes
from rnce.policies.data import TrainingSet
from rnce.policies.methods import EnergySampler, FlowSampler, init
from rnce.policies.networks import ResidualMLP, ShallowField
from rnce.policies.recipe import Recipe
from rnce.policies.task import Normalizer
from rnce.policies.train import Run, State, block_function, make_run


def mlp(width: int = 8, depth: int = 1, **settings: Any) -> ResidualMLP:
    shared: dict[str, Any] = {
        "context_width": 8,
        "context_depth": 1,
        "time_features": 4,
        "time_width": 8,
        "time_depth": 1,
    }
    return ResidualMLP(width=width, depth=depth, **{**shared, **settings})


def shallow(width: int = 16, **settings: Any) -> ShallowField:
    shared: dict[str, Any] = {
        "context_width": 8,
        "context_depth": 1,
        "joint_depth": 1,
        "time_features": 4,
        "time_width": 8,
    }
    return ShallowField(width=width, **{**shared, **settings})


def one_step_task(dim: int, name: str = "plane") -> Task:
    """A conditional density: one observation of one number, one action."""
    return Task(name, None, {"context": (1,)}, "context", action_dim=dim, n_ctx=1, n_pred=1, execute=1)


def one_step_set(contexts: np.ndarray, events: np.ndarray) -> TrainingSet:
    rows = np.arange(len(events), dtype=np.int32)[:, None]
    return TrainingSet({"context": jnp.asarray(contexts)}, {}, jnp.asarray(events), rows, rows, rows[:, 0])


def run_stages(run: Run) -> State:
    """All stages of a run in memory, without files."""
    state, first = run.start(), 0
    for stage in run.recipe.stages:
        state = run.enter(stage, state)
        state, _ = block_function(run, stage, stage.rounds)(state, run.data, jnp.asarray(first))
        first += stage.rounds
    return state


def trained(task: Task, recipe: Recipe, contexts: np.ndarray, events: np.ndarray) -> Policy:
    run = make_run(task, recipe, one_step_set(contexts, events))
    params = jax.tree.map(np.asarray, run_stages(run).params)
    return Policy(Checkpoint(task, recipe.method_name, recipe.method, params, run.normalizer, samples=recipe.samples))


def untrained(method_name: str, task: Task, samples: int = 4, seed: int = 0, **settings: Any) -> Policy:
    """A policy with random weights; whatever its method, a plan takes few steps."""
    kind = METHODS[method_name]
    if method_name in ("ibc", "r-nce", "i-r-nce"):
        short = EnergySampler(flow_steps=3, mcmc_steps=2, step_size=1e-2, final_step_size=1e-3)
        settings = {"energy": mlp(base="gaussian"), "proposal": shallow(), "sampler": short} | settings
    else:
        settings = {"field": mlp(), "sampler": FlowSampler(4, 3)} | settings
    method: Any = kind(**settings)
    normalizer = normalizer_of(task)
    made = method.create(context_shapes(task), task.event_shape)
    rng = np.random.default_rng(seed)

    def fill(leaf):  # without the small last layers of fresh networks, so that contexts matter; and nothing to compile
        return np.asarray(rng.normal(size=leaf.shape) / np.sqrt(max(leaf.shape[0], 1)), np.float32)

    params = jax.tree.map(fill, jax.eval_shape(lambda: init(made, jax.random.key(0))))
    return Policy(Checkpoint(task, method_name, method, params, normalizer, samples=samples))


def normalizer_of(task: Task, scale: float = 0.5) -> Normalizer:
    window = {key: jnp.zeros((task.n_ctx, *shape)) for key, shape in task.observation.items()}
    features = task.view(window).context.get("features", jnp.zeros(1)).shape[0]
    eye = np.eye(task.dim, dtype=np.float32)
    zeros, ones = np.zeros(features, np.float32), np.ones(features, np.float32)
    return Normalizer(zeros, ones, np.zeros(task.dim, np.float32), eye / scale, eye * scale)
