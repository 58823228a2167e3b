"""The package's own policies with random weights, small enough to compile in a second."""

import jax
import jax.numpy as jnp
import numpy as np

from rnce.policies import Policy
from rnce.policies.bridges import Interpolant
from rnce.policies.checkpoint import Checkpoint, context_shapes
from rnce.policies.methods import NF, FlowSampler, init
from rnce.policies.networks import ResidualMLP
from rnce.policies.task import Normalizer
from rnce.training import PATH_PLANNING, PUSHT


def tiny(task, seed: int, scale: float) -> Policy:
    dim = task.dim
    settings = NF(ResidualMLP(width=16, depth=1, context_width=16), Interpolant(), FlowSampler(4, 3))
    eye = np.eye(dim)
    features = _feature_count(task)
    fitted = (np.zeros(features), np.ones(features), np.zeros(dim), eye / scale, eye * scale)
    normalizer = Normalizer(*(jnp.asarray(part, jnp.float32) for part in fitted))
    method = settings.create(context_shapes(task), task.event_shape)
    params = jax.tree.map(np.asarray, jax.jit(lambda key: init(method, key))(jax.random.key(seed)))
    return Policy(Checkpoint(task, "nf", settings, params, normalizer, samples=4))


def _feature_count(task) -> int:
    window = {key: jnp.zeros((task.n_ctx, *shape)) for key, shape in task.observation.items()}
    features = task.view(window).context.get("features")
    return 0 if features is None else len(features)


def path() -> Policy:
    return tiny(PATH_PLANNING, 0, 0.05)


def push() -> Policy:
    return tiny(PUSHT, 0, 20.0)
