"""The objects of the part of our API that is about streams of the audit log."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.bodies import Time
from messaging.limits import rest as limits
from tenants.rest.shapes import shown
from workers.alerts.shapes import Url
from workers.audit_streams.actions import newest_id
from workers.audit_streams.models import AuditStream


class NewAuditStream(msgspec.Struct, kw_only=True):
    """One of both."""

    url: Annotated[Url, Meta(description="https://host/path: gets batches of records as JSON lines, by POST.")] = ""
    topic: Annotated[str, limits.TOPIC, Meta(description="Full name: gets a message for each record, its JSON line.")] = ""
    from_oldest: Annotated[bool, Meta(description="Begin with the oldest record; else with what is written from now on.")] = False


class AuditStreamShape(msgspec.Struct, kw_only=True):
    url: Annotated[str, Meta(description="Empty: it goes to a topic.")]
    topic: Annotated[str, Meta(description="Empty: it goes to a webhook.")]
    secret: Annotated[str, Meta(description="Signs what is sent, with HMAC-SHA256.")]
    created_at: Time
    sent_id: Annotated[int, Meta(description="The last record that the receiver has taken.")]
    newest_id: Annotated[int, Meta(description="The newest record there is.")]
    sent_at: Time | None
    gaps: Annotated[int, Meta(description="How often retention deleted records before they were sent.")]
    failures: Annotated[int, Meta(description="Since the receiver last took something.")]
    problem: Annotated[str, Meta(description="What was wrong the last time.")]
    next_at: Annotated[Time, Meta(description="It is not tried before.")]


def show_stream(stream: AuditStream) -> AuditStreamShape:
    return shown(AuditStreamShape, stream, newest_id=newest_id(stream))
