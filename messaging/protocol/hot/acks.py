"""Loops that run once for each acknowledgement received. The package docstring states the rules."""

from __future__ import annotations

COMPILED = not __file__.endswith(".py")

ALL = 1 << 30  # ids: more than any read can contain
ACK_IDS_MAX = 1024  # of one frame; clients that gather acknowledgements send up to 1,000


def scan_acks(buf: bytes, pos: int, end: int, out: list[tuple[int, int, int]], most: int = ALL) -> int:
    """Appends (consumer id, ledger id, entry id) for each id of the plain individual ACK frames from `pos` on, until `out` has
    `most`, or with the last frame up to `ACK_IDS_MAX` more; returns where it stopped. Plain: message ids without ack sets, which
    mean the whole entry whatever the batch index says; no request id, no transaction. The first frame of any other shape ends the
    run and goes through protobuf.
    """
    taken = len(out)
    while end - pos >= 16 and taken < most:
        high = buf[pos]  # a separate variable: in C, a byte of 128 or more shifted by 24 would be negative
        stop = pos + 4 + ((high << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3])
        if stop > end or stop < pos + 16 or buf[pos + 8] != 8 or buf[pos + 9] != 10 or buf[pos + 10] != 82:
            break
        high = buf[pos + 4]
        size = (high << 24) | (buf[pos + 5] << 16) | (buf[pos + 6] << 8) | buf[pos + 7]
        i = pos + 12
        body = buf[pos + 11]
        if body >= 128:  # several ids: two or three bytes
            body = body & 127 | (buf[pos + 12] & 127) << 7
            i += 1
            if buf[pos + 12] >= 128:
                body |= buf[pos + 13] << 14
                i += 1
                if buf[pos + 13] >= 128:
                    break
        if pos + 8 + size != stop or i + body != stop:
            break
        consumer_id = 0
        ledger_id = -1
        entry_id = -1
        inner = 0
        plain = True
        ids = 0
        while i < stop:
            key = buf[i]
            i += 1
            if i < stop and buf[i] < 128:
                value = buf[i]
                i += 1
            else:
                value = 0
                shift = 0
                byte = 128
                while i < stop:
                    byte = buf[i]
                    i += 1
                    value |= (byte & 127) << shift
                    shift += 7
                    if byte < 128 or shift > 63:
                        break
                if byte >= 128 or (shift > 63 and byte > 1):  # unterminated, or more than 64 bits
                    plain = False
                    break
            if inner == 0:
                if key == 8 and not ids:
                    consumer_id = value
                elif key == 16 and value == 0:
                    pass
                elif key == 26 and 0 < value <= stop - i and ids < ACK_IDS_MAX:
                    inner = i + value
                    ledger_id = -1
                    entry_id = -1
                else:
                    plain = False
                    break
            elif value >> 63 and key <= 16:  # in C, such a ledger or entry id would be negative, as if there were none yet
                plain = False
                break
            elif key == 8:
                ledger_id = value
            elif key == 16:
                entry_id = value
            elif key != 24 and key != 32 and key != 48:
                plain = False
                break
            if inner and i >= inner:
                if i > inner or ledger_id < 0 or entry_id < 0:
                    plain = False
                    break
                inner = 0
                ids += 1
                out.append((consumer_id, ledger_id, entry_id))
        if not plain or not ids or inner:
            del out[taken:]
            break
        taken += ids
        pos = stop
    return pos


def group_acks(acked: list[tuple[int, int, int]]) -> dict[tuple[int, int], list[int]]:
    """Entry ids by (consumer id, ledger id), in the order received. Nearly always there is only one such key."""
    groups: dict[tuple[int, int], list[int]] = {}
    consumer_id, ledger_id, group = -1, -1, list[int]()
    for consumer, ledger, entry in acked:
        if ledger != ledger_id or consumer != consumer_id or not group:
            consumer_id, ledger_id = consumer, ledger
            group = groups.setdefault((consumer_id, ledger_id), [])
        group.append(entry)
    return groups
