"""The openpi wire format: msgpack, with arrays as maps of `__ndarray__`, `data`, `dtype` and `shape`.

Bytes from the network are decoded to numbers, text, lists, maps and numeric arrays, and to nothing else: nothing is
unpickled or executed, an array's size is checked against its bytes before it is made.
"""

import math
import re
from typing import Any

import msgpack
import numpy as np

# Booleans, integers and floats of fixed size; in particular neither objects nor structures nor text.
_DTYPE = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248])")
_MOST_AXES = 8


class WireError(ValueError):
    """A frame that is not what it should be; the message says what was found, in one line."""


def pack(message: Any) -> bytes:
    """Encode a message; arrays and NumPy numbers may be anywhere in it."""
    return msgpack.Packer(default=_encode).pack(message)


def unpack(frame: bytes) -> Any:
    """Decode a frame."""
    try:
        return msgpack.unpackb(frame, object_hook=_decode, raw=False, strict_map_key=True)
    except WireError:
        raise
    except Exception as error:  # truncated, trailing bytes, too deep, not text: msgpack has many kinds
        raise WireError(f"the frame is not msgpack: {type(error).__name__}: {error}") from error


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if not _DTYPE.fullmatch(value.dtype.str):
            raise TypeError(f"arrays of {value.dtype} cannot be sent; use numbers")
        if isinstance(value, np.generic):
            return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
        return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
    raise TypeError(f"a {type(value).__name__} cannot be sent; use numbers, text, arrays, lists and dicts")


def _decode(found: dict[Any, Any]) -> Any:
    """Maps with a marker become arrays; the marker's keys are bytes in openpi's clients, and may be text."""
    if b"__ndarray__" in found or "__ndarray__" in found:
        return _array(*(_field(found, name) for name in ("data", "dtype", "shape")))
    if b"__npgeneric__" in found or "__npgeneric__" in found:
        data, dtype = _field(found, "data"), _dtype(_field(found, "dtype"))
        if not isinstance(data, bool | int | float):
            raise WireError(f"a number's data is {type(data).__name__}; use a number")
        try:
            return dtype.type(data)
        except (OverflowError, ValueError) as error:
            raise WireError(f"a number does not fit {dtype}: {error}") from error
    return found


def _field(found: dict[Any, Any], name: str) -> Any:
    value = found.get(name.encode(), found.get(name))
    if value is None:
        raise WireError(f"an array lacks {name!r}")
    return value


def _dtype(name: Any) -> np.dtype:
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise WireError(f"an array's dtype is {str(name)[:40]!r}; use booleans, integers or floats such as '<f4'")
    return np.dtype(name)


def _array(data: Any, dtype: Any, shape: Any) -> np.ndarray:
    kind = _dtype(dtype)
    if not isinstance(shape, list) or len(shape) > _MOST_AXES or not all(_is_size(size) for size in shape):
        raise WireError(f"an array's shape is {str(shape)[:80]}; use a list of at most {_MOST_AXES} sizes")
    if not isinstance(data, bytes):
        raise WireError(f"an array's data is {type(data).__name__}; use bytes")
    wanted = math.prod(shape) * kind.itemsize
    if len(data) != wanted:
        raise WireError(f"an array of shape {tuple(shape)} and dtype {kind.str} has {wanted} bytes; {len(data)} came")
    return np.frombuffer(data, kind).reshape(shape)


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**48
