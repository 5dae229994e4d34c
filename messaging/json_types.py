"""JSON read as types of ours, by any thread.

What msgspec knows of a class it gathers when the class is first read, and lets other threads run meanwhile. One that then reads the
same class, or one that has it in a field, finds it half done, and the process ends with a segmentation fault (msgspec 0.22.0). So
types are gathered here, by one thread at a time. That nobody calls msgspec for it elsewhere is tested
(`tests/repository/test_json_types.py`); decoders of MessagePack are made while their module is imported, by one thread, too.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
_gathering = threading.Lock()


def decoder_of(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]:
    """Kept for ever: for types, of which there are as many as the sources name. `strict`: numbers may not be in quotes."""
    return _made(cast(Hashable, kind), strict)


def converted(value: object, kind: type[T], *, strict: bool = True, builtin_types: tuple[type, ...] = ()) -> T:
    """What `msgspec.convert` makes of it, which gathers the same. Raises `msgspec.ValidationError`."""
    decoder_of(kind, strict=strict)
    return msgspec.convert(value, kind, strict=strict, builtin_types=builtin_types or None)


@cache
def _made(kind: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    with _gathering:
        return msgspec.json.Decoder(kind, strict=strict)
