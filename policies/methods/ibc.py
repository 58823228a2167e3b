"""IBC: ranking without the correction for the proposal, so that its optimum is the density ratio p/q."""

from dataclasses import dataclass

from rnce.policies.methods.energies import EnergyMethod


@dataclass(frozen=True)
class IBC(EnergyMethod):
    """Settings of IBC; `proposal=None` gives its usual uniform negatives."""

    correction: bool = False
