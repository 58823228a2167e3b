"""Push-T: push a T-shaped block onto its goal with a disc."""

from rnce.envs.pusht.env import OBS_TYPES, PushTEnv

__all__ = ["OBS_TYPES", "PushTEnv"]
