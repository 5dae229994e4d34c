"""The metadata of ledgers: what is stored, what is refused, and where."""

from __future__ import annotations

import pytest

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.core.entries import DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState, Segment, check_quorums
from messaging.bookkeeper.core.paths import Layout, ledger_id_of
from messaging.bookkeeper.errors import InvalidArgument, MalformedMetadata, UnsupportedLayout

METADATA = LedgerMetadata(
    5, 3, 2, 2, (Segment(0, ("a:1", "b:1", "c:1")), Segment(10, ("a:1", "d:1", "c:1"))), custom={"k": b"v"}, creator_token=77
)
TEXT = b"""BookieMetadataFormatVersion\t2
quorumSize: 2
ensembleSize: 3
length: 11
lastEntryId: 4
state: CLOSED
segment {
  ensembleMember: "a:1"
  ensembleMember: "b:1"
  ensembleMember: "c:1"
  firstEntryId: 0
}
digestType: CRC32
password: "pw"
ackQuorumSize: 2
"""


def test_metadata_is_read_as_it_was_written() -> None:
    assert LedgerMetadata.decode(5, METADATA.encode(), 9).same_content(METADATA)
    assert LedgerMetadata.decode(5, METADATA.encode(), 9).version == 9
    assert METADATA.encode().startswith(b"BookieMetadataFormatVersion\t3\n")


def test_the_text_of_old_releases_is_read() -> None:
    metadata = LedgerMetadata.decode(5, TEXT)
    assert (metadata.state, metadata.last_entry_id, metadata.length) == (LedgerState.CLOSED, 4, 11)
    assert (metadata.digest_type, metadata.password) == (DigestType.CRC32, b"pw")
    assert metadata.last_segment.ensemble == ("a:1", "b:1", "c:1")


def test_fields_of_later_releases_are_kept() -> None:
    line, _, rest = METADATA.encode().partition(b"\n")
    message = rest[2 if rest[0] >= 0x80 else 1 :] + b"\xf2\x07\x05later"  # field 126
    size = bytes([len(message) & 0x7F | 0x80, len(message) >> 7]) if len(message) > 127 else bytes([len(message)])
    metadata = LedgerMetadata.decode(5, line + b"\n" + size + message)
    assert b"later" in metadata.closed_at(3, 4).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin with the version"),
        (b"something else\n", "does not begin with the version"),
        (b"BookieMetadataFormatVersion\t4\nxyz", "format version '4'; 2 and 3 are known"),
        (b"BookieMetadataFormatVersion\t3\n", "cannot be read"),
        (b"BookieMetadataFormatVersion\t3\n\x7fabc", "cut off"),
        (b"BookieMetadataFormatVersion\t3\n\x03abc", "cannot be read"),
        (b"BookieMetadataFormatVersion\t2\nstate: NONSENSE", "cannot be read"),
        (TEXT.replace(b"ackQuorumSize: 2", b"ackQuorumSize: 3"), "quorums 3/2/3"),
        (TEXT.replace(b"firstEntryId: 0", b"firstEntryId: 1"), "no segment begins with entry 0"),
        (TEXT.replace(b"ensembleSize: 3", b"ensembleSize: 4"), "has not the 4 bookies"),
    ],
)
def test_metadata_of_no_use_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(MalformedMetadata, match=said) as raised:
        LedgerMetadata.decode(5, data)
    assert raised.value.ledger_id == 5


def test_p15_slots_are_computed_from_the_whole_id() -> None:
    metadata = LedgerMetadata(1, 5, 3, 2, (Segment(0, tuple("abcde")),))
    assert [metadata.write_set(entry) for entry in (0, 3, 2**40 + 1)] == [[0, 1, 2], [3, 4, 0], [2, 3, 4]]


def test_an_entry_lies_in_the_last_segment_that_begins_before_it() -> None:
    assert [METADATA.segment_of(entry).first_entry_id for entry in (0, 9, 10, 11)] == [0, 0, 10, 10]


def test_a_segment_without_entries_is_replaced_and_goes_at_the_end() -> None:
    changed = METADATA.with_segment(Segment(10, ("e:1", "d:1", "c:1")))
    assert [segment.first_entry_id for segment in changed.segments] == [0, 10]
    assert [segment.first_entry_id for segment in changed.closed_at(9, 1).segments] == [0]
    assert [segment.first_entry_id for segment in changed.closed_at(10, 1).segments] == [0, 10]
    assert LedgerMetadata(1, 1, 1, 1, (Segment(0, ("a",)),)).closed_at(-1, 0).segments == (Segment(0, ("a",)),)


@pytest.mark.parametrize("quorums", [(3, 2, 0), (3, 2, 3), (2, 3, 1), (65, 3, 2)])
def test_quorums_that_contradict_each_other_are_refused(quorums: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument, match="ack quorum"):
        check_quorums(*quorums)


def test_metadata_that_no_node_can_have_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="above the limit"):
        LedgerMetadata(1, 1, 1, 1, (Segment(0, ("a",)),), custom={"k": bytes(1 << 20)}).encode()


PATHS = [
    (1, "/00/0000/L0001"),
    (2147483646, "/21/4748/L3646"),
    (2147483647, "/000/0000/0021/4748/L3647"),
    ((1 << 63) - 1, "/922/3372/0368/5477/L5807"),
]


@pytest.mark.parametrize(("ledger_id", "path"), PATHS)
def test_a_ledger_is_where_bookies_look_for_it(ledger_id: int, path: str) -> None:
    assert Layout().ledger(ledger_id) == path
    assert ledger_id_of(path) == ledger_id


def test_the_long_layout_has_five_levels_for_every_id() -> None:
    assert Layout(long_only=True).ledger(1) == "/000/0000/0000/0000/L0001"


@pytest.mark.parametrize("path", ["/idgen/ID-1", "/available/a:1", "/00/0000/X0001", "/00/0000/Labcd", "/0/1/L2"])
def test_other_nodes_are_no_ledgers(path: str) -> None:
    assert ledger_id_of(path) is None


@pytest.mark.parametrize("ledger_id", [-1, 1 << 63])
def test_what_is_no_ledger_id_is_refused(ledger_id: int) -> None:
    with pytest.raises(InvalidArgument, match="no ledger id"):
        Layout().ledger(ledger_id)


@pytest.mark.parametrize(
    ("manager", "long_only"), [("HierarchicalLedgerManagerFactory", False), ("LongHierarchicalLedgerManagerFactory", True)]
)
def test_p8_a_layout_that_is_known_is_used(manager: str, long_only: bool) -> None:
    assert Layout.parse(f"2\norg.apache.bookkeeper.meta.{manager}:1".encode()).long_only is long_only


@pytest.mark.parametrize("data", [b"", b"1\n", b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", b"3\nx:1", b"\xff"])
def test_p8_a_layout_that_is_not_known_is_refused(data: bytes) -> None:
    """A ledger under a path that bookies do not scan would be deleted by them."""
    with pytest.raises(UnsupportedLayout, match="the cluster's layout is"):
        Layout.parse(data)


def test_the_numbers_of_states_and_digests_are_those_of_the_protocol() -> None:
    assert {state.name: state.value for state in LedgerState} == dict(pb.LedgerMetadataFormat.State.items())
    assert {digest.name: digest.value for digest in DigestType} == dict(pb.LedgerMetadataFormat.DigestType.items())
