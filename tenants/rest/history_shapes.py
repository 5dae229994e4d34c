"""The objects of the part of our API that is about history."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tenants.history.figures import HistoryFigures


class HistoryShape(msgspec.Struct, kw_only=True):
    begins: str
    ends: Annotated[str, Meta(description="What is not known yet is in the last steps.")]
    step_seconds: int
    steps: list[HistoryFigures]
