"""Clusters, brokers, and the HTTP lookup."""

from __future__ import annotations

import threading
import time
from typing import Any

from django.conf import settings as django_settings
from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.base import Request
from messaging.adminrpc.methods import BROKERS_LIST, HEALTH, TOPICS_LOOKUP
from messaging.adminrpc.topics import TopicLookup
from messaging.bookkeeper_url import is_bookkeeper
from messaging.errors import MagnetarError, NotFound
from messaging.policies.dynamic import DYNAMIC, text_of
from messaging.protocol.bundles import bundle_of
from messaging.version import VERSION
from tenants import broker
from tenants.actions.broker_settings import set_dynamic, unset_dynamic
from tenants.actions.bundles import boundaries_of
from tenants.http.views import actor, route, text
from tenants.models import DynamicSetting
from tenants.pulsar.topics import existing

_HEALTH_KEPT_S = 1.0
_TLS_BETWEEN_BROKERS: dict[str, Any] = {  # as of a Pulsar without any: there is one broker
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
    "brokerClientTlsEnabled": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientTlsTrustStoreType": "JKS",
    "tlsAllowInsecureConnection": False,
}


def _our_url(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"


def _clusters(request: HttpRequest) -> list[str]:
    return [django_settings.MAGNETAR.cluster_name]


def existing_cluster(name: str) -> None:
    """Raises `NotFound`."""
    if name != django_settings.MAGNETAR.cluster_name:
        raise NotFound(f"Cluster does not exist: {name!r}; the only cluster is {django_settings.MAGNETAR.cluster_name!r}")


def _cluster(request: HttpRequest, cluster: str) -> dict[str, Any]:
    existing_cluster(cluster)
    addresses, secure = broker.addresses(), request.is_secure()
    return {
        **_TLS_BETWEEN_BROKERS,
        **_with_values(
            serviceUrl="" if secure else _our_url(request),
            serviceUrlTls=_our_url(request) if secure else "",
            brokerServiceUrl=addresses.get("broker_url", ""),
            brokerServiceUrlTls=addresses.get("broker_url_tls", ""),
        ),
    }


def _brokers(request: HttpRequest, cluster: str = "") -> list[str]:
    if cluster:
        existing_cluster(cluster)
    return _live_ids() or [request.get_host()]


def _live_ids() -> list[str]:
    """Of several brokers; of one, Pulsar's tools are told its address."""
    seen = broker.rpc().call(BROKERS_LIST, Request()).brokers
    return [each.broker_id for each in seen if each.live] if len(seen) > 1 else []


def _leader(request: HttpRequest) -> dict[str, str]:
    """The one that balances bundles: the first of those that run."""
    return {"brokerId": min(_live_ids(), default=request.get_host()), "serviceUrl": _our_url(request)}


def _version(request: HttpRequest) -> HttpResponse:
    return text(VERSION)


def _runtime_configuration(request: HttpRequest) -> dict[str, str]:
    """The few settings of a broker that Pulsar's tools read (`clusters list` marks the cluster of this name), and those that may
    change, as they are in force."""
    configured, changed = django_settings.MAGNETAR, _changed()
    values = {name: text_of(changed.get(setting, getattr(configured, setting))) for name, setting in DYNAMIC.items()}
    return {"clusterName": configured.cluster_name, **values}


def _internal_configuration(request: HttpRequest) -> dict[str, str]:
    """Where metadata and messages are, without who signs in there."""
    configured = django_settings.MAGNETAR
    metadata = _without_credentials(configured.metadata_url) or "sqlite"
    return {
        "metadataStoreUrl": metadata,
        "configurationMetadataStoreUrl": metadata,
        **_with_values(
            bookkeeperMetadataServiceUri=_without_credentials(configured.ledger_url) if is_bookkeeper(configured.ledger_url) else ""
        ),
    }


def _without_credentials(url: str) -> str:
    """Nor options, which may name a password or where one is. A password before the hosts may have a question mark in it."""
    scheme, _, place = url.partition("://")
    hosts, slash, path = place.partition("/")
    without_names = f"{hosts.rpartition('@')[2]}{slash}{path}"
    return f"{scheme}://{without_names.partition('?')[0]}" if url else ""


def _changed() -> dict[str, Any]:
    return dict(DynamicSetting.objects.values_list("name", "value"))


def _dynamic_names(request: HttpRequest) -> list[str]:
    return list(DYNAMIC)


def _dynamic_values(request: HttpRequest) -> dict[str, str]:
    """Those that were changed."""
    changed = _changed()
    return {name: text_of(changed[setting]) for name, setting in DYNAMIC.items() if setting in changed}


def _set_dynamic(request: HttpRequest, name: str, value: str) -> HttpResponse:
    set_dynamic(actor(request), name, value)
    return _done()


def _unset_dynamic(request: HttpRequest, name: str) -> HttpResponse:
    unset_dynamic(actor(request), name)
    return _done()


def _done() -> HttpResponse:
    """200 and nothing else. If a type is said, Pulsar's tool looks for a reader of it, even of nothing, and waits for ever."""
    response = HttpResponse()
    del response["Content-Type"]
    return response


class _Health:
    """A produce and consume round trip, run at most once a second: concurrent requests share its result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_s = float("-inf")
        self._error: MagnetarError | None = None

    def check(self) -> None:
        with self._lock:
            if time.monotonic() - self._at_s >= _HEALTH_KEPT_S:
                self._error = None
                try:
                    broker.rpc().call(HEALTH, Request())
                except MagnetarError as error:
                    self._error = error
                self._at_s = time.monotonic()
            if self._error is not None:
                raise type(self._error)(self._error.message)

    def forget(self) -> None:
        self._at_s = float("-inf")


health = _Health()


def _get_health(request: HttpRequest) -> HttpResponse:
    health.check()
    return text("ok")


def _lookup(request: HttpRequest, **parts: str) -> dict[str, str]:
    """The four keys that Pulsar always answers, because clients need them; those for TLS where there is TLS."""
    owner = broker.rpc().call(TOPICS_LOOKUP, TopicLookup(topic=str(existing(parts))))
    secure = request.is_secure()
    return {
        "brokerUrl": owner.broker_url,
        "httpUrl": owner.http_url or ("" if secure else _our_url(request)),
        "nativeUrl": owner.broker_url,
        "brokerUrlSsl": owner.broker_url_tls,
    } | _with_values(brokerUrlTls=owner.broker_url_tls, httpUrlTls=owner.http_url_tls or (_our_url(request) if secure else ""))


def _with_values(**fields: str) -> dict[str, str]:
    """Without those that have none: clients take an empty address for an address."""
    return {name: value for name, value in fields.items() if value}


def _bundle(request: HttpRequest, **parts: str) -> HttpResponse:
    topic = existing(parts)
    return text(str(bundle_of(boundaries_of(str(topic.namespace)), str(topic))))


clusters_view = route(GET=_clusters)
cluster_view = route(GET=_cluster)
brokers_view = route(GET=_brokers)
leader_view = route(GET=_leader)
internal_configuration_view = route(GET=_internal_configuration)
runtime_configuration_view = route(GET=_runtime_configuration)
dynamic_names_view = route(GET=_dynamic_names)
dynamic_values_view = route(GET=_dynamic_values)
dynamic_name_view = route(DELETE=_unset_dynamic)
dynamic_value_view = route(POST=_set_dynamic)
version_view = route(GET=_version)
health_view = route(GET=_get_health)
lookup_view = route(GET=_lookup)
bundle_view = route(GET=_bundle)
