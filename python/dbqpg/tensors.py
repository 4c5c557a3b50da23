"""Files of named arrays in the safetensors format, read with NumPy alone.

A file is hostile until checked: the arrays must fill it exactly, one after the other.
"""

from __future__ import annotations

import json
import math
import os
import struct
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

MAX_HEADER = 1 << 20  # bytes

TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1"}


class Tensors(NamedTuple):
    """What a file holds."""

    arrays: dict[str, npt.NDArray[Any]]
    metadata: dict[str, str]


def read(path: str | os.PathLike[str]) -> Tensors:
    """Reads a safetensors file. Raises ValueError, with the file's name, if it is not well formed."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return parse(data)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: not a safetensors file: {error}") from error


def parse(data: bytes) -> Tensors:
    """Reads the contents of a safetensors file. The arrays are read-only views of data."""
    if len(data) < 8:
        raise ValueError(f"it has {len(data)} bytes")
    (length,) = struct.unpack_from("<Q", data)
    if length > min(MAX_HEADER, len(data) - 8):
        raise ValueError(f"a header of {length} bytes in a file of {len(data)}")
    try:
        header = json.loads(data[8 : 8 + length].decode(), object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not texts")
    arrays, at = {}, 8 + length
    for name, entry in sorted(header.items(), key=_begin):
        arrays[name], at = _array(name, entry, data, 8 + length, at)
    if at != len(data):
        raise ValueError(f"its arrays end at byte {at} of {len(data)}")
    return Tensors(arrays, metadata)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("its header has a name twice")
    return found


def _natural(values: object) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _begin(item: tuple[str, Any]) -> tuple[int, int]:
    name, entry = item
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not _natural(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name[:40]!r} has no data_offsets")
    return offsets[0], offsets[1]


def _array(name: str, entry: dict[str, Any], data: bytes, body: int, at: int) -> tuple[npt.NDArray[Any], int]:
    """Returns the array of one entry, whose elements must begin at byte `at`, and where they end."""
    kind, shape, (begin, end) = entry.get("dtype"), entry.get("shape"), entry["data_offsets"]
    if not isinstance(kind, str) or kind not in TYPES or not _natural(shape) or len(shape) > 8:
        raise ValueError(f"tensor {name[:40]!r} has type {str(kind)[:40]} and shape {str(shape)[:40]}")
    dtype = np.dtype(TYPES[kind])
    count = math.prod(shape)
    if body + begin != at or end - begin != count * dtype.itemsize or body + end > len(data):
        raise ValueError(f"tensor {name[:40]!r} of shape {str(shape)[:40]} does not lie at bytes {begin} to {end}")
    return np.frombuffer(data, dtype, count, at).reshape(shape), body + end
