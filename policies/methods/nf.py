"""NF: a normalising flow whose field is learned along a stochastic interpolant."""

from dataclasses import dataclass, field

from rnce.policies.bridges import Interpolant
from rnce.policies.methods.flows import FlowSampler, flow_method
from rnce.policies.methods.method import Method
from rnce.policies.networks import NetworkConfig, ResidualMLP
from rnce.policies.networks.config import Shapes


@dataclass(frozen=True)
class NF:
    """Settings of NF."""

    field: NetworkConfig = field(default_factory=ResidualMLP)
    interpolant: Interpolant = Interpolant()
    sampler: FlowSampler = FlowSampler()
    draws: int = 1

    def create(self, context_shapes: Shapes, event_shape: tuple[int, int]) -> Method:
        """The method for contexts and events of these shapes."""
        network = self.field.create(context_shapes, event_shape, "field")
        dim = event_shape[0] * event_shape[1]
        return flow_method(network, self.interpolant.create(), self.sampler, dim, "nf", self.draws)
