"""The metadata of a ledger, as it is in ZooKeeper: a line with the version of the format, then a protobuf message.

Version 3 has the message's size, then its bytes; version 2 has it as protobuf text. Both are read, 3 is written. A segment (a
fragment, in papers) says which bookies have the entries from its first one up to the next segment. Slot `i` of its ensemble has
entry `e` if `i` is one of (e + 0 .. e + write quorum - 1) modulo the size of the ensemble.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from google.protobuf.message import DecodeError

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.core.entries import NO_ENTRY, DigestType
from messaging.bookkeeper.errors import InvalidArgument, MalformedMetadata

_MAGIC = b"BookieMetadataFormatVersion\t"
METADATA_BYTES_MAX = 1 << 20  # ZooKeeper's own limit of a node
ENSEMBLE_MAX = 64
CUSTOM_METADATA_BYTES_MAX = 64 * 1024


class LedgerState(IntEnum):
    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """`ensemble[i]` is the id of the bookie in slot i."""

    first_entry_id: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """`last_entry_id` and `length` (bytes of all payloads) are final once it is closed, and mean nothing before.

    `version` is what the metadata store compares: None for one that was not stored. `unknown` are fields of later releases.
    """

    ledger_id: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry_id: int = NO_ENTRY
    length: int = 0
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = b""
    created_ms: int = -1
    custom: Mapping[str, bytes] = field(default_factory=dict)
    creator_token: int | None = None
    version: int | None = None
    unknown: bytes = b""

    @property
    def last_segment(self) -> Segment:
        return self.segments[-1]

    @property
    def is_closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    def segment_of(self, entry_id: int) -> Segment:
        """The segment with the largest first entry that is not above `entry_id`."""
        for segment in reversed(self.segments):
            if segment.first_entry_id <= entry_id:
                return segment
        raise MalformedMetadata(f"ledger {self.ledger_id} has no segment for entry {entry_id}", self.ledger_id)

    def write_set(self, entry_id: int) -> list[int]:
        """The slots that have the entry."""
        return [(entry_id + position) % self.ensemble_size for position in range(self.write_quorum)]

    def read_set(self, entry_id: int) -> list[int]:
        """The same in the order in which they are asked for it. Where each bookie has every entry, one is asked for all of the
        ledger: it has them in a row, and reads ahead by itself."""
        return self.write_set(entry_id if self.write_quorum < self.ensemble_size else self.ledger_id)

    def with_segment(self, segment: Segment) -> LedgerMetadata:
        """With other bookies from an entry on. A last segment that begins with the same entry has none and is replaced."""
        kept = self.segments[:-1] if self.last_segment.first_entry_id >= segment.first_entry_id else self.segments
        return replace(self, segments=(*kept, segment))

    def closed_at(self, last_entry_id: int, length: int) -> LedgerMetadata:
        """A last segment that no entry reached goes, as long as there is another one."""
        kept = self.segments
        if len(kept) > 1 and kept[-1].first_entry_id > last_entry_id:
            kept = kept[:-1]
        return replace(self, state=LedgerState.CLOSED, last_entry_id=last_entry_id, length=length, segments=kept)

    def same_content(self, other: LedgerMetadata) -> bool:
        return replace(self, version=None) == replace(other, version=None)

    def encode(self) -> bytes:
        """Raises `InvalidArgument` if the metadata store could not keep it."""
        message = pb.LedgerMetadataFormat()
        if self.unknown:
            message.MergeFromString(self.unknown)
        message.quorumSize, message.ensembleSize, message.ackQuorumSize = self.write_quorum, self.ensemble_size, self.ack_quorum
        message.length, message.lastEntryId = self.length, self.last_entry_id
        message.state = pb.LedgerMetadataFormat.State.Value(self.state.name)  # type: ignore[assignment]
        message.digestType = pb.LedgerMetadataFormat.DigestType.Value(self.digest_type.name)  # type: ignore[assignment]
        message.password, message.ctime = self.password, self.created_ms
        for segment in self.segments:
            message.segment.add(firstEntryId=segment.first_entry_id, ensembleMember=segment.ensemble)
        for key, value in sorted(self.custom.items()):
            message.customMetadata.add(key=key, value=value)
        if self.creator_token is not None:
            message.cToken = self.creator_token
        body = message.SerializeToString()
        encoded = _MAGIC + b"3\n" + _delimiter(len(body)) + body
        if len(encoded) > METADATA_BYTES_MAX:
            raise InvalidArgument(f"metadata of {len(encoded)} bytes is above the limit of {METADATA_BYTES_MAX}", self.ledger_id)
        return encoded

    @classmethod
    def decode(cls, ledger_id: int, data: bytes, version: int | None = None) -> LedgerMetadata:
        """Raises `MalformedMetadata`."""
        message = _parse(ledger_id, data)
        segments = tuple(Segment(segment.firstEntryId, tuple(segment.ensembleMember)) for segment in message.segment)
        ack_quorum = message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize
        metadata = cls(
            ledger_id=ledger_id,
            ensemble_size=message.ensembleSize,
            write_quorum=message.quorumSize,
            ack_quorum=ack_quorum,
            segments=segments,
            state=LedgerState(message.state),
            last_entry_id=message.lastEntryId if message.HasField("lastEntryId") else NO_ENTRY,
            length=message.length,
            digest_type=DigestType(message.digestType) if message.HasField("digestType") else DigestType.HMAC,
            password=message.password,
            created_ms=message.ctime if message.HasField("ctime") else -1,
            custom={item.key: item.value for item in message.customMetadata},
            creator_token=message.cToken if message.HasField("cToken") else None,
            version=version,
            unknown=_unknown_fields(message),
        )
        metadata._check()
        return metadata

    def _check(self) -> None:
        wrong = None
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble_size:
            wrong = (
                f"quorums {self.ensemble_size}/{self.write_quorum}/{self.ack_quorum} (ensemble, write, ack) contradict each other"
            )
        elif not self.segments or self.segments[0].first_entry_id != 0:
            wrong = "no segment begins with entry 0"
        elif any(len(segment.ensemble) != self.ensemble_size for segment in self.segments):
            wrong = f"a segment has not the {self.ensemble_size} bookies of an ensemble"
        elif any(
            later.first_entry_id <= former.first_entry_id for former, later in zip(self.segments, self.segments[1:], strict=False)
        ):
            wrong = "segments are not in the order of their first entries"
        if wrong:
            raise MalformedMetadata(f"metadata of ledger {self.ledger_id} is of no use: {wrong}", self.ledger_id)


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Raises `InvalidArgument`."""
    if not 1 <= ack_quorum <= write_quorum <= ensemble_size <= ENSEMBLE_MAX:
        raise InvalidArgument(
            f"ensemble {ensemble_size}, write quorum {write_quorum}, ack quorum {ack_quorum}: none may be below 1 or above "
            f"the one before, and the ensemble not above {ENSEMBLE_MAX}"
        )


