"""Energy-based robot policies. Importing this package registers its Gymnasium environments.

Nothing heavy is imported here: JAX arrives with the first policy.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnce.policies import Policy

__version__ = "0.1.0"
__all__ = ["__version__", "load_policy"]

if find_spec("gymnasium"):  # a robot that only asks a server for actions (rnce.client) needs no environments
    from rnce.envs import register_environments

    register_environments()


def load_policy(name_or_path: str) -> "Policy":
    """Load a shipped policy such as ``"pusht/i-r-nce"``, or one from a checkpoint folder."""
    from rnce.policies import load_policy as load

    return load(name_or_path)
