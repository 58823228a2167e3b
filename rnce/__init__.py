"""Energy-based robot policies. Importing this package registers its Gymnasium environments.

Nothing heavy is imported here: JAX arrives with the first policy.
"""

from typing import TYPE_CHECKING

from rnce.envs import register_environments

if TYPE_CHECKING:
    from rnce.policies import Policy

__version__ = "0.1.0"
__all__ = ["__version__", "load_policy"]

register_environments()


def load_policy(name_or_path: str) -> "Policy":
    """Load a shipped policy such as ``"pusht/i-r-nce"``, or one from a checkpoint folder."""
    from rnce.policies import load_policy as load

    return load(name_or_path)
