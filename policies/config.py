"""Frozen dataclasses to JSON and back, with errors that name the key."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any

from rnce.policies.networks import NetworkConfig, network_from_dict, network_to_dict


def to_json(value: Any) -> Any:
    """Plain dicts, lists and numbers."""
    if isinstance(value, NetworkConfig):
        return network_to_dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(kind: Any, value: Any, where: str = "config") -> Any:
    """The value of type `kind` that `to_json` wrote; missing keys take their defaults."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return None if value is None else from_json(options[0], value, where)
    if isinstance(kind, type) and issubclass(kind, NetworkConfig):
        try:
            return network_from_dict(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}: expected an object with the settings of {kind.__name__}, found {value!r}.")
        hints = typing.get_type_hints(kind)
        known = {field.name for field in dataclasses.fields(kind)}
        required = [field.name for field in dataclasses.fields(kind) if _is_required(field)]
        missing = [name for name in required if name not in value]
        if missing:
            raise ValueError(f"{where}: key {missing[0]!r}: expected a value, found none.")
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
                raise ValueError(f"{where}: unknown key {key!r}; {hint}")
        return kind(**{key: from_json(hints[key], item, f"{where}.{key}") for key, item in value.items()})
    if origin in (tuple, list) and value is not None:
        args = typing.get_args(kind)
        each = args[:1] * len(value) if len(args) == 2 and args[1] is Ellipsis else args
        return tuple(
            from_json(item_kind, item, f"{where}[{i}]") for i, (item_kind, item) in enumerate(zip(each, value))
        )
    if isinstance(value, Mapping) and isinstance(origin, type) and issubclass(origin, Mapping):
        item_kind = typing.get_args(kind)[1]
        return {key: from_json(item_kind, item, f"{where}.{key}") for key, item in value.items()}
    return value


def _is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
