"""The dispatch strategy of each subscription type."""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.dispatch.exclusive import ExclusiveDispatch
from messaging.broker.core.dispatch.failover import FailoverDispatch
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.shared import SharedDispatch
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.dispatch.strategy import DispatchStrategy
from messaging.broker.core.subscription_type import SubscriptionType

STRATEGIES: dict[SubscriptionType, Callable[[DispatchState], DispatchStrategy]] = {
    SubscriptionType.EXCLUSIVE: ExclusiveDispatch,
    SubscriptionType.FAILOVER: FailoverDispatch,
    SubscriptionType.SHARED: SharedDispatch,
    SubscriptionType.KEY_SHARED: KeySharedDispatch,
}
