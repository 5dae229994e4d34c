"""One connection to one bookie: who is answered by what, and when it is given up."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core.entries import Digest, DigestType
from messaging.bookkeeper.core.packets import Answer, Status
from messaging.bookkeeper.core.plain_packets import Asked
from messaging.bookkeeper.shell.connection import BookieConnection, PlainConnection
from tests.support.bookkeeper.fake_bookie import FakeBookie, FakeCluster
from tests.support.waiting import eventually


async def _connected(
    bookie: FakeBookie, config: Config, lost: list[str], kind: type[BookieConnection] = BookieConnection
) -> BookieConnection:
    host, _, port = bookie.name.partition(":")
    _, connection = await asyncio.get_running_loop().create_connection(lambda: kind(config, lost.append), host, int(port))
    return connection


async def test_p4_an_answer_that_comes_too_late_answers_nothing_else(cluster: FakeCluster) -> None:
    bookie = next(iter(cluster.bookies.values()))
    lost: list[str] = []
    connection = await _connected(bookie, Config(request_timeout_s=0.05), lost)
    answers: list[Answer] = []
    bookie.silent = True
    connection.read(1, 2, None, answers.append)
    await eventually(lambda: answers)
    assert answers[0].status is Status.TIMED_OUT
    late = pb.Response(header=pb.Header(version=3, operation=pb.READ_ENTRY, txnId=answers[0].txn_id), status=0)
    late.readResponse.status, late.readResponse.ledgerId, late.readResponse.entryId, late.readResponse.body = 0, 1, 2, b"unfenced"
    packet = late.SerializeToString()
    connection.read(1, 2, b"key", answers.append)
    connection.data_received(len(packet).to_bytes(4, "big") + packet)
    assert len(answers) == 1, "the fencing read of the same entry is still not answered"
    connection.close()
    assert [answer.status for answer in answers] == [Status.TIMED_OUT, Status.CONNECTION_LOST] and len(lost) == 1


async def test_plain_requests_for_the_same_have_the_same_answer(cluster: FakeCluster) -> None:
    """Version 2 has no transaction ids. A late answer answers whoever asks the same."""
    bookie = next(iter(cluster.bookies.values()))
    lost: list[str] = []
    connection = await _connected(bookie, Config(request_timeout_s=0.05), lost, PlainConnection)
    answers: list[Answer] = []
    bookie.silent = True
    connection.read(1, 2, None, answers.append)
    await eventually(lambda: answers)
    assert answers[0].status is Status.TIMED_OUT
    (body,) = Digest(DigestType.DUMMY, b"").pack(1, 2, 1, 5, b"hello")
    connection.read(1, 2, None, answers.append)
    connection.read(1, 2, None, answers.append)
    connection.read(1, 3, None, answers.append)
    connection.add(1, 2, b"", (body,), False, answers.append)
    packet = bytes.fromhex("02020000" + "00000000" + "0000000000000001" + "0000000000000002") + body
    connection.data_received((len(packet).to_bytes(4, "big") + packet) * 2)
    assert [(answer.status, answer.body) for answer in answers[1:]] == [(Status.OK, body)] * 2
    assert connection.outstanding_bytes == len(body), "the add of the same entry is not answered by a read"
    connection.close()
    assert [answer.status for answer in answers[3:]] == [Status.CONNECTION_LOST] * 2 and len(lost) == 1


async def test_what_a_bookie_never_answers_is_not_kept(cluster: FakeCluster) -> None:
    """Each request that timed out left what it waited for behind, for as long as the connection was there."""
    bookie = next(iter(cluster.bookies.values()))
    connection = await _connected(bookie, Config(request_timeout_s=0.05), [], PlainConnection)
    answers: list[Answer] = []
    bookie.silent = True
    for entry_id in range(50):
        connection.read(1, entry_id, None, answers.append)
        connection.read(1, 7, None, answers.append)
    await eventually(lambda: len(answers) == 100)
    assert {answer.status for answer in answers} == {Status.TIMED_OUT}
    gc.collect()
    assert not any(type(each) is Asked for each in gc.get_objects())
    connection.close()


async def test_a_bookie_that_breaks_the_protocol_is_left(cluster: FakeCluster) -> None:
    bookie = next(iter(cluster.bookies.values()))
    lost: list[str] = []
    connection = await _connected(bookie, Config(), lost)
    bookie.garbage = True
    answers: list[Answer] = []
    connection.disk_space(answers.append)
    await eventually(lambda: lost)
    assert answers[0].status is Status.CONNECTION_LOST and "no response of version 3" in lost[0]
    connection.read(1, 1, None, answers.append)
    assert answers[1].status is Status.CONNECTION_LOST


async def test_a_connection_through_which_nothing_comes_ends_so_that_a_new_one_is_made() -> None:
    """After a cut of the network TCP sends again ever more rarely: for half a minute more the bookie was not reached."""
    taken = list[asyncio.StreamWriter]()

    async def stands_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        taken.append(writer)

    async with await asyncio.start_server(stands_still, "127.0.0.1", 0) as server:
        lost: list[str] = []
        port = server.sockets[0].getsockname()[1]
        config = Config(request_timeout_s=0.3, bookie_bytes_max=1 << 30)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: BookieConnection(config, lost.append), "127.0.0.1", port
        )
        answers: list[Answer] = []
        for entry_id in range(16):
            connection.add(1, entry_id, b"", (bytes(1 << 20),), False, answers.append)
        await eventually(lambda: lost)
        assert "timed out" in lost[0].lower() and connection.closed and len(answers) == 16
        for writer in taken:
            writer.transport.abort()


async def test_a_system_without_that_limit_of_tcp_connects_all_the_same(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of Linux."""
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context["message"]))
    connection = await _connected(next(iter(cluster.bookies.values())), Config(), [])
    answers: list[Answer] = []
    connection.disk_space(answers.append)
    await eventually(lambda: answers)
    assert answers[0].status is Status.OK and not failed
    connection.close()
