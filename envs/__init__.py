"""Gymnasium environments: Push-T and obstacle path planning."""

from gymnasium.envs.registration import register, registry

__all__ = ["register_environments"]


def register_environments() -> None:
    """Add the environments to Gymnasium's registry; doing it twice changes nothing."""
    for spec in ():
        if spec["id"] not in registry:
            register(**spec)
