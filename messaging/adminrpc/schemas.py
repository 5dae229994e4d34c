"""Admin RPC: schemas of topics. A partitioned topic has one for all its partitions; the topic need not exist."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class SchemaGet(Request, kw_only=True):
    """`version` None: the latest. Raises topic_not_found."""

    topic: fields.Topic
    version: fields.Version | None = None


class SchemaGiven(Request, kw_only=True):
    """`type`: the name of a `SchemaType`. `role`: on whose behalf."""

    topic: fields.Topic
    type: fields.SchemaType
    data: fields.SchemaData = b""
    properties: fields.Properties = {}
    role: fields.Role = ""


class SchemaDelete(Request, kw_only=True):
    """`force`: removes all versions; else they are kept, and no longer compared with."""

    topic: fields.Topic
    force: bool = False
    role: fields.Role = ""


class SchemaStored(msgspec.Struct, kw_only=True):
    version: int
    type: str
    data: bytes
    properties: dict[str, str]
    created_ms: int


class SchemaVersions(Answer, kw_only=True):
    """Those since the last deletion, oldest first; of `schemas.get` the one that was asked for."""

    versions: list[SchemaStored]


class SchemaVersionAnswer(Answer, kw_only=True):
    """-1: there is none."""

    version: int


class SchemaCompatible(Answer, kw_only=True):
    """`why_not`: "" if the schema could become the next version."""

    strategy: str
    why_not: str
