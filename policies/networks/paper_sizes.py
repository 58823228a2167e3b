"""The paper's network for every role of every benchmark, within its budget of parameters.

Roles: `field` (normalising flow, diffusion), `phi` (the energy whose gradient is Diffusion-φ's denoiser), `energy`
(IBC, R-NCE), `timed-energy` (I-R-NCE) and `proposal`. An energy and its proposal share one budget.

The paper's 2-D networks are eight dense layers of width 64 with residual connections, within about 22 thousand
parameters (11 thousand for R-NCE's two together); full 64 × 64 layers exceed that. The eight layers here are four
residual blocks of width 64 around a bottleneck, which keeps the number of layers, the width and the budget.
For Push-T the paper lets an energy and its proposal share the tokenizer of the context. Here each has its own, and the
sum stays within the budget with six blocks in the energy.
"""

from typing import Literal

from rnce.policies.networks.concat_squash import ConcatSquash
from rnce.policies.networks.config import NetworkConfig
from rnce.policies.networks.film import CMHF
from rnce.policies.networks.mlp import ResidualMLP
from rnce.policies.networks.transformer import Transformer


def plane_mlp(hidden: int, time_width: int) -> ResidualMLP:
    """(x, y, MLP(t)) concatenated, then eight dense layers; no time for `time_width` 0."""
    return ResidualMLP(
        width=64,
        hidden=hidden,
        depth=4,
        context_depth=0,
        joint_depth=0,
        conditioning="input",
        time_features=0,
        time_width=time_width,
    )


def path_transformer(depth: int, time_width: int = 32) -> Transformer:
    """Tokens of the time, ten obstacles, the goal and the waypoints, past and future."""
    return Transformer(width=64, depth=depth, heads=4, trajectory="history", time_width=time_width)


def pusht_transformer(depth: int, time_transform: Literal["identity", "log"] = "identity") -> Transformer:
    """Tokens of the time, the embedded observations, the past and the future positions."""
    return Transformer(width=128, depth=depth, heads=4, output_width=256, time_transform=time_transform)


PAPER: dict[str, dict[str, NetworkConfig]] = {
    "plane": {
        "field": plane_mlp(hidden=36, time_width=10),
        "phi": plane_mlp(hidden=36, time_width=10),
        "energy": plane_mlp(hidden=16, time_width=0),
        "timed-energy": plane_mlp(hidden=36, time_width=10),
        "proposal": ConcatSquash(width=64, depth=2),
    },
    "path-planning": {
        "field": path_transformer(depth=5),
        "phi": path_transformer(depth=5),
        "energy": path_transformer(depth=4, time_width=0),
        "timed-energy": path_transformer(depth=4),
        "proposal": ConcatSquash(width=256, depth=4),
    },
    "pusht": {
        "field": pusht_transformer(depth=8),
        "phi": pusht_transformer(depth=8),
        "energy": pusht_transformer(depth=6),
        "timed-energy": pusht_transformer(depth=6, time_transform="log"),
        "proposal": CMHF(width=64, depth=5, heads=2, context_width=128, time_transform="log"),
    },
}
BUDGET: dict[str, int] = {"plane": 22_000, "path-planning": 500_000, "pusht": 3_300_000}
