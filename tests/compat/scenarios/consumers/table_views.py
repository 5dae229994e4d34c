"""Table views: the last value of each key."""

from __future__ import annotations

from tests.compat.scenarios.world import Outcome, World, topic_path


def _put(w: World, topic: str, *pairs: tuple[str, str | None]) -> None:
    producer = w.producer(topic)
    for key, value in pairs:
        producer.send(None if value is None else value.encode(), partition_key=key)
    producer.close()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def the_last_value_counts(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "1"), ("b", "2"), ("a", "3"))
    view = w.client.create_table_view(topic)
    return {key: _text(view.get(key)) for key in ("a", "b", "c")}


def an_empty_topic(w: World) -> Outcome:
    return _text(w.client.create_table_view(w.topic()).get("a"))


def new_values_arrive(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "1"))
    view = w.client.create_table_view(topic)
    before = _text(view.get("a"))
    _put(w, topic, ("a", "2"))
    return [before, w.settled(lambda: _text(view.get("a")), "2")]


def an_empty_value_deletes(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "1"), ("b", "2"))
    view = w.client.create_table_view(topic)
    _put(w, topic, ("a", ""))
    return [w.settled(lambda: _text(view.get("a")), None), _text(view.get("b"))]


def every_pair_is_listed(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "1"), ("b", "2"))
    pairs: dict[str, str] = {}
    w.client.create_table_view(topic).for_each(lambda key, value: pairs.__setitem__(key, value.decode()))
    return dict(sorted(pairs.items()))


def of_partitions(w: World) -> Outcome:
    topic = w.partitioned(2)
    _put(w, topic, *((f"k{number}", str(number)) for number in range(6)))
    view = w.client.create_table_view(topic)
    return [_text(view.get(f"k{number}")) for number in range(6)]


def they_leave_no_subscription(w: World) -> Outcome:
    topic = w.topic()
    _put(w, topic, ("a", "1"))
    view = w.client.create_table_view(topic)
    view.close()
    return w.settled(lambda: w.admin("GET", f"{topic_path(topic)}/subscriptions").body, [])
