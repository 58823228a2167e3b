"""The two networks of Diffusion Policy (Chi et al.) for Push-T from keypoints, to time their plans on this machine.

Only sizes matter here: weights are fresh. Written anew after the published description, compiled by XLA like our own.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.functional import count_params

HORIZON, ACTION, N_OBS, OBS = 16, 2, 2, 20  # nine keypoints and the agent, two steps of them
DIFFUSION_STEPS = 100

Chunk = Float[Array, "horizon action"]
Window = Float[Array, "n_obs obs"]


class Peer(NamedTuple):
    """A policy's plan as one compiled function of a key and a window of observations."""

    name: str
    params: int
    plan: Callable[[Array, Window], Chunk]


def diffusion_policies() -> list[Peer]:
    """Both networks, each with all steps of its sampler."""
    return [
        _peer("Diffusion Policy, Transformer", ChunkTransformer(nnx.Rngs(0))),
        _peer("Diffusion Policy, CNN", ChunkUNet(nnx.Rngs(0))),
    ]


def _peer(name: str, module: nnx.Module) -> Peer:
    graph, state = nnx.split(module)
    betas = jnp.linspace(1e-4, 0.02, DIFFUSION_STEPS)
    kept = jnp.cumprod(1 - betas)

    @jax.jit
    def plan(state: nnx.State, key: Array, window: Window) -> Chunk:
        network = nnx.merge(graph, state)
        first, *keys = jax.random.split(key, DIFFUSION_STEPS + 1)

        def denoise(chunk: Chunk, at: tuple[Array, Array]) -> tuple[Chunk, None]:
            k, key = at
            noise = network(chunk, k.astype(jnp.float32), window)
            mean = (chunk - betas[k] / jnp.sqrt(1 - kept[k]) * noise) / jnp.sqrt(1 - betas[k])
            return mean + jnp.where(k > 0, jnp.sqrt(betas[k]), 0.0) * jax.random.normal(key, chunk.shape), None

        chunk = jax.random.normal(first, (HORIZON, ACTION))
        return jax.lax.scan(denoise, chunk, (jnp.arange(DIFFUSION_STEPS)[::-1], jnp.stack(keys)))[0]

    return Peer(name, count_params(nnx.to_pure_dict(state)), lambda key, window: plan(state, key, window))


