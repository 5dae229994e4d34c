"""The bill of materials of a release: what it lists, and that it is what the format demands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cyclonedx.schema
import pytest
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from deploy.release.bill_of_materials import bill

MADE_AT_S = 1_790_000_000


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(bill("1.2.3", MADE_AT_S))
    return value


def test_it_fits_the_schema_of_its_format(made: dict[str, Any]) -> None:
    folder = Path(cyclonedx.schema.__file__).parent / "_res"
    schemas = {path.name: json.loads(path.read_text()) for path in folder.glob("*.schema.json")}
    registry: Registry[Any] = Registry().with_resources((value["$id"], DRAFT7.create_resource(value)) for value in schemas.values())
    validator = Draft7Validator(schemas["bom-1.6.SNAPSHOT.schema.json"], registry=registry)
    assert [error.message for error in validator.iter_errors(made)] == []
    broken = made | {"components": [{"name": "without a type"}]}
    assert [error.message for error in validator.iter_errors(broken)] == ["'type' is a required property"]


def test_it_lists_what_the_platform_runs_on_and_nothing_of_the_tests(made: dict[str, Any]) -> None:
    scopes = {component["name"]: component["scope"] for component in made["components"]}
    assert scopes["django"] == scopes["msgspec"] == scopes["psycopg-binary"] == scopes["pyarrow"] == "required"
    assert scopes["pyspark"] == scopes["py4j"] == scopes["kazoo"] == "optional"
    assert not {"pytest", "mypy", "playwright", "magnetar"} & set(scopes)
    assert made["metadata"]["component"]["purl"] == "pkg:pypi/magnetar@1.2.3"


def test_versions_are_those_that_are_pinned(made: dict[str, Any], repository: Path) -> None:
    pins = dict(re.findall(r"^([^=;\s]+)==([^;\s]+)", (repository / "constraints.txt").read_text(), re.MULTILINE))
    versions = {component["name"]: component["version"] for component in made["components"]}
    assert len(versions) > 50
    assert versions == {name: pins[name] for name in versions}


def test_each_library_says_what_it_needs(made: dict[str, Any]) -> None:
    needs = {entry["ref"]: entry["dependsOn"] for entry in made["dependencies"]}
    assert set(needs) == {"magnetar", *(component["bom-ref"] for component in made["components"])}
    assert {name for names in needs.values() for name in names} <= set(needs)
    assert "django" in needs["magnetar"] and "argon2-cffi-bindings" in needs["argon2-cffi"]


def test_each_library_has_a_license(made: dict[str, Any]) -> None:
    assert [component["name"] for component in made["components"] if not component.get("licenses")] == []


def test_the_same_release_gets_the_same_bytes(made: dict[str, Any]) -> None:
    assert bill("1.2.3", MADE_AT_S) == bill("1.2.3", MADE_AT_S)
    assert json.loads(bill("1.2.4", MADE_AT_S))["serialNumber"] != made["serialNumber"]