def _delimiter(size: int) -> bytes:
    encoded = bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)


def _parse(ledger_id: int, data: bytes) -> pb.LedgerMetadataFormat:
    line, newline, rest = data.partition(b"\n")
    if not newline or not line.startswith(_MAGIC):
        raise MalformedMetadata(f"metadata of ledger {ledger_id} does not begin with the version of its format", ledger_id)
    format_version = line.removeprefix(_MAGIC)
    try:
        if format_version == b"3":
            size, start = 0, 0
            while True:
                byte = rest[start]
                size |= (byte & 0x7F) << (7 * start)
                start += 1
                if byte < 0x80:
                    break
            if len(rest) - start < size:
                raise MalformedMetadata(f"metadata of ledger {ledger_id} is cut off", ledger_id)
            return pb.LedgerMetadataFormat.FromString(rest[start : start + size])
        if format_version == b"2":
            from google.protobuf import text_format  # only ledgers of old releases need it

            message = pb.LedgerMetadataFormat()
            text_format.Parse(rest.decode(), message, allow_unknown_field=True)
            return message
    except (DecodeError, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedMetadata(f"metadata of ledger {ledger_id} cannot be read: {error}", ledger_id) from error
    except Exception as error:
        if type(error).__name__ != "ParseError":  # of `text_format`, which is imported above
            raise
        raise MalformedMetadata(f"metadata of ledger {ledger_id} cannot be read: {error}", ledger_id) from error
    shown = format_version[:20].decode(errors="replace")
    raise MalformedMetadata(f"metadata of ledger {ledger_id} has the format version {shown!r}; 2 and 3 are known", ledger_id)


def _unknown_fields(message: pb.LedgerMetadataFormat) -> bytes:
    """The fields that this release does not know, as bytes."""
    stripped = pb.LedgerMetadataFormat()
    stripped.CopyFrom(message)
    for descriptor, _ in message.ListFields():
        stripped.ClearField(descriptor.name)
    return stripped.SerializePartialToString()
