"""The wire format: what openpi's clients send is read, and nothing else is."""

import contextlib

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnce.serving.wire import WireError, pack, unpack


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?", ">f4"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_arrays_come_back(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    (found,) = unpack(pack({"x": array})).values()
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_other_values_come_back():
    message = {"a": [1, 2.5, None, True], "b": {"c": "text", "d": b"bytes"}, "n": np.float32(1.5)}
    assert unpack(pack(message)) == message


def test_the_format_is_openpis():
    """The maps that openpi-client 0.1.2 reads and writes: keys are bytes."""
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    raw = msgpack.unpackb(pack(array))
    assert raw == {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": "<i4", b"shape": [2, 3]}
    as_text = {key.decode(): value for key, value in raw.items()}
    np.testing.assert_array_equal(unpack(msgpack.packb(as_text)), array)  # pyright: ignore[reportArgumentType]


def encoded(**changes) -> bytes:
    fields = {"__ndarray__": True, "data": b"\0" * 8, "dtype": "<f4", "shape": [2], **changes}
    return msgpack.packb({name.encode(): value for name, value in fields.items() if value is not ...}) or b""


HOSTILE = {
    "objects": (encoded(dtype="|O"), "dtype is '|O'"),
    "structures": (encoded(dtype="i4,O"), "dtype is 'i4,O'"),
    "void": (encoded(dtype="|V8"), "dtype is '|V8'"),
    "text dtype": (encoded(dtype="<U2"), "dtype is '<U2'"),
    "complex": (encoded(dtype="<c8"), "dtype is '<c8'"),
    "dtype is a list": (encoded(dtype=["<f4"]), "dtype is"),
    "huge": (encoded(shape=[2**40]), "bytes; 8 came"),
    "huge product": (encoded(shape=[2**47, 2**47, 2**47]), "bytes; 8 came"),
    "beyond 64 bits": (encoded(shape=[2**63]), "shape is"),
    "negative": (encoded(shape=[-2]), "shape is"),
    "many axes": (encoded(shape=[1] * 33), "shape is"),
    "shape is a number": (encoded(shape=2), "shape is 2"),
    "shape of floats": (encoded(shape=[2.0]), "shape is"),
    "too few bytes": (encoded(data=b"\0" * 7), "has 8 bytes; 7 came"),
    "data is text": (encoded(data="00000000"), "data is str"),
    "no shape": (encoded(shape=...), "lacks 'shape'"),
    "truncated": (encoded()[:-3], "not msgpack"),
    "more than one": (encoded() * 2, "not msgpack"),
    "deep": (b"\x91" * 5000, "not msgpack"),
    "empty": (b"", "not msgpack"),
    "text that is none": (b"\xa2\xff\xff", "not msgpack"),
    "length that lies": (b"\xdd\xff\xff\xff\xff", "not msgpack"),
    "number that is text": (msgpack.packb({b"__npgeneric__": True, b"data": "x", b"dtype": "<f4"}), "data is str"),
    "number too large": (msgpack.packb({b"__npgeneric__": True, b"data": 999, b"dtype": "|u1"}), "does not fit"),
    "keys that are maps": (b"\x81\x80\x01", "not msgpack"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_frames_are_refused_in_one_line(case):
    frame, message = HOSTILE[case]
    with pytest.raises(WireError) as caught:
        unpack(frame)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(frame):
    with contextlib.suppress(WireError):
        unpack(frame)


@given(st.data())
def test_damaged_frames_raise_nothing_else(data):
    frame = bytearray(pack({"state": np.arange(5.0), "reset": True}))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        unpack(bytes(frame))


def test_what_cannot_be_sent_is_named():
    with pytest.raises(TypeError, match="arrays of object"):
        pack(np.array([{}], object))
    with pytest.raises(TypeError, match="a set cannot be sent"):
        pack({1, 2})
