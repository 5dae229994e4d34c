"""Crashes and full disks are what a simulation is about: the broker need not log them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog


def _drop(logger: Any, method: str, event: Any) -> NoReturn:
    raise structlog.DropEvent


@contextmanager
def silenced() -> Iterator[None]:
    before = structlog.get_config()
    level = logging.root.manager.disable
    structlog.configure(processors=[_drop])
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)
        structlog.configure(**before)