def _sinusoids(t: Float[Array, ""], size: int) -> Float[Array, " size"]:
    rates = jnp.exp(-jnp.log(10_000.0) * jnp.arange(size // 2) / (size // 2 - 1))
    return jnp.concatenate([jnp.sin(t * rates), jnp.cos(t * rates)])


class ChunkUNet(nnx.Module):
    """The convolutional one: three resolutions of 256, 512 and 1024 channels, steered by scales and shifts."""

    CHANNELS, STEP = (256, 512, 1024), 256

    def __init__(self, rngs: nnx.Rngs):
        step, condition = self.STEP, self.STEP + N_OBS * OBS
        self.step = nnx.List([nnx.Linear(step, 4 * step, rngs=rngs), nnx.Linear(4 * step, step, rngs=rngs)])
        self.down, self.up = nnx.List(), nnx.List()
        widths = (ACTION, *self.CHANNELS)
        for i, (narrow, wide) in enumerate(itertools.pairwise(widths)):
            halve = _Conv(wide, wide, 3, rngs, stride=2) if i + 1 < len(self.CHANNELS) else None
            self.down.append(nnx.List([*_two_blocks(narrow, wide, condition, rngs), halve]))
        self.middle = nnx.List(_two_blocks(widths[-1], widths[-1], condition, rngs))
        for narrow, wide in reversed(list(itertools.pairwise(self.CHANNELS))):
            double = _Conv(narrow, narrow, 4, rngs)  # between the rows of the finer chunk there are zeros
            self.up.append(nnx.List([*_two_blocks(2 * wide, narrow, condition, rngs), double]))
        self.last = _ConvBlock(widths[1], widths[1], rngs)
        self.out = _Conv(widths[1], ACTION, 1, rngs)

    def __call__(self, chunk: Chunk, k: Float[Array, ""], window: Window) -> Chunk:
        """The noise in a chunk."""
        step = self.step[1](_mish(self.step[0](_sinusoids(k, self.STEP))))
        condition, h, skipped = jnp.concatenate([step, window.reshape(-1)]), chunk, []
        for first, second, halve in self.down:
            h = second(first(h, condition), condition)
            skipped.append(h)
            h = h if halve is None else halve(h)
        for block in self.middle:
            h = block(h, condition)
        for first, second, double in self.up:
            h = second(first(jnp.concatenate([h, skipped.pop()], axis=-1), condition), condition)
            h = double(jnp.stack([h, jnp.zeros_like(h)], axis=1).reshape(-1, h.shape[1]))
        return self.out(self.last(h))


def _two_blocks(narrow: int, wide: int, condition: int, rngs: nnx.Rngs) -> list["_SteeredBlock"]:
    return [_SteeredBlock(narrow, wide, condition, rngs), _SteeredBlock(wide, wide, condition, rngs)]


def _mish(h: Array) -> Array:
    return h * jnp.tanh(jax.nn.softplus(h))


class _Conv(nnx.Module):
    """Along the chunk, as one matrix product: XLA's own convolution is a hundred times slower on a CPU."""

    def __init__(self, narrow: int, wide: int, size: int, rngs: nnx.Rngs, stride: int = 1):
        self.size, self.stride = size, stride
        self.layer = nnx.Linear(size * narrow, wide, rngs=rngs)

    def __call__(self, h: Float[Array, "length narrow"]) -> Float[Array, "shorter wide"]:
        before = (self.size - 1) // 2
        padded = jnp.pad(h, ((before, self.size - 1 - before), (0, 0)))
        seen = jnp.concatenate([padded[i : i + len(h)] for i in range(self.size)], axis=1)
        return self.layer(seen[:: self.stride])


class _ConvBlock(nnx.Module):
    def __init__(self, narrow: int, wide: int, rngs: nnx.Rngs):
        self.conv = _Conv(narrow, wide, 5, rngs)
        self.norm = nnx.GroupNorm(wide, num_groups=8, rngs=rngs)

    def __call__(self, h: Array) -> Array:
        return _mish(self.norm(self.conv(h)[None])[0])


class _SteeredBlock(nnx.Module):
    def __init__(self, narrow: int, wide: int, condition: int, rngs: nnx.Rngs):
        self.first, self.second = _ConvBlock(narrow, wide, rngs), _ConvBlock(wide, wide, rngs)
        self.steer = nnx.Linear(condition, 2 * wide, rngs=rngs)
        self.skip = _Conv(narrow, wide, 1, rngs) if narrow != wide else None

    def __call__(self, h: Array, condition: Float[Array, " condition"]) -> Array:
        scale, shift = jnp.split(self.steer(_mish(condition)), 2)
        steered = scale * self.first(h) + shift
        return self.second(steered) + (h if self.skip is None else self.skip(h))


class ChunkTransformer(nnx.Module):
    """The attentive one: eight decoder layers of width 256 that look at the step and the observations."""

    WIDTH, LAYERS, HEADS = 256, 8, 4

    def __init__(self, rngs: nnx.Rngs):
        width = self.WIDTH
        self.action_in, self.obs_in = nnx.Linear(ACTION, width, rngs=rngs), nnx.Linear(OBS, width, rngs=rngs)
        self.places = nnx.Param(0.02 * rngs.normal((HORIZON, width)))
        self.condition_places = nnx.Param(0.02 * rngs.normal((1 + N_OBS, width)))
        self.memory = nnx.List([nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)])
        self.layers = nnx.List([_DecoderLayer(width, self.HEADS, rngs) for _ in range(self.LAYERS)])
        self.norm, self.out = nnx.LayerNorm(width, rngs=rngs), nnx.Linear(width, ACTION, rngs=rngs)

    def __call__(self, chunk: Chunk, k: Float[Array, ""], window: Window) -> Chunk:
        """The noise in a chunk."""
        tokens = jnp.concatenate([_sinusoids(k, self.WIDTH)[None], self.obs_in(window)]) + self.condition_places[...]
        memory = self.memory[1](_mish(self.memory[0](tokens)))
        h = self.action_in(chunk) + self.places[...]
        for layer in self.layers:
            h = layer(h, memory)
        return self.out(self.norm(h))


class _DecoderLayer(nnx.Module):
    def __init__(self, width: int, heads: int, rngs: nnx.Rngs):
        attention = lambda: nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)  # noqa: E731
        self.to_itself, self.to_memory = attention(), attention()
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(3)])
        self.widen, self.narrow = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, h: Array, memory: Array) -> Array:
        own = self.norms[0](h)
        h = h + self.to_itself(own, mask=jnp.tril(jnp.ones((1, HORIZON, HORIZON), bool)))
        h = h + self.to_memory(self.norms[1](h), memory, memory)
        return h + self.narrow(jax.nn.gelu(self.widen(self.norms[2](h))))
