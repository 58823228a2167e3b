"""Bridges between noise and data: what a network regresses on, and the flow its output defines.

A bridge mixes noise z and an event y into y_t = noise(t)·z + data(t)·y. A network F sees the scaled mixture and learns
a target by plain least squares; its output then defines a flow that carries noise to data:

    dy/dt = keep(t)·y + gain(t)·F(scale(t)·y, feature(t)).

Stochastic interpolants run over t ∈ [0, 1] with the flow F itself. EDM diffusion runs over the noise level σ, from
σ_max down to σ_min. Nothing else differs between the two families.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.policies.networks.functional import Code, Network, Params, Prepared

Time = Float[Array, ""]
Numbers = TypeVar("Numbers", Array, np.ndarray)


class Coefficients(NamedTuple):
    """How the flow is made from the network's output at one time."""

    keep: Time
    gain: Time
    scale: Time
    feature: Time


class Bridge(NamedTuple):
    """A path of densities from noise to data. All functions take one time."""

    sample_time: Callable[[PRNGKeyArray], Time]
    noise: Callable[[Time], Time]
    data: Callable[[Time], Time]
    target: Callable[[Time, Float[Array, " dim"], Float[Array, " dim"]], Float[Array, " dim"]]
    coefficients: Callable[[Time], Coefficients]
    grid: Callable[[int], Float[np.ndarray, " steps+1"]]  # times from noise to data, known before compilation
    prior_std: float  # of the noise end
    clock: Callable[[Time], Time] = lambda t: t  # in which the flow's divergence changes evenly


