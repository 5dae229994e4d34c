"""Admin RPC: which broker owns which bundle, and moving bundles between brokers."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.adminrpc.brokers import BrokerAsked


class NamespaceAsked(Request, kw_only=True):
    """Raises not_found for a namespace that is not there."""

    namespace: fields.Namespace


class BundleOwner(msgspec.Struct, kw_only=True):
    """`broker_id` "": nobody, until somebody looks a topic of it up. `live`: whether that broker is."""

    namespace: str
    bundle: fields.Bundle
    broker_id: str = ""
    live: bool = False
    draining: bool = False


class BundleOwners(Answer, kw_only=True):
    bundles: list[BundleOwner]


class LoadsAsked(BrokerAsked, kw_only=True):
    """`namespace`: of its bundles alone, and of those that have a loaded topic; "": of all that the broker owns."""

    namespace: fields.Namespace = ""


class BundleLoad(msgspec.Struct, kw_only=True):
    """Of one bundle: `load` is in the unit of `messaging.broker.core.ownership.load`."""

    namespace: str
    bundle: fields.Bundle
    topics: int
    messages_in_per_s: float
    messages_out_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    load: float
    producers: int = 0
    consumers: int = 0


class BundleLoads(Answer, kw_only=True):
    """Of bundles of one broker. `movable`: False where they lie in its own log."""

    broker_id: str
    movable: bool
    draining: bool
    bundles: list[BundleLoad]


class BundleMoved(BrokerAsked, kw_only=True):
    """`broker_id` is to give a bundle to `to_broker_id`; "": to nobody, so that it is placed anew. Raises conflict where the one
    does not own it, or the other is not running; not_allowed where bundles stay with the log that they lie in."""

    namespace: fields.Namespace
    bundle: fields.Bundle
    to_broker_id: fields.Name = ""


class BrokerDrained(BrokerAsked, kw_only=True):
    """It gives its bundles to the others and takes none until it starts again; `ends`: it takes bundles again, and what it has not
    given yet stays. Raises not_allowed where bundles stay with the log that they lie in, not_ready."""

    ends: bool = False


class Drained(Answer, kw_only=True):
    """How many bundles the broker still has."""

    left: int
