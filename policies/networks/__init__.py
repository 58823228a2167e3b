"""Networks: written as NNX modules, used as pure functions (`functional.py`)."""

from collections.abc import Mapping
from typing import Any

from rnce.policies.networks import config as _config
from rnce.policies.networks.concat_squash import ConcatSquash
from rnce.policies.networks.config import NetworkConfig
from rnce.policies.networks.film import CMHF
from rnce.policies.networks.functional import Network, count_params, exact_divergence, functional
from rnce.policies.networks.mlp import ResidualMLP
from rnce.policies.networks.pairs import PairNetwork
from rnce.policies.networks.shallow import ShallowField
from rnce.policies.networks.transformer import Transformer

NETWORKS: dict[str, type[NetworkConfig]] = {
    "residual-mlp": ResidualMLP,
    "shallow-field": ShallowField,
    "concat-squash": ConcatSquash,
    "pairs": PairNetwork,
    "transformer": Transformer,
    "cmhf": CMHF,
}


def network_from_dict(settings: Mapping[str, Any]) -> NetworkConfig:
    """The configuration of `{"name": "residual-mlp", "width": 64}`; what is left out takes its default."""
    return _config.network_from_dict(settings, NETWORKS)


def network_to_dict(config: NetworkConfig) -> dict[str, Any]:
    """The name and all settings of a network, as JSON holds them."""
    return _config.network_to_dict(config, NETWORKS)


__all__ = [
    "CMHF",
    "NETWORKS",
    "ConcatSquash",
    "Network",
    "NetworkConfig",
    "PairNetwork",
    "ResidualMLP",
    "ShallowField",
    "Transformer",
    "count_params",
    "exact_divergence",
    "functional",
    "network_from_dict",
    "network_to_dict",
]
