from __future__ import annotations

from typing import get_args, get_overloads, get_type_hints

from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.schema import METHODS


def test_the_overloads_name_every_method_with_its_request_and_answer() -> None:
    declared = {}
    for overloaded in get_overloads(TypedCalls.call):
        hints = get_type_hints(overloaded)
        for method in get_args(hints["method"]):
            declared[method] = (hints["request"], hints["return"])
    assert declared == METHODS
