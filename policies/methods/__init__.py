"""The six methods: what each trains, how it samples and how it scores."""

from rnce.policies.methods.diffusion import Diffusion
from rnce.policies.methods.diffusion_phi import DiffusionPhi
from rnce.policies.methods.energies import EnergyMethod, EnergySampler, with_budget
from rnce.policies.methods.flows import FlowSampler
from rnce.policies.methods.ibc import IBC
from rnce.policies.methods.irnce import IRNCE
from rnce.policies.methods.method import Keys, Method, encode, init, make_keys
from rnce.policies.methods.nf import NF
from rnce.policies.methods.rnce import RNCE

METHODS: dict[str, type] = {
    "nf": NF,
    "ibc": IBC,
    "r-nce": RNCE,
    "i-r-nce": IRNCE,
    "diffusion": Diffusion,
    "diffusion-phi": DiffusionPhi,
}

__all__ = [
    "IBC",
    "IRNCE",
    "METHODS",
    "NF",
    "RNCE",
    "Diffusion",
    "DiffusionPhi",
    "EnergyMethod",
    "EnergySampler",
    "FlowSampler",
    "Keys",
    "Method",
    "encode",
    "init",
    "make_keys",
    "with_budget",
]
