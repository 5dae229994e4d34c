"""The policies that can be set, as a JSON schema for the description of our API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from messaging.policies.model import Policy, value_schema
from messaging.policies.registry import ENFORCED


def policies_schema(*, nullable: bool = False, only: Mapping[str, Policy] = ENFORCED) -> dict[str, Any]:
    """`nullable`: as a request gives them, where null unsets."""
    properties = {name: _property(policy, nullable) for name, policy in only.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _property(policy: Policy, nullable: bool) -> dict[str, Any]:
    value = value_schema(policy)
    shape = {"oneOf": [value, {"type": "null"}]} if nullable else value
    return {**shape, "description": policy.meaning}
