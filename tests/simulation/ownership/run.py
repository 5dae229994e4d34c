"""One run: a fleet of brokers, clients that append and acknowledge, and everything that can go wrong, from a seed.

database.py   what all share                 broker.py   one life of a broker
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from traceback import format_exception
from typing import Any

from messaging.broker.core.ownership.lookup import Acquire, Here, NotNow, There
from messaging.broker.runtime.ownership.fleet_member import HELD_S
from messaging.broker.runtime.ownership.held_lookups import HELD_LOOK_S
from messaging.protocol.bundles import Boundaries, equal_bundles
from messaging.storage.ledger_store import Fenced, Unavailable
from messaging.storage.ownership import LEASE_MS, SessionLost
from messaging.storage.sql.ownership import ownership_changes
from tests.simulation.checker import Violated
from tests.simulation.ownership.broker import REFUSED, BrokerLife, Operation, Task, WaitingLookup, rest
from tests.simulation.ownership.database import SharedDatabase, mark_delete_of, owner_of

BROKERS = ("b1", "b2", "b3")
TOPICS = [f"persistent://acme/{namespace}/topic-{number}" for namespace in ("orders", "events") for number in range(3)]
CLIENTS = 8  # operations at a time
QUIET_STEPS = 20_000  # without any fault at the end, until all is answered
FAULT = 0.2  # how often a broker is stopped, or cut off, where one that is goes on
SENT = 0.05  # that a request of a broker which is stopped was sent before, at each step
LINES = 60


@dataclass
class Request:
    """On its way to the database."""

    life: BrokerLife
    task: Task
    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    on_end: Callable[[], None]
    answer: tuple[Any, Exception | None] | None = None  # what the database said to a broker that is stopped


@dataclass
class Fleet:
    random: Random
    shared: SharedDatabase = field(default_factory=SharedDatabase)
    step: int = 0
    lives: dict[str, BrokerLife] = field(default_factory=dict)
    requests: dict[str, deque[Request]] = field(default_factory=lambda: {broker_id: deque() for broker_id in BROKERS})
    resting: list[Request] = field(default_factory=list)  # the moves that are announced: `arguments` say until when
    cut: set[str] = field(default_factory=set)
    operations: list[Operation] = field(default_factory=list)
    waiting: list[Operation] = field(default_factory=list)
    boundaries: dict[str, Boundaries] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.boundaries = {"acme/orders": equal_bundles(4), "acme/events": equal_bundles(2)}
        for broker_id in BROKERS:
            self.start(broker_id)

    # --- brokers

    def start(self, broker_id: str) -> str:
        if broker_id in self.lives:
            return ""
        rate, offset_s = self.random.uniform(0.98, 1.02), self.random.uniform(0, 10_000)
        life = BrokerLife(broker_id, lambda: self.shared.now_ms / 1000 * rate + offset_s, dict(self.boundaries))
        self.lives[broker_id] = life
        self.spawn(life, life.start(replace=True))
        return f"{broker_id} starts"

    def kill(self, broker_id: str) -> str:
        life = self.lives.pop(broker_id, None)
        if life is None:
            return ""
        self.counts.update(life.counts)
        self.disconnect(broker_id)
        return f"{broker_id} is killed"

    def pause(self, broker_id: str) -> str:
        life = self.lives.get(broker_id)
        if life is None or (not life.paused and self.random.random() > FAULT):
            return ""
        life.paused = not life.paused
        return f"{broker_id} {'is stopped' if life.paused else 'goes on'}"

    def cut_off(self, broker_id: str) -> str:
        if broker_id in self.cut:
            self.cut.discard(broker_id)
            return f"{broker_id} reaches the database again"
        if self.random.random() > FAULT:
            return ""
        self.cut.add(broker_id)
        self.disconnect(broker_id)
        return f"{broker_id} is cut off from the database"

    def disconnect(self, broker_id: str) -> None:
        """The first of what is on its way may have been done, the others were not: nobody overtakes a commit, which has its locks.
        Whoever waits learns that he does not know."""
        requests, self.requests[broker_id] = self.requests[broker_id], deque()
        if requests and requests[0].answer is None and self.random.random() < 0.5:
            self._attempt(requests[0])
            self.counts["done unheard"] += 1
        for request in requests:
            unknown = Unavailable("the connection was lost")
            if self.lives.get(broker_id) is not request.life:
                continue
            if request.life.paused:  # it hears of it when it goes on
                request.answer = request.answer or (None, unknown)
                self.requests[broker_id].append(request)
            else:
                self.resume(request, error=unknown)

    def spawn(self, life: BrokerLife, task: Task, on_end: Callable[[], None] = lambda: None) -> None:
        self._go_on(life, task, on_end, lambda: next(task))

    def _go_on(self, life: BrokerLife, task: Task, on_end: Callable[[], None], go: Callable[[], Any]) -> None:
        try:
            run, arguments = go()
        except StopIteration:
            on_end()
        except REFUSED as error:
            self.counts[type(error).__name__] += 1
            on_end()
            if isinstance(error, Fenced | SessionLost) and life.serves:
                life.owners.change = 0
                self.spawn(life, life.poll())
        else:
            if run is rest:
                self.resting.append(Request(life, task, run, arguments, on_end))
            elif life.broker_id in self.cut:
                self.resume(Request(life, task, run, arguments, on_end), error=Unavailable("there is no connection"))
            else:
                self.requests[life.broker_id].append(Request(life, task, run, arguments, on_end))

    def resume(self, request: Request, result: Any = None, error: Exception | None = None) -> None:
        go = (lambda: request.task.send(result)) if error is None else (lambda: request.task.throw(error))
        self._go_on(request.life, request.task, request.on_end, go)

    # --- steps. Each returns what it did; "": nothing

    def carry_out(self, broker_id: str) -> str:
        """The next request of a connection; its broker hears of it at once, or once it goes on."""
        if not self.requests[broker_id]:
            return ""
        request = self.requests[broker_id][0]
        if request.life.paused:
            if request.answer is not None or self.random.random() > SENT:
                return ""
            request.answer = self._attempt(request)
            return f"{broker_id}, stopped, is answered"
        self.requests[broker_id].popleft()
        outcome = request.answer or self._attempt(request)
        self.resume(request, *outcome)
        return f"{broker_id}: {getattr(request.run, '__name__', 'answer')} -> {outcome[1] or 'done'}"

    def _attempt(self, request: Request) -> tuple[Any, Exception | None]:
        try:
            return self.shared.call(request.run, *request.arguments), None
        except REFUSED as error:
            return None, error

    def tick(self, broker_id: str) -> str:
        """What a broker does by itself: it renews its session and looks what changed."""
        life = self.lives.get(broker_id)
        if life is None or life.paused:
            return ""
        if life.lost:
            return self.kill(broker_id)
        self._wake(life)
        life.boundaries = dict(self.boundaries) if self.random.random() < 0.3 else life.boundaries
        if life.lease is None:
            if "start" in life.busy:
                return ""
            life.busy.add("start")
            self.spawn(life, life.start(replace=True), lambda: life.busy.discard("start"))
            return f"{broker_id} asks for a session"
        if life.clock_s() >= life.lease.renew_s:
            self._once(life, "renew", life.renew)
        if self.random.random() < 0.2:
            self._once(life, "poll", life.poll)
        return f"{broker_id} looks around"

    def _wake(self, life: BrokerLife) -> None:
        self.resting = [each for each in self.resting if self.lives.get(each.life.broker_id) is each.life]
        for each in [each for each in self.resting if each.life is life and life.clock_s() >= each.arguments[0]]:
            self.resting.remove(each)
            self.resume(each)

    def _once(self, life: BrokerLife, name: str, task: Callable[[], Task]) -> None:
        if name not in life.busy:
            life.busy.add(name)
            self.spawn(life, task(), lambda: life.busy.discard(name))

    def time_passes(self) -> str:
        rarely = self.random.random() < 0.05
        self.shared.now_ms += self.random.choice((10, 200, 1_000, 3_000, LEASE_MS + 1) if rarely else (1, 5, 50, 300))
        return f"it is {self.shared.now_ms} ms"

    def two_with_one_id(self, broker_id: str) -> str:
        """Somebody starts another process with this id, which has no right to its lock."""
        stranger = BrokerLife(broker_id, lambda: self.shared.now_ms / 1000, dict(self.boundaries))
        changes = self.shared.call(lambda shared: ownership_changes(shared.db, shared.now_ms, 0))
        live = [session for session in changes.sessions if session.broker_id == broker_id and session.live]
        task = stranger.start(replace=False)
        run, arguments = next(task)
        outcome, error = self._attempt(Request(stranger, task, run, arguments, lambda: None))
        if live and error is None:
            raise Violated(f"a second broker {broker_id} was given session {outcome}")
        return f"a second {broker_id}: {error or 'takes its place'}"

    def mistake(self, broker_id: str) -> str:
        """A broker takes another one for gone that is not: what it then does harms nobody but that one."""
        life, other_id = self.lives.get(broker_id), self.random.choice(BROKERS)
        other = None if life is None else life.owners.sessions.get(other_id)
        if life is None or other is None or life.paused or not life.serves or other_id == broker_id:
            return ""
        self._once(life, f"end {other_id}", lambda: life.end_session(other_id, other.session, gone=True))
        return f"{broker_id} takes {other_id} for gone"

    def move(self) -> str:
        """The owner of some bundle hands it over, cuts it or releases it."""
        life = self.lives.get(self.random.choice(BROKERS))
        if life is None or life.paused or not life.serves:
            return ""
        mine = [row for row in life.owners.owned_by(life.broker_id) if row.session == life.session]
        if not mine:
            return ""
        row = self.random.choice(mine)
        if row.bundle in life.busy:
            return ""
        what = self.random.choices(("hand over", "cut", "release"), (5, 1, 1))[0]
        if what == "hand over":
            task = life.hand_over(row, self.random.choice(BROKERS))
        elif what == "release":
            task = life.release(row)
        else:
            namespace, lower, upper = row.bundle
            cut = self.random.randrange(lower + 1, upper) if upper - lower > 1 else 0
            if not cut or len(self.boundaries[namespace]) > 12:
                return ""
            self.boundaries[namespace] = tuple(sorted({*self.boundaries[namespace], cut}))
            task = life.split(row, cut)
        life.busy.add(row.bundle)
        self.spawn(life, life.move(row, task), lambda: life.busy.discard(row.bundle))
        return f"{life.broker_id}: {what} {row.bundle}"

    # --- clients

    def client(self) -> str:
        if len(self.waiting) < CLIENTS:
            topic = self.random.choice(TOPICS)
            acknowledged = self.random.random() < 0.5
            mark_delete = max(0, self.shared.answered[topic] + self.random.randrange(-3, 4)) if acknowledged else -1
            operation = Operation(len(self.operations), topic, self.step, mark_delete)
            self.operations.append(operation)
            self.waiting.append(operation)
        operation = self.random.choice(self.waiting)
        if operation.answered:
            self._answered(operation)
            return f"operation {operation.number} is answered"
        return self._ask(operation)

    def _ask(self, operation: Operation) -> str:
        broker_id = operation.broker or self.random.choice(BROKERS)
        sent, operation.broker, operation.sent = operation.sent, "", False
        life = self.lives.get(broker_id)
        if operation.under_way is not None:
            if operation.under_way in self.lives.values():
                return ""
            operation.under_way = None  # its connection broke
        if operation.mark_delete >= 0 and not sent and (where := self._attached(operation)):
            return where
        if operation.owner:
            return self._open(operation)
        if operation.waits is not None:
            return self._wait(operation, operation.waits)
        if life is None or life.paused:
            return ""
        return self._look_up(operation, life, sent)

    def _look_up(self, operation: Operation, life: BrokerLife, sent: bool) -> str:
        answered, broker_id = life.look_up(operation.topic, sent=sent), life.broker_id
        waited, operation.waits = operation.waits, None
        if isinstance(answered, NotNow) and answered.passes:
            now_s = life.clock_s()
            since_s = now_s if waited is None else waited.since_s
            operation.waits = WaitingLookup(life, broker_id, sent, since_s, now_s, life.owners.version)
            self.counts["look-ups that wait"] += waited is None
        elif waited is not None:
            self.counts["look-ups answered after they waited"] += 1
        if isinstance(answered, There) and not answered.owner:
            operation.broker, operation.sent = answered.broker.broker_id, True
        elif isinstance(answered, There):
            operation.owner = answered.broker.broker_id
        elif isinstance(answered, Here):
            operation.owner = broker_id
        elif isinstance(answered, Acquire):
            operation.broker, operation.sent = broker_id, True
            if answered.bundle not in life.busy:
                life.busy.add(answered.bundle)
                self.spawn(life, life.acquire(answered.bundle), lambda: life.busy.discard(answered.bundle))
        return f"operation {operation.number} asks {broker_id}: {type(answered).__name__}"

    def _wait(self, operation: Operation, waits: WaitingLookup) -> str:
        """It is looked up again when there is news, and now and then, until it is refused or its connection breaks."""
        life = waits.life
        if self.lives.get(waits.broker_id) is not life:
            operation.waits = None
            return f"operation {operation.number} loses its connection to {waits.broker_id}"
        if life.paused:
            return ""
        if life.clock_s() - waits.since_s >= HELD_S:
            operation.waits = None
            self.counts["look-ups refused in the end"] += 1
            return f"operation {operation.number} is refused by {waits.broker_id}"
        if life.owners.version == waits.version and life.clock_s() - waits.looked_s < HELD_LOOK_S:
            return ""
        return self._look_up(operation, life, waits.sent)

    def _open(self, operation: Operation) -> str:
        """At the broker that it was told of, some time ago."""
        owner, operation.owner = operation.owner, ""
        life = self.lives.get(owner)
        if life is None or life.paused:
            return f"operation {operation.number} does not reach {owner}"
        row = life.opens(operation.topic)
        if row is None:
            self.counts["openings refused"] += 1
            return f"operation {operation.number} is to look up again at {owner}"
        self.counts["opened while announced"] += row.state == "draining"
        operation.under_way = life
        self.spawn(life, life.serve(operation, row, lambda: self.step), lambda: self._not_under_way(operation, life))
        return f"operation {operation.number} opens its topic at {owner}"

    def _attached(self, operation: Operation) -> str:
        """It is acknowledged where a consumer is attached, which looks up nothing."""
        lives = [life for life in self.lives.values() if not life.paused and life.attached(operation.topic)]
        if not lives or self.random.random() < 0.3:
            return ""
        life = self.random.choice(lives)
        operation.under_way = life
        task = life.serve_attached(operation, lambda: self.step)
        self.spawn(life, task, lambda: self._not_under_way(operation, life))
        return f"operation {operation.number} goes to {life.broker_id}, where its consumer is"

    def _not_under_way(self, operation: Operation, life: BrokerLife) -> None:
        if operation.under_way is life:
            operation.under_way = None

    def _answered(self, operation: Operation) -> None:
        self.waiting.remove(operation)
        if operation.mark_delete >= 0:
            self.shared.answered[operation.topic] = max(self.shared.answered[operation.topic], operation.mark_delete)
            self.counts["acknowledged"] += 1
        else:
            self.counts["appended"] += 1


WEIGHTS: dict[str, float] = {"carry out": 50, "client": 30, "tick": 4, "time": 12, "move": 0.6, "start": 0.6}
FAULTS: dict[str, float] = {"kill": 0.1, "pause": 2, "cut": 2, "second": 0.05, "mistake": 0.8}


def _perform(fleet: Fleet, name: str) -> str:
    broker_id = fleet.random.choice(BROKERS)
    of_all = {"client": fleet.client, "time": fleet.time_passes, "move": fleet.move}
    of_one = {
        "carry out": fleet.carry_out,
        "tick": fleet.tick,
        "kill": fleet.kill,
        "start": fleet.start,
        "pause": fleet.pause,
        "cut": fleet.cut_off,
        "second": fleet.two_with_one_id,
        "mistake": fleet.mistake,
    }
    return of_all[name]() if name in of_all else of_one[name](broker_id)


@dataclass
class Result:
    seed: int
    steps: int  # done
    counts: Counter[str]
    trace: list[str]  # the end of it
    violation: str  # empty: everything held

    @property
    def described(self) -> str:
        again = f"python -m tests.simulation.ownership --seed {self.seed} --steps {self.steps}"
        return "\n".join([*self.trace, f"seed {self.seed}, step {self.steps}: {self.violation}", f"again: {again}"])


def simulate(seed: int, steps: int) -> Result:
    trace: deque[str] = deque(maxlen=LINES)
    fleet = Fleet(Random(seed))
    violation = ""
    try:
        weights = WEIGHTS | FAULTS
        names, chances = list(weights), list(weights.values())
        for _ in range(steps):  # a shorter run of a seed is the beginning of a longer one
            name = fleet.random.choices(names, chances)[0]
            fleet.step += 1
            if done := _perform(fleet, name):
                trace.append(f"{fleet.step} {name}: {done}")
                fleet.counts[name] += 1
        _end_all(fleet, trace)
        check(fleet)
    except Violated as violated:
        violation = str(violated)
    except Exception as error:
        violation = "".join(format_exception(error))
    for life in fleet.lives.values():
        fleet.counts.update(life.counts)
    return Result(seed, fleet.step, fleet.counts, list(trace), violation)


def _end_all(fleet: Fleet, trace: deque[str]) -> None:
    """No more faults: whatever is asked has to be answered."""
    fleet.cut.clear()
    for life in fleet.lives.values():
        life.paused = False
    for broker_id in BROKERS:
        fleet.start(broker_id)
    names, chances = list(WEIGHTS), list(WEIGHTS.values())
    last = len(fleet.operations)
    for _ in range(QUIET_STEPS):
        if all(operation.answered for operation in fleet.operations[:last]):
            return
        fleet.step += 1
        name = fleet.random.choices(names, chances)[0]
        if done := _perform(fleet, name):
            trace.append(f"{fleet.step} {name}: {done}")
    stuck = [operation for operation in fleet.operations[:last] if not operation.answered]
    raise Violated(f"{len(stuck)} operations are not answered, the first on {stuck[0].topic}")


def check(fleet: Fleet) -> None:
    """Of every topic: what was answered is in the log where the client was told, and the log is in an order that the clients may
    have seen: whatever was answered before something else was asked for comes before it."""
    appended: dict[str, list[Operation]] = {topic: [] for topic in TOPICS}
    for operation in fleet.operations:
        if operation.answered and operation.mark_delete < 0:
            appended[operation.topic].append(operation)
    for topic, operations in appended.items():
        log = fleet.shared.logs[topic]
        latest_invoked = 0
        for operation in sorted(operations, key=lambda operation: operation.entry):
            if operation.entry >= len(log) or log[operation.entry] != operation.number:
                raise Violated(f"operation {operation.number}, answered as entry {operation.entry} of {topic}, is not there")
            if operation.answered < latest_invoked:
                raise Violated(f"entry {operation.entry} of {topic} was answered before one that precedes it was asked for")
            latest_invoked = max(latest_invoked, operation.invoked)
        owner = owner_of(fleet.shared, topic)
        if mark_delete_of(fleet.shared, topic, owner) < fleet.shared.answered[topic]:
            raise Violated(f"acknowledgements of {topic} were forgotten")
