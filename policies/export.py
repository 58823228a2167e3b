"""A policy as one file that runs without this package: StableHLO for JAX, or ONNX.

Normaliser, networks, sampler and ranking are inside. The weights are constants of the program.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array, Float

from rnce.policies.bridges import Bridge
from rnce.policies.features import View
from rnce.policies.methods import encode
from rnce.policies.policy import Policy
from rnce.policies.proposals import make_flow
from rnce.policies.samplers import flow as flows
from rnce.policies.task import normalize

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
FLOW_BRIDGES = {"nf": "interpolant", "diffusion": "edm"}  # the settings' bridge, by method


def to_stablehlo(policy: Policy, platforms: Sequence[str] = ("cpu",)) -> bytes:
    """The plan as `jax.export` serialises it: a function of a key (2 × uint32) and the dict of windows → the chunk.

    `jax.export.deserialize(data).call(jax.random.PRNGKey(0), {"state": window})` runs it with JAX alone.
    """
    unknown = [platform for platform in platforms if platform not in PLATFORMS]
    if unknown or not platforms:
        raise ValueError(f"platforms={list(platforms)}: use some of {', '.join(PLATFORMS)}.")

    def plan(key: Array, observation: dict[str, Array]) -> Array:
        return policy.traced_plan(jax.random.wrap_key_data(key), observation).actions

    key = jax.ShapeDtypeStruct((2,), np.uint32)
    exported = jax_export.export(jax.jit(plan), platforms=tuple(platforms))(key, window_shapes(policy))
    return bytes(exported.serialize())


def to_onnx(policy: Policy) -> bytes:
    """The plan as an ONNX model: `noise` (samples × dim, standard normal) and an input per observation key → `actions`.

    ONNX has no counter-based random numbers, so the caller draws the noise. For `nf` and `diffusion`, whose samples
    are a function of it; energies are differentiated at every step of a chain that needs noise of its own.
    """
    name = policy.checkpoint.method_name
    if name not in FLOW_BRIDGES:
        raise ValueError(
            f"{policy.name} cannot become ONNX: only {' and '.join(FLOW_BRIDGES)} sample by a flow from given noise, "
            "and ONNX has no counter-based random numbers for the others; leave off .onnx for StableHLO, which has."
        )
    try:
        import jax2onnx
    except ImportError as error:
        raise ImportError("writing ONNX needs jax2onnx: pip install 'rnce[onnx]'") from error
    shapes = window_shapes(policy)
    inputs = [jax.ShapeDtypeStruct((policy.samples, policy.task.dim), np.float32), *shapes.values()]
    # Traced here and not by jax2onnx, which would put operators of its own in place of layers, and cannot batch them.
    traced = jax.make_jaxpr(lambda noise, *windows: plan_from_noise(policy, noise, dict(zip(shapes, windows))))(*inputs)
    model: Any = jax2onnx.to_onnx(
        lambda *values: jaxpr_as_fun(traced)(*values)[0],
        inputs,
        model_name=policy.name,
        input_names=["noise", *shapes],
        output_names=["actions"],
    )
    return model.SerializeToString()


def flow_of(policy: Policy, view: View) -> tuple[Bridge, flows.Flow]:
    """The bridge of a flow method and the flow it has learned, in one context."""
    settings, params = policy.checkpoint.method, policy._params
    bridge = getattr(settings, FLOW_BRIDGES[policy.checkpoint.method_name]).create()
    codes = encode(policy._method, params, normalize(policy._normalizer, view))
    return bridge, make_flow(policy._method.networks["field"], bridge, params["field"], codes["field"])


def plan_from_noise(policy: Policy, noise: Float[Array, "n dim"], window: dict[str, Array]) -> Array:
    """The chunk that a flow method plans when its random numbers are these."""
    settings, view = policy.checkpoint.method, policy.task.view(window)
    bridge, flow = flow_of(policy, view)
    times = bridge.grid(settings.sampler.steps)
    if policy.samples == 1:  # nothing to rank
        events = flows.integrate_plainly(flow, flow.prior_std * noise, flows.moments(flow, times))[-1]
        scores = jnp.zeros(1)
    else:
        events, scores = flows.carry(flow, noise, times, settings.sampler.divergences, flows.integrate_plainly)
    return policy._ranked(policy._normalizer, view, events, scores).actions


def window_shapes(policy: Policy) -> dict[str, jax.ShapeDtypeStruct]:
    """What a plan is made from: for each key n_ctx observations."""
    task = policy.task
    return {
        key: jax.ShapeDtypeStruct((task.n_ctx, *shape), np.float32) for key, shape in sorted(task.observation.items())
    }


def write(policy: Policy, file: str | Path, platforms: Sequence[str] = ("cpu",)) -> None:
    """Write the file, whole or not at all: ONNX if its name ends so, StableHLO otherwise."""
    file = Path(file)
    data = to_onnx(policy) if file.suffix == ".onnx" else to_stablehlo(policy, platforms)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        temporary.write_bytes(data)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
