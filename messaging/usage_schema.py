"""The schema of usage records: what brokers write as Parquet and the Spark job reads. Constants and one name; no imports.

A record is one meter of one series over one interval. Identity is (source, boot_epoch, series, seq): `seq` has no gap per
(source, boot_epoch, series), so that a lost record shows. Values are integers in base units. An interval is half-open, in event
time (UTC, ms since 1970), at most 60 s wide and never crosses an hour. `cumulative` is the running total of a counter (for a
gauge: the value itself).

Of what is gone a broker keeps nothing: if it comes again, as a topic that is made anew, `seq` begins at a higher multiple of
`SEQUENCE_SPAN`, and `cumulative` at 0. Within a span there is no gap, and each begins with its first number.

A meter belongs to one scope, which says what its series are about (`SCOPES`). Only the meters of a topic (`COUNTERS`, `GAUGES`) are
the whole of what was carried and held, and those of connections and API calls the whole of theirs. Those of clients and
subscriptions say again whose part of it that was, and may leave out a little: what is billed and what is attributed are never
added up.

Beside each Parquet file `NAME.parquet` lies `NAME.json`, the manifest: {"file", "sha256", "rows", "interval_start_ms",
"interval_end_ms", "sums": {meter: int}, "source", "boot_epoch", "schema_version", "file_numbers"}. The manifest is written last,
so a file without one is not there. Numbers count the files of a boot from 0 without gaps, so that a file that was lost shows,
whatever was in it; those before version 4 have none. Files lie under `usage/raw/date=YYYY-MM-DD/hour=HH/` by event time and are
never changed. When an hour is over, the job makes small files of a boot one: its manifest has "members", [[name, SHA-256]], for
which it stands, and their numbers.

`usage/raw/boots/NAME.json` says of one boot of one broker up to when its usage is in files: {"source", "boot_epoch", "started_ms",
"covered_until_ms", "ended", "schema_version"}. `ended`: the broker stopped by itself, and wrote everything. Of a boot that was
followed by another and did not end, what was carried from `covered_until_ms` to the start of the next one may be lost: a hole.
"""

SCHEMA_VERSION = 5
# 1 had no `tenant_uid`, 1 and 2 had no `subscription` and `key`: they are taken for "". 3 has further meters, 4 API calls. Up to 4
# all numbers of a series are of its first span.
READABLE_VERSIONS = (1, 2, 3, 4, 5)

SEQUENCE_SPAN = 1 << 32

# (column, Arrow type)
COLUMNS: tuple[tuple[str, str], ...] = (
    ("source", "string"),  # broker id
    ("boot_epoch", "int64"),  # rises with each start of that broker
    ("series", "string"),  # `series_name`
    ("seq", "int64"),
    ("tenant", "string"),
    ("namespace", "string"),  # tenant/namespace; "" for meters of a tenant, and for API calls that name none
    # Full name; of a topic in the recycle bin its place there; "" for meters of a tenant, and for API calls that name none
    ("topic", "string"),
    ("meter", "string"),
    ("value", "int64"),
    ("cumulative", "int64"),
    ("interval_start_ms", "int64"),
    ("interval_end_ms", "int64"),
    ("emitted_at_ms", "int64"),
    ("schema_version", "int32"),
    ("tenant_uid", "string"),  # tells a tenant from a former one of its name; "" where the broker does not know it
    ("subscription", "string"),  # of meters of clients and subscriptions; "" for producers, and for readers
    ("key", "string"),  # the id of the client's key, else its role; "" for the broker's own, and for those of nobody in particular
)

COUNTERS: tuple[str, ...] = ("messages_in", "bytes_in", "messages_out", "bytes_out")
GAUGES: tuple[str, ...] = ("stored_bytes", "backlog_entries")
# Of the clients of one topic, by subscription and key. What they do not explain of the topic's counters is nobody's in particular.
CLIENT_COUNTERS: tuple[str, ...] = (
    "client_messages_in",
    "client_bytes_in",
    "client_messages_out",
    "client_bytes_out",
    "client_messages_redelivered",  # of those out, the ones that were sent again
)
# Of one durable subscription of a topic.
SUBSCRIPTION_GAUGES: tuple[str, ...] = ("subscription_backlog_entries", "subscription_delayed_entries")
# Of a tenant, by key.
TENANT_GAUGES: tuple[str, ...] = ("connections",)
# Of the topic, the namespace or the tenant that a call names, by key. The web process records them as a broker records its meters.
API_COUNTERS: tuple[str, ...] = ("api_calls",)

TOPIC, CLIENT, SUBSCRIPTION, TENANT, API = "topic", "client", "subscription", "tenant", "api"
# Scope -> its counters and its gauges.
SCOPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    TOPIC: (COUNTERS, GAUGES),
    CLIENT: (CLIENT_COUNTERS, ()),
    SUBSCRIPTION: ((), SUBSCRIPTION_GAUGES),
    TENANT: ((), TENANT_GAUGES),
    API: (API_COUNTERS, ()),
}
# The meters of all scopes but that of a topic.
DETAIL_METERS: tuple[str, ...] = (*CLIENT_COUNTERS, *SUBSCRIPTION_GAUGES, *TENANT_GAUGES, *API_COUNTERS)
# What is whole, and so may have a price: of topics, and of tenants what no topic has.
BILLED_COUNTERS: tuple[str, ...] = (*COUNTERS, *API_COUNTERS)
BILLED_GAUGES: tuple[str, ...] = (*GAUGES, *TENANT_GAUGES)

INTERVAL_MS_MAX = 60_000
# A gauge is carried over a silence of at most five minutes. Of a topic that is not loaded, and so does not change, brokers with
# very many of them say it less often than every minute, but within this.
GAUGE_CARRY_MS_MAX = 300_000


def series_name(meter: str, tenant_uid: str, about: str, subscription: str = "", key: str = "") -> str:
    """``<meter>|<tenant uid>|<about>``, or ``<meter>|<about>`` where the uid is not known; then, where one of them is given,
    subscription and key, each after a line feed, which no name contains. `about`: the topic's full name; without a topic, the
    namespace's; "" for the tenant."""
    name = f"{meter}|{tenant_uid}|{about}" if tenant_uid else f"{meter}|{about}"
    return f"{name}\n{subscription}\n{key}" if subscription or key else name
