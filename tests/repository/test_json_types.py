"""That JSON is read as types of ours by `messaging/json_types.py` alone: threads may read a type for the first time together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.repository.house import ROOT, SOURCES

GUARD = "messaging/json_types.py"
CALLS = {"msgspec.convert", "msgspec.json.Decoder", "msgspec.msgpack.Decoder"}
UNTYPED = {"msgspec.json.decode", "msgspec.msgpack.decode"}
"""They gather nothing, unless they are told a type."""
BUILT_IN = {"dict[str, str]"}
NAMES = {"convert", "decode", "Decoder", "json", "msgpack"}


def unguarded(source: str) -> Iterator[int]:
    """Lines where something other than the guard has msgspec gather a type. A module's own decoders of MessagePack are let pass."""
    tree = ast.parse(source)
    at_import = {id(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "msgspec":
            if NAMES & {alias.name for alias in node.names}:
                yield node.lineno
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name == "msgspec.msgpack.Decoder" and id(node) in at_import:
                continue
            if name in CALLS or (name in UNTYPED and _names_a_type(node)):
                yield node.lineno


def _names_a_type(call: ast.Call) -> bool:
    return any(keyword.arg in ("type", None) and ast.unparse(keyword.value) not in BUILT_IN for keyword in call.keywords)


def test_calls_without_the_guard_are_found() -> None:
    source = """
import msgspec
from msgspec import Meta, convert
from msgspec.json import decode
_ROW = msgspec.msgpack.Decoder(Row)
_LINE = msgspec.json.Decoder(Row)
def read(data):
    msgspec.json.decode(data)
    msgspec.msgpack.decode(data, type=dict[str, str])
    msgspec.json.decode(data, type=Row)
    msgspec.msgpack.decode(data, type=Row)
    msgspec.msgpack.Decoder(Row)
    msgspec.convert(data, Row)
"""
    assert sorted(unguarded(source)) == [3, 4, 6, 10, 11, 12, 13]


def test_types_are_read_by_way_of_the_guard() -> None:
    found = []
    for path in (path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))):
        name, source = str(path.relative_to(ROOT)), Path(path).read_text()
        if name != GUARD and "msgspec" in source:
            found += [f"{name}:{line}" for line in unguarded(source)]
    assert found == [], f"read them with decoder_of or converted of {GUARD}: threads that read a type together end the process"
