"""Diffusion-EDM-φ: the denoiser is the gradient of a scalar network, so that a forward pass ranks samples."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.policies.bridges import EDM
from rnce.policies.methods.flows import FIELD, FlowSampler, flow_method
from rnce.policies.methods.method import Codes, Events, Method, Scores, Term, refuse_term
from rnce.policies.networks import NetworkConfig, ResidualMLP
from rnce.policies.networks.config import Shapes
from rnce.policies.networks.functional import Network, Params, Prepared, exact_divergence


@dataclass(frozen=True)
class DiffusionPhi:
    """Settings of diffusion-φ; `sigma_rel` is the noise level at which likelihoods are compared."""

    field: NetworkConfig = field(default_factory=ResidualMLP)
    edm: EDM = EDM()
    sampler: FlowSampler = FlowSampler()
    sigma_rel: float = 0.02
    draws: int = 1

    def create(self, context_shapes: Shapes, event_shape: tuple[int, int]) -> Method:
        """The method for contexts and events of these shapes."""
        scalar = self.field.create(context_shapes, event_shape, "energy")
        dim = event_shape[0] * event_shape[1]
        bridge, edm, sigma = self.edm.create(), self.edm, jnp.asarray(self.sigma_rel)
        base = flow_method(gradient_network(scalar), bridge, self.sampler, dim, "diffusion-phi", self.draws)

        def score(params: Params, codes: Codes, events: Events, term: Term | None) -> Scores:
            """log p at noise level σ_rel, up to a constant of the context: the score, integrated in closed form."""
            refuse_term(term, "diffusion-phi")
            phi = jax.vmap(
                lambda y: scalar.apply(params[FIELD], codes[FIELD], edm.c_in(sigma) * y, edm.c_noise(sigma))
            )(events)
            quadratic = (edm.c_skip(sigma) - 1.0) / (2.0 * sigma**2) * jnp.sum(events**2, axis=-1)
            return quadratic + edm.c_out(sigma) / (sigma**2 * edm.c_in(sigma)) * phi

        def candidates(
            params: Params, codes: Codes, key: PRNGKeyArray, n: int, term: Term | None
        ) -> tuple[Events, Scores]:
            events = base.sample(params, codes, key, n, term)
            return events, score(params, codes, events, term)

        return base._replace(candidates=candidates, score=score)


def gradient_network(scalar: Network) -> Network:
    """The field y ↦ ∇_y φ(x, y, t) of a scalar network."""

    def run(params: Params, prepared: Prepared, y: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jax.grad(lambda point: scalar.run(params, prepared, point))(y)

    def run_with_divergence(
        params: Params, prepared: Prepared, y: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        return exact_divergence(lambda point: run(params, prepared, point), y)

    return Network(scalar.init, scalar.encode, scalar.prepare, run, run_with_divergence)
