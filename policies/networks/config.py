"""What every network's configuration has in common, and its way to and from JSON."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, Literal, get_args

from flax import nnx

from rnce.policies.networks.functional import ContextualModule, Network, functional

Output = Literal["field", "energy"]
Shapes = Mapping[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a network is built for: named context shapes, the event (n_pred, action_dim) and the kind of output."""

    context_shapes: Shapes
    event_shape: tuple[int, int]
    output: Output

    @property
    def dim(self) -> int:
        """Size of the flat event."""
        return self.event_shape[0] * self.event_shape[1]

    @property
    def outputs(self) -> int:
        """Size of the last layer: the event for a field, one for an energy."""
        return 1 if self.output == "energy" else self.dim


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings that all networks share; only fields that JSON can hold.

    Attributes:
        time_transform: `identity`, or `log` for t ↦ −log(1.1 − t), which spreads the times near the data.
        time_features: sines and cosines of the time fed to the time embedding beside the time itself; 0 for none.
        time_width: width of the embedding of the time; 0 makes the network independent of time.
        time_depth: dense layers of the embedding of the time; 0 passes the features as they are.
        base: `gaussian` adds −‖y‖²/2 to an energy, so that an untrained one is the prior instead of improper.
    """

    time_transform: Literal["identity", "log"] = "identity"
    time_features: int = 16
    time_width: int = 32
    time_depth: int = 2
    base: Literal["none", "gaussian"] = "none"

    def __post_init__(self) -> None:
        """Check what would otherwise fail far from its cause."""
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), get_args(field.type)
            if choices and all(isinstance(choice, str) for choice in choices) and value not in choices:
                raise ValueError(f"{field.name}={value!r} of {type(self).__name__}: use one of {', '.join(choices)}.")
            if field.type is int and (not isinstance(value, int) or value < 0):
                raise ValueError(f"{field.name}={value!r} of {type(self).__name__}: use an integer, 0 or more.")
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))

    def build(self, signature: Signature, rngs: nnx.Rngs) -> ContextualModule:
        """The NNX module; each network says how."""
        raise NotImplementedError

    def create(self, context_shapes: Shapes, event_shape: tuple[int, int], output: Output) -> Network:
        """The network as pure functions, for contexts and events of these shapes."""
        if output not in get_args(Output):
            raise ValueError(f"output={output!r}: use 'field' or 'energy'.")
        if output == "field" and self.base != "none":
            raise ValueError(f"base={self.base!r} is a term of an energy; use base='none' for a field.")
        signature = Signature(dict(context_shapes), event_shape, output)
        return functional(lambda rngs: self.build(signature, rngs))


def network_from_dict(settings: Mapping[str, Any], networks: Mapping[str, type[NetworkConfig]]) -> NetworkConfig:
    """The configuration that `settings` names and sets; what it leaves out takes its default."""
    settings = dict(settings)
    name = settings.pop("name", None)
    if name not in networks:
        raise ValueError(f"No network is called {name!r}{suggestion(str(name), networks)}")
    config = networks[name]
    known = {field.name for field in dataclasses.fields(config)}
    for key in settings:
        if key not in known:
            raise ValueError(f"Network {name!r} has no setting {key!r}{suggestion(key, known)}")
    return config(**settings)


def network_to_dict(config: NetworkConfig, networks: Mapping[str, type[NetworkConfig]]) -> dict[str, Any]:
    """The name and all settings, as JSON holds them."""
    name = next(name for name, kind in networks.items() if kind is type(config))
    settings = dataclasses.asdict(config)
    return {"name": name} | {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


def suggestion(name: str, known: Any) -> str:
    """End of an error message about an unknown name: the nearest known one, or all of them."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(known))}."
