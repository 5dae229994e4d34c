"""What the OpenAPI document has of every operation: headers for safe changes, and examples."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "Repeating the request with the same key within 24 hours answers what the first one was answered.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$", "maxLength": 255},
}
IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "required": False,
    "description": "The ETag of a GET of this address: if what it shows was changed since, the change is refused with 412.",
    "schema": {"type": "string", "pattern": '^("[0-9a-f]{32}"|\\*)$'},
}
NOT_MODIFIED = {"description": "As the ETag in If-None-Match says."}

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}
DEPTH_MAX = 12  # of an example
CONDITIONAL = ("put", "patch", "delete")

# By the name of a field; one that is not here has an example of its type.
VALUES: Json = {
    "name": "orders",
    "topic": "persistent://acme/orders/new",
    "target": "persistent://acme/orders/other",
    "tenant": "acme",
    "namespace": "acme/orders",
    "role": "app@acme",
    "username": "olga",
    "message_id": "12:7",
    "position": "earliest",
    "publish_time_ms": 1_793_000_000_000,
    "actions": ["produce", "consume"],
    "admin_roles": ["admin@acme"],
    "type": "AVRO",
    "text": "hello",
    "key": "customer-7",
    "partitions": 4,
    "entries": 10,
    "older_than_s": 3600,
    "labels": {"team": "payments"},
    "properties": {"team": "payments"},
    "webhook_url": "https://hooks.example.com/magnetar",
    "mail_to": ["ops@example.com"],
    "currency": "EUR",
    "amount": "100.00",
}
# Where fields exclude each other, or mean something else than in other objects.
OBJECTS: dict[str, Json] = {
    "ResetRequest": {"publish_time_ms": 1_793_000_000_000},
    "ExpireRequest": {"older_than_s": 3600},
    "NewMessageRequest": {"text": "hello", "key": "customer-7"},
    "NewMessagesRequest": {"messages": [{"text": "hello", "key": "customer-7"}]},
    "PatchedDelayedTimeRequest": {"delay_ms": 60_000},
    "PatchedDelayedTimeOfKeyRequest": {"key": "customer-7", "delay_ms": 60_000},
    "NewAlertRuleRequest": {
        "name": "Orders wait",
        "kind": "no_consumer",
        "topic": "persistent://acme/orders/new",
        "threshold": 1,
    },
    "NewKeyRequest": {"name": "app", "expires_at": "2027-01-01T00:00:00Z"},
    "NewSchemaRequest": {"type": "STRING"},
    "NewTenantRequest": {"name": "acme"},
    "PatchedTopicChangeRequest": {"partitions": 8},
    "NewNamespaceRequest": {"name": "orders", "policies": {"retention_time_min": 60}},
}


def complete(result: Json, generator: Any, request: Any, public: bool) -> Json:
    """Called by drf-spectacular with the whole document."""
    schemas = result["components"]["schemas"]
    for methods in result["paths"].values():
        for method, operation in methods.items():
            parameters = operation.setdefault("parameters", [])
            if method == "get":
                operation["responses"]["304"] = NOT_MODIFIED
            else:
                parameters.append(IDEMPOTENCY_KEY)
                if "get" in methods and method in CONDITIONAL:
                    parameters.append(IF_MATCH)
            for content in operation.get("requestBody", {}).get("content", {}).values():
                reference = content["schema"].get("$ref", "").rpartition("/")[2]
                content["example"] = OBJECTS.get(reference) or example_of(content["schema"], schemas)
            for status, answer in operation["responses"].items():
                for media_type, content in answer.get("content", {}).items():
                    if status.startswith("2") and media_type == "application/json":
                        content["example"] = example_of(content["schema"], schemas)
    return result


def example_of(schema: Json, schemas: Json, name: str = "", depth: int = 0) -> Any:
    """A value that fits the schema."""
    if "$ref" in schema:
        reference = schema["$ref"].rpartition("/")[2]
        return OBJECTS.get(reference) or example_of(schemas[reference], schemas, name, depth + 1)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas, name, depth)
    kind = schema.get("type")
    if name in VALUES and isinstance(VALUES[name], _KINDS.get(kind or "", ())):
        return VALUES[name]
    if kind == "object":
        properties = schema.get("properties", {})
        names = schema.get("required", list(properties))
        return {each: example_of(properties[each], schemas, each, depth + 1) for each in names} if depth < DEPTH_MAX else {}
    if kind == "array":
        return [example_of(schema.get("items", {}), schemas, name, depth + 1)] if depth < DEPTH_MAX else []
    if kind == "string":
        formats = {"date-time": "2026-11-01T12:00:00Z", "date": "2026-11-01"}
        return formats.get(schema.get("format", ""), "text"[: schema.get("maxLength", 4)])
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), min(1, schema.get("maximum", 1)))
    return True if kind == "boolean" else None
