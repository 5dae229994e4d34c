"""What is metered, and the units that prices are given in. Quantities are integers in the base unit of their meter."""

from __future__ import annotations

from typing import NamedTuple

HOURS_A_MONTH = 730  # of the unit GiB-month: a year of 8,760 hours in twelve parts


class Meter(NamedTuple):
    """`dimension` is what it counts, in the base unit: messages, bytes, byte-seconds, entry-seconds, calls or
    connection-seconds."""

    title: str
    dimension: str


class Unit(NamedTuple):
    """`size`: base units in one of it."""

    dimension: str
    size: int


METERS: dict[str, Meter] = {
    "messages_in": Meter("Messages published", "messages"),
    "bytes_in": Meter("Bytes published", "bytes"),
    "messages_out": Meter("Messages delivered", "messages"),
    "bytes_out": Meter("Bytes delivered", "bytes"),
    "stored_byte_seconds": Meter("Storage", "byte-seconds"),
    "backlog_entry_seconds": Meter("Backlog", "entry-seconds"),
    "api_calls": Meter("API calls", "calls"),
    "connection_seconds": Meter("Connections", "connection-seconds"),
}

UNITS: dict[str, Unit] = {
    "message": Unit("messages", 1),
    "thousand messages": Unit("messages", 10**3),
    "million messages": Unit("messages", 10**6),
    "byte": Unit("bytes", 1),
    "MB": Unit("bytes", 10**6),
    "GB": Unit("bytes", 10**9),
    "TB": Unit("bytes", 10**12),
    "MiB": Unit("bytes", 2**20),
    "GiB": Unit("bytes", 2**30),
    "TiB": Unit("bytes", 2**40),
    "GiB-hour": Unit("byte-seconds", 2**30 * 3600),
    "GiB-month": Unit("byte-seconds", 2**30 * 3600 * HOURS_A_MONTH),
    "TiB-month": Unit("byte-seconds", 2**40 * 3600 * HOURS_A_MONTH),
    "entry-hour": Unit("entry-seconds", 3600),
    "million entry-hours": Unit("entry-seconds", 3600 * 10**6),
    "call": Unit("calls", 1),
    "thousand calls": Unit("calls", 10**3),
    "million calls": Unit("calls", 10**6),
    "connection-hour": Unit("connection-seconds", 3600),
}
