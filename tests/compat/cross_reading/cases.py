"""What is written for another client to read, by schema, and how it reads as text. `CrossReading.java` has the same list."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import type_pb2

from messaging.client.producing.options import CompressionName
from messaging.client.schemas import (
    AUTO_CONSUME,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    INT8,
    INT16,
    INT32,
    INT64,
    LOCAL_DATE,
    LOCAL_DATE_TIME,
    LOCAL_TIME,
    STRING,
    TIME,
    TIMESTAMP,
    Avro,
    Json,
    KeyValue,
    Protobuf,
    Schema,
)
from messaging.client.schemas.key_value import Encoding


class Colour(enum.Enum):
    RED = "RED"
    BLUE = "BLUE"


@dataclasses.dataclass
class Part:
    name: str


@dataclasses.dataclass
class Order:
    number: int
    customer: str
    colour: Colour
    parts: list[Part]
    note: str | None = None


class Size(enum.Enum):
    SMALL = "SMALL"
    LARGE = "LARGE"


@dataclasses.dataclass
class Sale:
    """What Java makes of a class that says nothing of null, in a namespace."""

    customer: str | None = None
    size: Size | None = None
    counts: dict[str, int] | None = None


@dataclasses.dataclass
class Label:
    name: str


@dataclasses.dataclass
class Item:
    """In a namespace, with names of it, of which nothing may be null."""

    size: Size
    label: Label
    others: list[Size]


@dataclass(frozen=True)
class Case:
    """`values`: of both clients; none for a case that only reads what another case wrote, whose topic is `topic`. A producer sends
    the first alone, and then all of them as a batch. `key`: names a pair of keys. `texts`: what either client reads."""

    schema: Schema[Any]
    text: Callable[[Any], str]
    texts: Sequence[str]
    values: Sequence[Any] = ()
    topic: str = ""
    key: str = ""
    compression: CompressionName = "none"


def _lower(value: Any) -> str:
    return str(value).lower()


def _ms(value: datetime.datetime) -> str:
    return str((value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1))


def _time_ms(value: datetime.time) -> str:
    return str(((value.hour * 60 + value.minute) * 60 + value.second) * 1_000 + value.microsecond // 1_000)


def _zulu(value: datetime.datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _order(order: Order) -> str:
    parts = ",".join(part.name for part in order.parts)
    return f"{order.number}|{order.customer}|{_or_null(order.note)}|{order.colour.name}|{parts}"


def _sale(sale: Sale) -> str:
    counts = None if sale.counts is None else f"{{{', '.join(f'{name}={count}' for name, count in sorted(sale.counts.items()))}}}"
    return f"{_or_null(sale.customer)}|{_or_null(sale.size and sale.size.name)}|{_or_null(counts)}"


def _item(item: Item) -> str:
    return f"{item.size.name}|{item.label.name}|[{', '.join(size.name for size in item.others)}]"


def _record(record: dict[str, Any]) -> str:
    """A dict: of JSON, where Java leaves out what is null."""
    return "|".join(_or_null(record.get(name)) for name in ("number", "customer", "note"))


def _newer(record: Any) -> str:
    return f"{record['number']}|{record['discount']}"


def _type(value: type_pb2.Type) -> str:
    return f"{value.name}|{','.join(value.oneofs)}"


def _or_null(value: Any) -> str:
    return "null" if value is None else str(value)


def _pair(key: Callable[[Any], str], value: Callable[[Any], str]) -> Callable[[Any], str]:
    def text(pair: tuple[Any, Any]) -> str:
        parts = (("null" if part is None else write(part)) for part, write in zip(pair, (key, value), strict=True))
        return "=".join(parts)

    return text


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


EARLY, LATE = _moment("1969-12-31T23:59:58.999Z"), _moment("2025-11-26T21:50:01.123Z")
ORDERS = [Order(1, "größe", Colour.RED, [Part("wheel"), Part("bell")]), Order(-2, "", Colour.BLUE, [], "late")]
ORDER_TEXTS = ["1|größe|null|RED|wheel,bell", "-2||late|BLUE|"]
SALES = [Sale("a", Size.LARGE, {"a": 1}), Sale()]
ITEMS = [Item(Size.SMALL, Label("a"), [Size.LARGE]), Item(Size.LARGE, Label(""), [])]
ITEM_TEXTS = ["SMALL|a|[LARGE]", "LARGE||[]"]
SALE_TEXTS = ["a|LARGE|{a=1}", "null|null|null"]
NEWER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "discount", "type": "double", "default": 0.5}],
}
SHORT_TEXTS = ["1|größe|null", "1|größe|null", "-2||late", "null"]


def _case(schema: Schema[Any], text: Callable[[Any], str], values: Sequence[Any], texts: Sequence[str], **more: Any) -> Case:
    return Case(schema, text, [texts[0], *texts], values, **more)


def _cases() -> dict[str, Case]:
    cases = {
        "bytes": _case(BYTES, bytes.hex, [b"\0\1\xff", b""], ["0001ff", ""]),
        "string": _case(STRING, str, ["größe", "", None], ["größe", "", "null"]),
        "boolean": _case(BOOLEAN, _lower, [True, False], ["true", "false"]),
        "int8": _case(INT8, str, [-128, 127], ["-128", "127"]),
        "int16": _case(INT16, str, [-32768, 258], ["-32768", "258"]),
        "int32": _case(INT32, str, [-(1 << 31), 66051], ["-2147483648", "66051"]),
        "int64": _case(INT64, str, [-(1 << 63), 283686952306183], ["-9223372036854775808", "283686952306183"]),
        "float": _case(FLOAT, str, [-0.25, 65536.75], ["-0.25", "65536.75"]),
        "double": _case(DOUBLE, str, [-0.25, 123456.0625], ["-0.25", "123456.0625"]),
        "date": _case(DATE, _ms, [EARLY, LATE], ["-1001", "1764193801123"]),
        "time": _case(TIME, _time_ms, [datetime.time(), datetime.time(21, 50, 1, 123_000)], ["0", "78601123"]),
        "timestamp": _case(TIMESTAMP, _ms, [EARLY, LATE], ["-1001", "1764193801123"]),
    }
    instants = ["2026-11-26T21:50:01.123456Z", "1969-12-31T23:59:59.500001Z"]
    dates, times = ["2026-11-26", "1900-02-28"], ["21:50:01.123456", "00:00:01"]
    both = [f"{date}T{time}" for date, time in zip(dates, times, strict=True)]
    cases |= {
        "instant": _case(INSTANT, _zulu, [_moment(text) for text in instants], instants),
        "local_date": _case(LOCAL_DATE, str, [datetime.date.fromisoformat(text) for text in dates], dates),
        "local_time": _case(LOCAL_TIME, str, [datetime.time.fromisoformat(text) for text in times], times),
        "local_date_time": _case(LOCAL_DATE_TIME, datetime.datetime.isoformat, [_moment(text) for text in both], both),
        "json": _case(Json(Order), _order, [*ORDERS, None], [*ORDER_TEXTS, "null"]),
        "avro": _case(Avro(Order), _order, [*ORDERS, None], [*ORDER_TEXTS, "null"]),
        "json_of_a_package": _case(Json(Sale), _sale, SALES, SALE_TEXTS),
        "avro_of_a_package": _case(Avro(Sale), _sale, SALES, SALE_TEXTS),
        "json_with_names_of_a_package": _case(Json(Item), _item, ITEMS, ITEM_TEXTS),
        "avro_with_names_of_a_package": _case(Avro(Item), _item, ITEMS, ITEM_TEXTS),
        "avro_newer": Case(Avro(NEWER), _newer, ["1|0.5", "1|0.5", "-2|0.5", "null"], topic="avro"),
        "json_auto": Case(AUTO_CONSUME, _record, SHORT_TEXTS, topic="json"),
        "avro_auto": Case(AUTO_CONSUME, _record, SHORT_TEXTS, topic="avro"),
        "protobuf": _case(
            Protobuf(type_pb2.Type), _type, [type_pb2.Type(name="größe", oneofs=["a", "b"]), type_pb2.Type()], ["größe|a,b", "|"]
        ),
    }
    encodings: tuple[Encoding, ...] = ("separated", "inline")
    for how in encodings:
        pairs, pair_texts = [("größe", 5), ("b", None), ("", 0)], ["größe=5", "b=null", "=0"]
        records = [(ORDERS[0], Part("wheel")), (ORDERS[1], None)]
        cases |= {
            f"key_value_{how}": _case(KeyValue(STRING, INT32, how), _pair(str, str), pairs, pair_texts),
            f"key_value_avro_{how}": _case(
                KeyValue(Avro(Order), Json(Part), how),
                _pair(_order, lambda part: part.name),
                records,
                [f"{ORDER_TEXTS[0]}=wheel", f"{ORDER_TEXTS[1]}=null"],
            ),
            f"key_value_auto_{how}": Case(AUTO_CONSUME, _pair(str, str), [pair_texts[0], *pair_texts], topic=f"key_value_{how}"),
        }
    for key in ("rsa", "ec"):
        cases |= {
            f"encrypted_{key}": _case(STRING, str, ["secret", "größe"], ["secret", "größe"], key=key),
            f"encrypted_compressed_{key}": _case(
                STRING, str, ["a" * 500, "größe"], ["a" * 500, "größe"], key=key, compression="lz4"
            ),
        }
    return cases


CASES = _cases()
