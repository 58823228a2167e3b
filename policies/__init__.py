"""Policies: six methods behind one `act(obs)`, their training, and their checkpoints."""

from rnce.policies.checkpoint import Checkpoint, CheckpointError
from rnce.policies.methods import METHODS
from rnce.policies.policy import Plan, Policy, compose, load_policy, pretrained_policies
from rnce.policies.realtime import RealTimePolicy
from rnce.policies.task import Task, infer_task

__all__ = [
    "METHODS",
    "Checkpoint",
    "CheckpointError",
    "Plan",
    "Policy",
    "RealTimePolicy",
    "Task",
    "compose",
    "infer_task",
    "load_policy",
    "pretrained_policies",
]
