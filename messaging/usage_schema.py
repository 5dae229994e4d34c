"""The schema of usage records: what brokers write as Parquet and the Spark job reads. Constants and one name; no imports.

A record is one meter of one series over one interval. Identity is (source, boot_epoch, series, seq): `seq` has no gap per
(source, boot_epoch, series), so that a lost record shows. Values are integers in base units. An interval is half-open, in event
time (UTC, ms since 1970), at most 60 s wide and never crosses an hour. `cumulative` is the running total of a counter since the
broker's boot (for a gauge: the value itself).

Beside each Parquet file `NAME.parquet` lies `NAME.json`, the manifest: {"file", "sha256", "rows", "interval_start_ms",
"interval_end_ms", "sums": {meter: int}, "source", "boot_epoch", "schema_version"}. The manifest is written last, so a file
without one is not there. Files lie under `usage/raw/date=YYYY-MM-DD/hour=HH/` by event time and are never changed.
"""

SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)  # 1 had no `tenant_uid`: it is taken for ""

# (column, Arrow type)
COLUMNS: tuple[tuple[str, str], ...] = (
    ("source", "string"),  # broker id
    ("boot_epoch", "int64"),  # rises with each start of that broker
    ("series", "string"),  # `series_name`
    ("seq", "int64"),
    ("tenant", "string"),
    ("namespace", "string"),  # tenant/namespace
    ("topic", "string"),  # full name
    ("meter", "string"),
    ("value", "int64"),
    ("cumulative", "int64"),
    ("interval_start_ms", "int64"),
    ("interval_end_ms", "int64"),
    ("emitted_at_ms", "int64"),
    ("schema_version", "int32"),
    ("tenant_uid", "string"),  # tells a tenant from a former one of its name; "" where the broker does not know it
)

COUNTERS: tuple[str, ...] = ("messages_in", "bytes_in", "messages_out", "bytes_out")
GAUGES: tuple[str, ...] = ("stored_bytes", "backlog_entries")
INTERVAL_MS_MAX = 60_000
GAUGE_CARRY_MS_MAX = 300_000  # a gauge is carried over a silence of at most five minutes


def series_name(meter: str, tenant_uid: str, topic: str) -> str:
    """``<meter>|<tenant uid>|<full topic name>``, or ``<meter>|<full topic name>`` where the uid is not known."""
    return f"{meter}|{tenant_uid}|{topic}" if tenant_uid else f"{meter}|{topic}"
