"""Pulsar's primitive schemas: numbers, truth values, dates and times, in the bytes of its Java client. All are big-endian.

======================================  =========================  ======================================================
schema                                  value in Python            bytes
======================================  =========================  ======================================================
`INT8`, `INT16`, `INT32`, `INT64`       int                        1, 2, 4, 8
`FLOAT`, `DOUBLE`                       float                      4, 8
`BOOLEAN`                               bool                       1
`DATE`, `TIMESTAMP`                     datetime with a zone       8, milliseconds since 1970 UTC; what is finer is cut off
`TIME`                                  time                       8, milliseconds since midnight
`INSTANT`                               datetime with a zone       8 and 4, seconds since 1970 UTC and nanoseconds
`LOCAL_DATE`                            date                       8, days since 1970-01-01
`LOCAL_TIME`                            time                       8, nanoseconds since midnight
`LOCAL_DATE_TIME`                       datetime without a zone    8 and 8, as the two before
======================================  =========================  ======================================================

Python's times have microseconds: nanoseconds of another client are cut off when they are read.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from messaging.client.schemas.schema import Schema
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

T = TypeVar("T")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = _EPOCH.date().toordinal()
_MILLISECOND = datetime.timedelta(milliseconds=1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY_US = 86_400_000_000


class Primitive(Schema[T]):
    """`form`: of `struct`, of the numbers that `split` makes of a value and `joined` puts together again. Both raise `ValueError`
    or `OverflowError` for what is out of range."""

    def __init__(
        self,
        name: str,
        number: int,
        kind: type[T],
        form: str,
        split: Callable[[T], tuple[Any, ...]],
        joined: Callable[..., T],
        *,
        also: tuple[type, ...] = (),
    ) -> None:
        self.description = pb.Schema(name=name, schema_data=b"", type=number)
        self._name = name
        self._kind = kind
        self._kinds = (kind, *also)
        self._struct = struct.Struct(">" + form)
        self._split = split
        self._joined = joined

    def encode(self, value: T) -> bytes:
        # Exactly: a bool is an int and a datetime a date, and neither is meant.
        if type(value) not in self._kinds:
            raise InvalidValue(f"a message of this producer is a {self._kind.__name__} ({self._name}), not {type(value).__name__}")
        try:
            return self._struct.pack(*self._split(value))
        except (struct.error, ValueError, OverflowError) as error:
            raise InvalidValue(f"{value!r} is not a value of {self._name}: {error}") from None

    def decode(self, payload: bytes) -> T:
        try:
            return self._joined(*self._struct.unpack(payload))
        except (struct.error, ValueError, OverflowError) as error:
            raise InvalidValue(f"the message is not a value of {self._name}: {error}") from None


def _itself(value: Any) -> tuple[Any]:
    return (value,)


def _truth(number: int) -> bool:
    if number not in (0, 1):
        raise ValueError(f"{number} is neither 0 nor 1")
    return bool(number)


def _since_epoch(value: datetime.datetime) -> datetime.timedelta:
    if value.utcoffset() is None:
        raise ValueError("it has no time zone, such as datetime.UTC")
    return value - _EPOCH


def _without_zone(value: datetime.datetime | datetime.time) -> None:
    if value.tzinfo is not None:
        raise ValueError("it has a time zone, which would be lost")


def _to_ms(value: datetime.datetime) -> tuple[int]:
    return (_since_epoch(value) // _MILLISECOND,)


def _of_ms(number: int) -> datetime.datetime:
    return _EPOCH + number * _MILLISECOND


def _to_instant(value: datetime.datetime) -> tuple[int, int]:
    seconds, microseconds = divmod(_since_epoch(value) // _MICROSECOND, 1_000_000)
    return seconds, microseconds * 1_000


def _of_instant(seconds: int, nanoseconds: int) -> datetime.datetime:
    if not 0 <= nanoseconds < 1_000_000_000:
        raise ValueError(f"{nanoseconds} nanoseconds are not within a second")
    return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1_000)


def _to_day(value: datetime.date) -> tuple[int]:
    return (value.toordinal() - _EPOCH_DAY,)


def _of_day(days: int) -> datetime.date:
    return datetime.date.fromordinal(_EPOCH_DAY + days)


def _to_us(value: datetime.time) -> int:
    _without_zone(value)
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _of_us(microseconds: int) -> datetime.time:
    if not 0 <= microseconds < _DAY_US:
        raise ValueError("it is not within a day")
    return (datetime.datetime.min + microseconds * _MICROSECOND).time()


def _to_time_ms(value: datetime.time) -> tuple[int]:
    return (_to_us(value) // 1_000,)


def _of_time_ms(number: int) -> datetime.time:
    """Java's value may have a date, which is no part of it."""
    return _of_us(number * 1_000 % _DAY_US)


def _to_ns(value: datetime.time) -> tuple[int]:
    return (_to_us(value) * 1_000,)


def _of_ns(nanoseconds: int) -> datetime.time:
    return _of_us(nanoseconds // 1_000)


def _to_local(value: datetime.datetime) -> tuple[int, int]:
    _without_zone(value)
    return *_to_day(value.date()), *_to_ns(value.time())


def _of_local(days: int, nanoseconds: int) -> datetime.datetime:
    return datetime.datetime.combine(_of_day(days), _of_ns(nanoseconds))


BOOLEAN: Schema[bool] = Primitive("Boolean", 5, bool, "B", _itself, _truth)
INT8: Schema[int] = Primitive("INT8", 6, int, "b", _itself, int)
INT16: Schema[int] = Primitive("INT16", 7, int, "h", _itself, int)
INT32: Schema[int] = Primitive("INT32", 8, int, "i", _itself, int)
INT64: Schema[int] = Primitive("INT64", 9, int, "q", _itself, int)
FLOAT: Schema[float] = Primitive("Float", 10, float, "f", _itself, float, also=(int,))
DOUBLE: Schema[float] = Primitive("Double", 11, float, "d", _itself, float, also=(int,))
DATE: Schema[datetime.datetime] = Primitive("Date", 12, datetime.datetime, "q", _to_ms, _of_ms)
TIME: Schema[datetime.time] = Primitive("Time", 13, datetime.time, "q", _to_time_ms, _of_time_ms)
TIMESTAMP: Schema[datetime.datetime] = Primitive("Timestamp", 14, datetime.datetime, "q", _to_ms, _of_ms)
INSTANT: Schema[datetime.datetime] = Primitive("Instant", 16, datetime.datetime, "qi", _to_instant, _of_instant)
LOCAL_DATE: Schema[datetime.date] = Primitive("LocalDate", 17, datetime.date, "q", _to_day, _of_day)
LOCAL_TIME: Schema[datetime.time] = Primitive("LocalTime", 18, datetime.time, "q", _to_ns, _of_ns)
LOCAL_DATE_TIME: Schema[datetime.datetime] = Primitive("LocalDateTime", 19, datetime.datetime, "qq", _to_local, _of_local)

# By their names in the admin API and in the properties of key-value schemas.
PRIMITIVES: dict[str, Schema[Any]] = {
    "BOOLEAN": BOOLEAN,
    "INT8": INT8,
    "INT16": INT16,
    "INT32": INT32,
    "INT64": INT64,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "INSTANT": INSTANT,
    "LOCAL_DATE": LOCAL_DATE,
    "LOCAL_TIME": LOCAL_TIME,
    "LOCAL_DATE_TIME": LOCAL_DATE_TIME,
}
