"""The admin client of the SDK is what its generator makes of the OpenAPI document."""

from __future__ import annotations

from docs.admin_client import TARGET, formatted, group_names, operations, source
from tenants.rest.document import document


def test_the_client_is_up_to_date() -> None:
    """`make client` writes it anew."""
    assert TARGET.read_text(encoding="utf-8") == formatted(source(document()))


def test_every_operation_has_a_method_of_its_own() -> None:
    found = list(operations(document()))
    names = group_names({operation.group for operation in found})
    assert len(found) == sum(len(methods) for methods in document()["paths"].values())
    assert len({(names[operation.group], operation.name) for operation in found}) == len(found)
