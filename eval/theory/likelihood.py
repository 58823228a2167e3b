"""How accurate log-probabilities of flows are, and what it takes to rank by them: a mixture in twenty dimensions.

The flow is the interpolant's exact one, so every error is one of integration. On two time scales the path is integrated
finely and its divergence at a few times only. A Hutchinson estimate replaces each exact divergence, which costs `dim`
Jacobian products, by the mean of εᵀJε over a few random ε.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.eval.theory.mixture import Mixture, random_mixture, velocity
from rnce.policies.bridges import Bridge, Interpolant
from rnce.policies.networks import exact_divergence
from rnce.policies.samplers import flow as flows

DIM = 20
STEPS = 128
DIVERGENCES = (3, 5, 7, 9, 13, 17, 25, 33, 65, 129)
PROBES = (1, 2, 4, 8, 20, 64)
ENOUGH = 17  # divergence times of the ranking comparison
GROUP = 8  # samples that a policy ranks


def exact_flow(mixture: Mixture, bridge: Bridge) -> flows.Flow:
    """The flow from noise to the mixture, with its exact divergence."""

    def with_divergence(t: Float[Array, ""], y: Float[Array, "n dim"]) -> tuple[Array, Array]:
        return jax.vmap(lambda point: exact_divergence(lambda z: velocity(mixture, bridge, t, z), point))(y)

    return flows.Flow(lambda t, y: jax.vmap(lambda point: velocity(mixture, bridge, t, point))(y), with_divergence, 1.0)


def hutchinson_flow(mixture: Mixture, bridge: Bridge, key: PRNGKeyArray, probes: int, fresh: bool) -> flows.Flow:
    """The same flow with estimated divergences: probes of random signs, kept along a path or fresh at every time."""
    exact = exact_flow(mixture, bridge)

    def with_estimate(t: Float[Array, ""], y: Float[Array, "n dim"]) -> tuple[Array, Array]:
        time_key = jax.random.fold_in(key, jax.lax.bitcast_convert_type(t, jnp.uint32)) if fresh else key
        signs = jax.random.rademacher(time_key, (len(y), probes, y.shape[1]), y.dtype)

        def one(point: Float[Array, " dim"], signs: Float[Array, "probes dim"]) -> tuple[Array, Array]:
            value, jacobian_times = jax.linearize(lambda z: velocity(mixture, bridge, t, z), point)
            return value, jnp.mean(jax.vmap(lambda e: jacobian_times(e) @ e)(signs))

        return jax.vmap(one)(y, signs)

    return exact._replace(velocity_and_divergence=with_estimate)


def likelihood(seed: int = 0, samples: int = 512, probes: tuple[int, ...] = PROBES) -> dict[str, Any]:
    """Errors against the number of divergence times; errors and rankings of Hutchinson estimates."""
    mixture = random_mixture(seed, DIM, components=4, stds=(0.05, 1.0), spread=2.0)
    bridge = Interpolant(alpha=2.0).create()
    y = mixture.sample(jax.random.key(seed), samples)
    truth = np.asarray(jax.jit(jax.vmap(mixture.log_prob))(y), float)
    times, flow = bridge.grid(STEPS), exact_flow(mixture, bridge)
    path = jax.jit(lambda y: flows.integrate(flow, y, times[::-1])[::-1])(y)
    prior = np.asarray(flows.prior_log_prob(flow, path[0]), float)

    def judged(log_prob: Float[np.ndarray, " n"]) -> dict[str, float]:
        return judge(log_prob, truth)

    divergences = jax.jit(lambda path: flows.divergences_along(flow, path, times))(path)
    coarse = []
    for count in DIVERGENCES:
        at, weights = flows.quadrature(flow, times, count)
        even = np.linspace(0, STEPS, count).round().astype(int)
        rules = {
            "two_time_scales": weights @ divergences[at],
            "trapezoid": jnp.trapezoid(divergences[even], times[even], axis=0),
        }
        figures = {name: judged(prior - np.asarray(integral, float)) for name, integral in rules.items()}
        coarse.append({"divergences": count, **figures})

    at, weights = flows.quadrature(flow, times, ENOUGH)

    def estimated(key: PRNGKeyArray, count: int, fresh: bool) -> Float[np.ndarray, " n"]:
        estimate = hutchinson_flow(mixture, bridge, key, count, fresh)
        values = jax.jit(lambda path: flows.divergences_along(estimate, path, times[at]))(path[at])
        return prior - np.asarray(weights @ values, float)

    noisy = []
    for number, count in enumerate(probes):
        kept_key, fresh_key = jax.random.split(jax.random.fold_in(jax.random.key(seed + 1), number))
        noisy.append(
            {
                "probes": count,
                "kept": judged(estimated(kept_key, count, fresh=False)),
                "fresh": judged(estimated(fresh_key, count, fresh=True)),
            }
        )
    return {
        "dim": DIM,
        "samples": samples,
        "steps": STEPS,
        "spread_of_log_prob": float(truth.std()),
        "coarse": coarse,
        "hutchinson_divergences": ENOUGH,
        "hutchinson": noisy,
    }


def judge(log_prob: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> dict[str, float]:
    """Error in nats; share of pairs a nat or more apart that are in order; what picking the best of a group loses."""
    error = log_prob - truth
    first, second = (np.array_split(values, 2) for values in (truth, log_prob))
    half = min(map(len, first))
    gap, found = first[0][:half] - first[1][:half], second[0][:half] - second[1][:half]
    apart = np.abs(gap) >= 1.0
    groups, judged = (values[: len(values) // GROUP * GROUP].reshape(-1, GROUP) for values in (truth, log_prob))
    picked = np.take_along_axis(groups, judged.argmax(1)[:, None], 1)[:, 0]
    return {
        "rms_error": float(np.sqrt(np.mean(error**2))),
        "pairs_in_order": float(np.mean(np.sign(gap) == np.sign(found), where=apart)),
        "best_picked": float(np.mean(picked == groups.max(1))),
        "nats_lost": float(np.mean(groups.max(1) - picked)),
    }
