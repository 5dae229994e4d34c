"""Admin RPC: usage records."""

from __future__ import annotations

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class UsageFlush(Request, kw_only=True):
    """Closes the running interval and writes it out, so that a job sees usage up to now."""

    task_id: fields.Name


class UsageFlushed(Answer, kw_only=True):
    files: list[str]  # paths of Parquet files below DATA_DIR/usage/raw
    rows: int
