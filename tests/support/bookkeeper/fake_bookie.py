"""A bookie in the test's own event loop, which speaks the protocol over a socket and can be told to be slow, full or broken."""

from __future__ import annotations

import asyncio
import ssl
import struct
from dataclasses import dataclass, field

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core import plain_packets
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.core.plain_packets import is_plain
from messaging.bookkeeper.metadata.memory import MemoryMetadataStore
from messaging.bookkeeper.metadata.store import BookieAddress, MetadataStore


class FakeBookie:
    """`silent`: it takes requests and answers none. `refuses`: the status of every answer. `unanswered`: entries about
    which it says nothing. `requests` are all that came."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.entries: dict[int, dict[int, bytes]] = {}
        self.keys: dict[int, bytes] = {}
        self.fenced: set[int] = set()
        self.requests: list[pb.Request] = []
        self.silent = False
        self.unanswered: set[int] = set()
        self.garbage = False
        self.refuses: Status | None = None
        self.free_bytes = 1000
        self.name = ""
        self._context = context
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._port = 0

    async def start(self, store: MemoryMetadataStore, rack: str = "/default-rack") -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.name = f"127.0.0.1:{self._port}"
        store.register(BookieAddress(self.name, "127.0.0.1", self._port, rack=rack))

    async def stop(self) -> None:
        """As if it was killed: connections break. It stays registered, as it does until ZooKeeper notices."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                received = await reader.readexactly(size)
                plain = is_plain(received)
                request = _of_version_3(received) if plain else pb.Request.FromString(received)
                self.requests.append(request)
                if self.silent or (request.HasField("readRequest") and request.readRequest.entryId in self.unanswered):
                    continue
                response = self._answer(request)
                packet = _of_version_2(response) if plain else response.SerializeToString()
                if self.garbage:
                    packet = b"\x02garbage"
                writer.write(len(packet).to_bytes(4, "big") + packet)
                if request.header.operation == pb.START_TLS and self._context is not None:
                    await writer.start_tls(self._context)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _answer(self, request: pb.Request) -> pb.Response:
        operation = request.header.operation
        header = pb.Header(version=3, operation=operation, txnId=request.header.txnId)
        if operation == pb.ADD_ENTRY:
            add = request.addRequest
            status = self._add(add)
            response = pb.AddResponse(status=status, ledgerId=add.ledgerId, entryId=add.entryId)
            return pb.Response(header=header, status=status, addResponse=response)
        if operation == pb.READ_ENTRY:
            read = request.readRequest
            status, body = self._read(read)
            answer = pb.ReadResponse(status=status, ledgerId=read.ledgerId, entryId=read.entryId, body=body)
            return pb.Response(header=header, status=status, readResponse=answer)
        if operation == pb.GET_BOOKIE_INFO:
            info = pb.BookieInfoResponse(status=0, totalDiskCapacity=1000, freeDiskSpace=self.free_bytes)
            return pb.Response(header=header, status=0, getBookieInfoResponse=info)
        offered = Status.OK if self._context is not None else Status.BAD_REQUEST
        return pb.Response(header=header, status=offered.value, startTLSResponse=pb.Empty())

    def _key_is_wrong(self, ledger_id: int, key: bytes) -> bool:
        return self.keys.setdefault(ledger_id, key) != key

    def _add(self, add: pb.AddRequest) -> int:
        if self.refuses is not None:
            return self.refuses.value
        if self._key_is_wrong(add.ledgerId, add.masterKey):
            return Status.UNAUTHORIZED.value
        if add.ledgerId in self.fenced and add.flag != 1:
            return Status.FENCED.value
        self.entries.setdefault(add.ledgerId, {})[add.entryId] = add.body
        return 0

    def _read(self, read: pb.ReadRequest) -> tuple[int, bytes]:
        if self.refuses is not None:
            return self.refuses.value, b""
        if read.flag == 1:
            if self._key_is_wrong(read.ledgerId, read.masterKey):
                return Status.UNAUTHORIZED.value, b""
            self.fenced.add(read.ledgerId)
        entries = self.entries.get(read.ledgerId)
        if not entries:
            return Status.NO_LEDGER.value, b""
        body = entries.get(max(entries) if read.entryId == -1 else read.entryId)
        return (Status.NO_ENTRY.value, b"") if body is None else (0, body)


def _of_version_3(packet: bytes) -> pb.Request:
    """The same request: an add, or a read that does not fence."""
    if packet[1] == plain_packets.ADD:
        ledger_id, entry_id = struct.unpack_from(">qq", packet, 24)
        add = pb.AddRequest(ledgerId=ledger_id, entryId=entry_id, masterKey=packet[4:24], body=packet[24:])
        return pb.Request(header=pb.Header(version=2, operation=pb.ADD_ENTRY), addRequest=add)
    ledger_id, entry_id = struct.unpack_from(">qq", packet, 4)
    read = pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id)
    return pb.Request(header=pb.Header(version=2, operation=pb.READ_ENTRY), readRequest=read)


def _of_version_2(response: pb.Response) -> bytes:
    error = {0: 0, 402: 1, 403: 2, 404: 100}.get(response.status, response.status - 400)
    if response.HasField("addResponse"):
        add = response.addResponse
        return struct.pack(">BBHIqq", 2, plain_packets.ADD, 0, error, add.ledgerId, add.entryId)
    read = response.readResponse
    return struct.pack(">BBHIqq", 2, plain_packets.READ, 0, error, read.ledgerId, read.entryId) + read.body


@dataclass
class FakeCluster:
    store: MemoryMetadataStore = field(default_factory=lambda: MemoryMetadataStore(racks_path="/bookies"))
    bookies: dict[str, FakeBookie] = field(default_factory=dict)
    clients: list[BookkeeperClient] = field(default_factory=list)

    async def add(self, bookie: FakeBookie | None = None, rack: str = "/default-rack") -> FakeBookie:
        bookie = bookie or FakeBookie()
        await bookie.start(self.store, rack)
        self.bookies[bookie.name] = bookie
        return bookie

    async def client(self, store: MetadataStore | None = None, **settings: object) -> BookkeeperClient:
        client = BookkeeperClient(store or self.store, Config(**settings))  # type: ignore[arg-type]
        await client.start()
        self.clients.append(client)
        return client
