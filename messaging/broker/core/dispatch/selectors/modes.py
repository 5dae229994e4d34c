"""The selector for what consumers ask for and the operator chose. Pure."""

from __future__ import annotations

from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode, KeySharedSettings
from messaging.broker.core.dispatch.selectors.consistent_hashing import ConsistentHashingSelector
from messaging.broker.core.dispatch.selectors.hash_range import HashRangeSelector
from messaging.broker.core.dispatch.selectors.selector import Selector
from messaging.broker.core.dispatch.selectors.sticky_ranges import StickyRangesSelector


def make_selector(mode: KeySharedMode, settings: KeySharedSettings) -> Selector:
    if mode.sticky:
        return StickyRangesSelector()
    return ConsistentHashingSelector(settings.points) if settings.consistent_hashing else HashRangeSelector()
