"""The handlers of the admin RPC: those marked with `answers` in the parts made here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from messaging.adminrpc.methods import METHODS
from messaging.broker.runtime.admin.backlog import BacklogHandlers
from messaging.broker.runtime.admin.backup import BackupHandlers
from messaging.broker.runtime.admin.binding import Handler, bound
from messaging.broker.runtime.admin.bookies import BookieHandlers
from messaging.broker.runtime.admin.browse.handlers import BrowseHandlers
from messaging.broker.runtime.admin.bundles import BundleHandlers
from messaging.broker.runtime.admin.ceilings import CeilingHandlers
from messaging.broker.runtime.admin.changes import LongChanges
from messaging.broker.runtime.admin.client_list import ClientListHandlers
from messaging.broker.runtime.admin.clients import ClientHandlers
from messaging.broker.runtime.admin.compaction import CompactionHandlers
from messaging.broker.runtime.admin.dead_letters import DeadLetterHandlers
from messaging.broker.runtime.admin.delayed import DelayedHandlers
from messaging.broker.runtime.admin.diagnosis import DiagnosisHandlers
from messaging.broker.runtime.admin.feed import FeedHandlers
from messaging.broker.runtime.admin.gone_brokers import GoneBrokerHandlers
from messaging.broker.runtime.admin.live import LiveHandlers
from messaging.broker.runtime.admin.maintenance import MaintenanceHandlers
from messaging.broker.runtime.admin.messages import MessageHandlers
from messaging.broker.runtime.admin.moves import MoveHandlers
from messaging.broker.runtime.admin.namespaces import NamespaceHandlers
from messaging.broker.runtime.admin.news import NewsHandlers
from messaging.broker.runtime.admin.policies import PolicyHandlers
from messaging.broker.runtime.admin.policy_events import PolicyEventHandlers
from messaging.broker.runtime.admin.problems import ProblemHandlers
from messaging.broker.runtime.admin.recycle_bin import RecycleBinHandlers
from messaging.broker.runtime.admin.redrive import Redrive
from messaging.broker.runtime.admin.routing import Routing
from messaging.broker.runtime.admin.schemas import SchemaHandlers
from messaging.broker.runtime.admin.stats.topic_stats import TopicStatsHandlers
from messaging.broker.runtime.admin.status import StatusHandlers
from messaging.broker.runtime.admin.subscriptions import SubscriptionHandlers
from messaging.broker.runtime.admin.topics import TopicHandlers
from messaging.broker.runtime.admin.usage import UsageHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.fairness.turns import FairTurns

SCANS_MAX = 4  # slices of topics that are read at a time for somebody who asked, a turn each


class AdminHandlers:
    """The handlers of one broker, by name: `own` as it answers them itself, for another broker, and `methods` as those of the fleet
    do, for everybody else. `Edge` refuses to start where one is missing."""

    def __init__(self, broker: Broker) -> None:
        self.status = StatusHandlers(broker)
        self.feed = FeedHandlers(broker)
        self.namespaces = NamespaceHandlers(broker)
        self.live = LiveHandlers(broker)
        self.topics = TopicHandlers(broker)
        self.recycle_bin = RecycleBinHandlers(broker)
        self.schemas = SchemaHandlers(broker)
        self.topic_stats = TopicStatsHandlers(broker)
        scans = FairTurns(SCANS_MAX)
        self.backlog = BacklogHandlers(broker, scans)
        self.subscriptions = SubscriptionHandlers(broker)
        self.clients = ClientHandlers(broker)
        self.client_list = ClientListHandlers(broker)
        self.dead_letters = DeadLetterHandlers(broker)
        self.moves = MoveHandlers(broker)
        self.news = NewsHandlers(broker)
        self.messages = MessageHandlers(broker)
        self.browse = BrowseHandlers(broker, scans)
        self.delayed = DelayedHandlers(broker)
        self.diagnosis = DiagnosisHandlers(broker)
        self.problems = ProblemHandlers(broker)
        self.policies = PolicyHandlers(broker)
        self.ceilings = CeilingHandlers(broker)
        self.policy_events = PolicyEventHandlers(broker)
        self.compaction = CompactionHandlers(broker)
        self.redrive = Redrive(broker, scans)
        self.maintenance = MaintenanceHandlers(broker)
        self.usage = UsageHandlers(broker)
        self.backup = BackupHandlers(broker)
        self.bookies = BookieHandlers(broker)
        self.bundles = BundleHandlers(broker)
        self.gone_brokers = GoneBrokerHandlers(broker)
        self.changes = LongChanges(broker)
        handlers = dict(self._handlers())
        self.own: Mapping[str, Handler] = self._as_changes(handlers, for_brokers=True)
        self.methods: Mapping[str, Handler] = self._as_changes(handlers)
        if isinstance(broker.owners, FleetMember) and broker.other_brokers is not None:
            self.methods = self._as_changes(Routing(broker, broker.owners, broker.other_brokers).methods(handlers))

    def _handlers(self) -> Iterator[tuple[str, Handler]]:
        for part in list(vars(self).values()):
            for method, handler in bound(part):
                yield method.name, handler

    def _as_changes(self, handlers: Mapping[str, Handler], *, for_brokers: bool = False) -> dict[str, Handler]:
        return {
            name: self.changes.long(METHODS[name], handler, for_brokers=for_brokers) if METHODS[name].long_change else handler
            for name, handler in handlers.items()
        }