def perturb(bridge: Bridge, t: Time, z: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """The point of the bridge between noise z and event y at time t."""
    return bridge.noise(t) * z + bridge.data(t) * y


def score_velocity(
    bridge: Bridge, t: Time, y: Float[Array, "... dim"], score: Float[Array, "... dim"]
) -> Float[Array, "... dim"]:
    """The velocity of the flow whose density at time t has this score; for times with some data in the mixture.

    With E[z|y_t] = −noise·score, the velocity noise′·E[z|y_t] + data′·E[y|y_t] follows.
    """
    (noise, noise_rate), (data, data_rate) = (jax.value_and_grad(part)(t) for part in (bridge.noise, bridge.data))
    z = -noise * score
    return noise_rate * z + data_rate * (y - noise * z) / data


@dataclass(frozen=True)
class Interpolant:
    """A stochastic interpolant I_t(z, y); times are drawn as u^{1/α}, which favours the data end for α > 1."""

    kind: Literal["trigonometric", "linear"] = "trigonometric"
    alpha: float = 2.0

    def create(self) -> Bridge:
        """The bridge of this interpolant."""
        half_pi = jnp.pi / 2
        if self.kind == "trigonometric":
            noise, data = (lambda t: jnp.cos(half_pi * t)), (lambda t: jnp.sin(half_pi * t))
            warp = self.warp
        elif self.kind == "linear":
            noise, data = (lambda t: 1.0 - t), (lambda t: t)
            warp = lambda u: u  # noqa: E731 – its flow bends at the noise end too: wide steps there would cost accuracy
        else:
            raise ValueError(f"interpolant kind={self.kind!r}: use 'trigonometric' or 'linear'")
        zero, one = jnp.zeros(()), jnp.ones(())

        def target(t: Time, z: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, " dim"]:
            return jax.grad(noise)(t) * z + jax.grad(data)(t) * y

        return Bridge(
            sample_time=lambda key: self.warp(jax.random.uniform(key)),
            noise=noise,
            data=data,
            target=target,
            coefficients=lambda t: Coefficients(zero, one, one, t),
            grid=lambda steps: warp(np.linspace(0.0, 1.0, steps + 1, dtype=np.float32)),
            prior_std=1.0,
        )

    def warp(self, u: Numbers) -> Numbers:
        """Uniform numbers to times: t = u^{1/α}."""
        return u ** (1.0 / self.alpha)


@dataclass(frozen=True)
class EDM:
    """Diffusion in the parameterisation of Karras et al. (2022), table 1: time is the noise level σ."""

    sigma_data: float = 0.5
    sigma_min: float = 0.002
    sigma_max: float = 80.0
    rho: float = 7.0
    log_mean: float = -1.2  # of ln σ in training
    log_std: float = 1.2

    def create(self) -> Bridge:
        """The bridge of this diffusion."""

        def target(sigma: Time, z: Float[Array, " dim"], y: Float[Array, " dim"]) -> Float[Array, " dim"]:
            # The denoiser is c_skip·y_σ + c_out·F. Karras' weight λ(σ) = 1/c_out² turns the loss on the denoiser into
            # plain least squares on F.
            return (y - self.c_skip(sigma) * (y + sigma * z)) / self.c_out(sigma)

        def coefficients(sigma: Time) -> Coefficients:
            # dy/dσ = (y − denoiser)/σ, the probability-flow ODE.
            return Coefficients(
                keep=(1.0 - self.c_skip(sigma)) / sigma,
                gain=-self.c_out(sigma) / sigma,
                scale=self.c_in(sigma),
                feature=self.c_noise(sigma),
            )

        return Bridge(
            sample_time=lambda key: jnp.exp(self.log_mean + self.log_std * jax.random.normal(key)),
            noise=lambda sigma: sigma,
            data=jnp.ones_like,
            target=target,
            coefficients=coefficients,
            grid=self.sigmas,
            prior_std=self.sigma_max,
            clock=jnp.log,  # the divergence is like 1/σ, over more than four decades
        )

    def c_skip(self, sigma: Time) -> Time:
        """How much of the noisy event passes straight to the denoised one."""
        return self.sigma_data**2 / (sigma**2 + self.sigma_data**2)

    def c_out(self, sigma: Time) -> Time:
        """Scale of the network's output."""
        return sigma * self.sigma_data / jnp.sqrt(sigma**2 + self.sigma_data**2)

    def c_in(self, sigma: Time) -> Time:
        """Scale of the network's input: it always sees unit variance."""
        return 1.0 / jnp.sqrt(sigma**2 + self.sigma_data**2)

    def c_noise(self, sigma: Time) -> Time:
        """What the network sees of the noise level."""
        return jnp.log(sigma) / 4.0

    def sigmas(self, steps: int) -> Float[np.ndarray, " {steps}+1"]:
        """Noise levels from σ_max to σ_min, evenly spaced in σ^{1/ρ}."""
        first, last = self.sigma_max ** (1.0 / self.rho), self.sigma_min ** (1.0 / self.rho)
        return (np.linspace(first, last, steps + 1) ** self.rho).astype(np.float32)


def prepare(network: Network, bridge: Bridge, params: Params, code: Code, t: Time) -> tuple[Coefficients, Prepared]:
    """What the flow needs of a time."""
    coefficients = bridge.coefficients(t)
    return coefficients, network.prepare(params, code, coefficients.feature)


def velocity(
    network: Network, params: Params, prepared: tuple[Coefficients, Prepared], y: Float[Array, " dim"]
) -> Float[Array, " dim"]:
    """The flow dy/dt of one event."""
    (keep, gain, scale, _), condition = prepared
    return keep * y + gain * network.run(params, condition, scale * y)


def velocity_and_divergence(
    network: Network, params: Params, prepared: tuple[Coefficients, Prepared], y: Float[Array, " dim"]
) -> tuple[Float[Array, " dim"], Time]:
    """The flow and its exact divergence, by the chain rule through the bridge's scaling."""
    (keep, gain, scale, _), condition = prepared
    value, divergence = network.run_with_divergence(params, condition, scale * y)
    return keep * y + gain * value, keep * y.shape[0] + gain * scale * divergence
