"""The passes of a compaction against a dictionary, with bounds so small that everything spills and splits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messaging.broker.core.compaction import last_values, passes
from messaging.broker.core.compaction.last_values import LastValues, PartFile, RecordBuffer
from messaging.broker.core.compaction.messages import look_into
from messaging.broker.core.compaction.passes import CompactionRules, FirstPass, SecondPass
from messaging.errors import NotAllowed
from tests.support.compacting import Keyed, batch, keyed

RULES = CompactionRules(retain_null_key=False, unpacked_bytes_max=1 << 20)


class Pieces:
    """A file of records in memory."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.reads = 0

    def write(self, records: bytes) -> None:
        self.pieces.append(records)

    def read(self) -> Iterator[bytes]:
        self.reads += 1
        yield from self.pieces


def first_pass(files: dict[object, Pieces], rules: CompactionRules = RULES) -> FirstPass:
    def made(name: object) -> PartFile:
        assert name not in files
        return files.setdefault(name, Pieces())

    return FirstPass(LastValues(made, b"salt"), RecordBuffer(lambda: made("chunks")), rules)


def chunk(number: int, uuid: str, chunk_id: int, chunks: int, key: str | None) -> bytes:
    return keyed(key, b"x", number, uuid=uuid, chunk_id=chunk_id, num_chunks_from_msg=chunks)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_values, "BUFFER_BYTES", 48)
    monkeypatch.setattr(passes, "BUFFER_BYTES", 32)
    monkeypatch.setattr(last_values, "KEYS_MAX", 3)


KEYED = st.tuples(st.sampled_from([None, "", *(f"key-{number}" for number in range(40))]), st.sampled_from([b"", b"1", b"2"]))


@pytest.mark.usefixtures("small")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(st.one_of(st.lists(KEYED, min_size=1, max_size=8), KEYED), max_size=40), null_keys=st.booleans())
def test_compaction_keeps_what_a_dictionary_has(entries: list[list[Keyed] | Keyed], null_keys: bool) -> None:
    rules = CompactionRules(null_keys, 1 << 20)
    messages = [message for entry in entries for message in (entry if isinstance(entry, list) else [entry])]
    last = {key: number for number, (key, _) in enumerate(messages)}
    stays = [null_keys if key is None else last[key] == number and value != b"" for number, (key, value) in enumerate(messages)]
    frames = [batch(entry) if isinstance(entry, list) else keyed(*entry) for entry in entries]
    for _ in range(2):  # what is left of it gives the same again
        first = first_pass({}, rules)
        for frame in frames:
            first.see(frame)
        surviving = first.surviving()
        second = SecondPass(surviving, rules)
        frames = [kept for frame in frames if (kept := second.keep(frame)) is not None]
        survivors = [
            key
            for frame in frames
            for key, kind in zip(*_looked(frame), strict=True)
            if kind == 0 or (key is None and kind == 1)  # a message without a key and without content stays too
        ]
        expected = [key and key.encode() for (key, _), kept in zip(messages, stays, strict=True) if kept]
        assert [key or None for key in survivors] == [key or None for key in expected]
        assert len(surviving) == sum(stays)


def _looked(frame: bytes) -> tuple[list[bytes | None], list[int]]:
    looked = look_into(frame, 1 << 20)
    assert looked.keys is not None
    return list(looked.keys), list(looked.kinds)


@pytest.mark.usefixtures("small")
def test_a_part_with_too_many_keys_is_gone_through_several_times() -> None:
    files: dict[object, Pieces] = {}
    first = first_pass(files)
    frames = [batch([(f"key-{number}", b"v")]) for number in range(2_000)] * 2
    for frame in frames:
        first.see(frame)
    assert list(first.surviving()) == list(range(2_000, 4_000))
    assert max(file.reads for file in files.values()) > 3


@pytest.mark.usefixtures("small")
def test_chunks_seen_are_written_to_a_file() -> None:
    files: dict[object, Pieces] = {}
    first = first_pass(files)
    frames = [chunk(number, f"m{number // 5}", number % 5, 5, f"k{number // 10}") for number in range(100)]
    for frame in frames:
        first.see(frame)
    assert len(files["chunks"].pieces) == 40
    assert list(first.surviving()) == [number for number in range(100) if number % 10 >= 5]


def test_chunks_without_a_key_go_by_the_rule_for_those() -> None:
    for null_keys, kept in ((False, []), (True, [0, 1])):
        first = first_pass({}, CompactionRules(null_keys, 1 << 20))
        for number in range(2):
            first.see(chunk(number, "m", number, 2, None))
        assert list(first.surviving()) == kept


def test_a_topic_with_too_many_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "MESSAGES_MAX", 5)
    first = first_pass({})
    first.see(batch([("a", b"1")] * 5))
    with pytest.raises(NotAllowed, match="more than 5 messages"):
        first.see(keyed("a", b"1"))
