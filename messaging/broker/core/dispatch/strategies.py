"""The dispatch strategy of each subscription type, where messages are stored and where they are not."""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.dispatch.dropping import DroppingKeyShared, DroppingShared
from messaging.broker.core.dispatch.exclusive import ExclusiveDispatch
from messaging.broker.core.dispatch.failover import FailoverDispatch
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.shared import SharedDispatch
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.dispatch.strategy import DispatchStrategy
from messaging.broker.core.subscription_type import SubscriptionType

Strategies = dict[SubscriptionType, Callable[[DispatchState], DispatchStrategy]]

STRATEGIES: Strategies = {
    SubscriptionType.EXCLUSIVE: ExclusiveDispatch,
    SubscriptionType.FAILOVER: FailoverDispatch,
    SubscriptionType.SHARED: SharedDispatch,
    SubscriptionType.KEY_SHARED: KeySharedDispatch,
}

DROPPING: Strategies = {
    SubscriptionType.EXCLUSIVE: ExclusiveDispatch,
    SubscriptionType.FAILOVER: FailoverDispatch,
    SubscriptionType.SHARED: DroppingShared,
    SubscriptionType.KEY_SHARED: DroppingKeyShared,
}
