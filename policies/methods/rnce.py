"""R-NCE: ranking at t = 1 with negatives from a learned proposal (the paper's Algorithms 1 and 2)."""

from dataclasses import dataclass

from rnce.policies.methods.energies import EnergyMethod


@dataclass(frozen=True)
class RNCE(EnergyMethod):
    """Settings of R-NCE: I-R-NCE at the single time t = 1."""
