"""I-R-NCE: ranking at m times of the interpolant along single trajectories (the paper's Algorithms 3 and 4)."""

from dataclasses import dataclass

from rnce.policies.methods.energies import EnergyMethod


@dataclass(frozen=True)
class IRNCE(EnergyMethod):
    """Settings of I-R-NCE."""

    times: int = 2
    final_times: int = 1
