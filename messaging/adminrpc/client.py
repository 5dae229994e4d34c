"""The synchronous client of the admin RPC, for web, workers and command line. Blocks; never call it on an event loop.

One kept-alive connection per thread. The broker's URL is asked for again whenever a connection is made, because a broker that
restarts may listen on another port. A connection that the broker closed meanwhile is noticed before anything is sent; one that
breaks during the call is tried once more, unless the call is not idempotent: then nobody knows whether it happened.
"""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import msgspec
import structlog

from messaging import errors
from messaging.adminrpc.base import A, Method, R, Request
from messaging.adminrpc.calls import SMALL, Standing, TypedCalls
from messaging.caller import current_caller
from messaging.internal_tls import InternalClientTls, require_service
from messaging.json_types import decoder_of
from messaging.local_caller import is_loopback
from messaging.settings import INTERNAL_TLS

log = structlog.get_logger("adminrpc")
ANSWER_BYTES_MAX = 64 << 20
TRIED_MAX = 4  # brokers, for one call


class _ErrorAnswer(msgspec.Struct):
    code: str = "internal"
    message: str = ""
    change: str = ""


class _Unreachable(Exception):
    """No connection could be made. The text is for people."""


class _Broken(Exception):
    """The connection ended before an answer came."""


@dataclass(frozen=True, eq=False)
class _UnderWay:
    """`connection` None: it is being made. `changes`: another broker is not asked in place of this one."""

    url: str
    since_s: float
    connection: http.client.HTTPConnection | None
    changes: bool


def _what_then(method: Method[R, A]) -> str:
    if not method.idempotent:
        return "whether it was done is not known; look before you do it again"
    return "try again in a moment; doing it twice does no harm"


THOUSANDS_TIMEOUT_S = 60.0  # that of `pulsar-admin` for an answer; whoever leaves before ends the work
THOUSANDS_TIMES = 6  # the usual time-out, at most: a broker that asks another waits less for it than who asked it


class AdminRpc(TypedCalls):
    """Calls methods of the admin RPC. Thread-safe; survives a fork.

    `url_provider` returns ``http://host:port``, `token_provider` the bearer token of our service identity; both are called as
    needed, so they may cache. `timeout_s` bounds each wait for the broker, but those for figures of thousands of partitions.
    `tls`: the broker is spoken to over mutual TLS, and no other way; None: on this machine. `did_not_answer` is told the address of
    a broker that cannot be reached or does not answer in time, so that `url_provider` may choose another. `avoids`: whether the
    broker at this address is to be left alone, so that a connection to it is not used again. `name_of`: what errors call the broker
    at an address. They reach members of tenants, whom its address does not concern; operators find that in the log.
    """

    def __init__(
        self,
        url_provider: Callable[[], str],
        token_provider: Callable[[], str],
        timeout_s: float = 10.0,
        tls: InternalClientTls | None = None,
        did_not_answer: Callable[[str], None] = lambda url: None,
        avoids: Callable[[str], bool] = lambda url: False,
        name_of: Callable[[str], str] = lambda url: "the broker",
    ) -> None:
        self._name_of = name_of
        self._did_not_answer = did_not_answer
        self._avoids = avoids
        self._url_provider = url_provider
        self._token_provider = token_provider
        self.timeout_s = timeout_s
        self._tls = tls
        self._local = threading.local()
        self._lock = threading.Lock()
        self._under_way: set[_UnderWay] = set()
        self._given_up = False

    def give_up(self) -> None:
        """Ends what is under way, from another thread, and for good: nobody waits for answers any more. What a broker that stands
        still has not begun by then it never does."""
        with self._lock:
            self._given_up = True
            for call in self._under_way:
                if call.connection is not None:
                    end_exchange(call.connection)

    def perform(self, method: Method[R, A], request: R) -> A:
        """One call. Raises the broker's error, or `NotReady` if the broker cannot be reached or does not answer in time."""
        body = msgspec.json.encode(request)
        try:
            status, content = self._exchange(method, body)
        except _Broken:
            if self._given_up:
                raise errors.NotReady(f"nobody waits for the answer to {method.name} any more") from None
            if not method.idempotent:
                raise errors.NotReady(f"the connection to the broker was lost during {method.name}: {_what_then(method)}") from None
            try:
                status, content = self._exchange(method, body)
            except _Broken as broken:
                raise errors.NotReady(f"the broker closed the connection twice during {method.name}: {broken}; try again") from None
        return decode_answer(method, status, content)

    def look(self, waited_s: float, within_s: float) -> Standing:
        """A broker that is silent is left alone. What it was asked is asked of another one, but for changes: it may make them yet,
        and of something that was made anew meanwhile."""
        before_s = time.monotonic() - waited_s
        with self._lock:
            waited_for = {call.url for call in self._under_way if call.since_s <= before_s}
        silent = [url for url in waited_for or (self._url_provider(),) if self._is_silent(url, within_s)]
        for url in silent:
            self._did_not_answer(url)
        if not silent:
            return Standing.ANSWERS
        another = self._url_provider()
        if another in silent:
            return Standing.SILENT
        with self._lock:  # a connection whose call is over may be another call's next
            for call in self._under_way:
                if call.url in silent and call.connection is not None and not call.changes:
                    end_exchange(call.connection)
        return Standing.SILENT if self._is_silent(another, within_s) else Standing.ASKED_ANOTHER

    def _is_silent(self, url: str, within_s: float) -> bool:
        unanswered: list[str] = []
        client = AdminRpc(lambda: url, self._token_provider, within_s, self._tls, unanswered.append)
        with closing(client), suppress(errors.MagnetarError):  # which is an answer, unless there was none
            client.perform(SMALL, Request())
        return bool(unanswered)

    @contextmanager
    def _waiting(self, url: str, connection: http.client.HTTPConnection | None = None, *, changes: bool = False) -> Iterator[None]:
        call = _UnderWay(url, time.monotonic(), connection, changes)
        with self._lock:
            self._under_way.add(call)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.remove(call)

    def close(self) -> None:
        """Closes this thread's connection; the next call opens another."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    def _exchange(self, method: Method[R, A], body: bytes) -> tuple[int, bytes]:
        connection, url = self._connection()
        thousands_s = max(self.timeout_s, min(THOUSANDS_TIMEOUT_S, THOUSANDS_TIMES * self.timeout_s))
        timeout_s = thousands_s if method.thousands else self.timeout_s
        connection.sock.settimeout(timeout_s)
        headers = {"Authorization": f"Bearer {self._token_provider()}", "Content-Type": "application/json"}
        caller = current_caller()
        # A change goes on without its caller, to its end and to its record in the audit log.
        ending = caller.ending(partial(end_exchange, connection)) if method.long_read else nullcontext()
        try:
            with ending, self._waiting(url, connection, changes=not method.changes_nothing):
                if self._given_up:
                    raise http.client.HTTPException
                connection.request("POST", f"/rpc/v1/{method.name}", body, headers)
                response = connection.getresponse()
                content = response.read(ANSWER_BYTES_MAX + 1)
        except TimeoutError:
            self.close()
            self._did_not_answer(url)
            raise errors.NotReady(
                f"{self._name_of(url)} did not respond to {method.name} within {timeout_s:g} s: {_what_then(method)}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if caller.left:
                raise errors.NotReady(f"the caller left before the answer to {method.name}") from None
            raise _Broken(type(error).__name__) from None
        except BaseException:  # an interrupt leaves half an exchange behind
            self.close()
            raise
        if len(content) > ANSWER_BYTES_MAX:
            self.close()
            raise errors.MagnetarError(f"the broker's response to {method.name} is longer than {ANSWER_BYTES_MAX} bytes")
        if response.will_close:
            self.close()
        return response.status, content

    def _connection(self) -> tuple[http.client.HTTPConnection, str]:
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is not None and self._local.pid == os.getpid() and not _ended(kept) and not self._avoids(self._local.url):
            return kept, self._local.url
        self.close()
        tried: list[str] = []
        while True:
            url = self._url_provider()
            try:
                with self._waiting(url):
                    connection = self._connect(url)
                break
            except _Unreachable as error:
                self._did_not_answer(url)
                tried.append(url)
                if len(tried) == TRIED_MAX or self._url_provider() in tried:
                    raise errors.NotReady(str(error)) from None
        self._local.connection, self._local.url, self._local.pid = connection, url, os.getpid()
        return connection, url

    def _connect(self, url: str) -> http.client.HTTPConnection:
        """Raises `_Unreachable`, `NotReady`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            log.warning("broker.address_refused", rpc_url=url)
            raise errors.NotReady(
                f"the RPC address of {self._name_of(url)} is not an http:// or https:// URL: correct broker_rpc_url"
            )
        if (parts.scheme == "https") != (self._tls is not None) or (self._tls is None and not is_loopback(parts.hostname)):
            log.warning("broker.address_refused", rpc_url=url)
            raise errors.NotReady(
                f"the RPC address of {self._name_of(url)} and the settings of this process do not agree about TLS: set "
                f"{INTERNAL_TLS} for both, or for neither on one machine"
            )
        connection: http.client.HTTPConnection
        if self._tls is not None:
            context = self._tls.context()
            connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=self.timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.timeout_s)
        try:
            connection.connect()
            if isinstance(connection.sock, ssl.SSLSocket):
                require_service(connection.sock, "broker", self._name_of(url))
        except errors.NotReady:
            connection.close()
            raise
        except OSError as error:
            connection.close()
            raise _Unreachable(
                f"{self._name_of(url)} is not responding ({error.strerror or error}): check that it is running, and try again"
            ) from None
        return connection


def end_exchange(connection: http.client.HTTPConnection) -> None:
    """Ends the exchange under way, from another thread: the broker notices, and ends the work. TLS is not taken off the socket, as
    its own `shutdown` does first: the other thread would go on without it."""
    sock: socket.socket | None = connection.sock  # which the other thread takes away when the answer ends the connection
    if sock is not None:
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the other side closed a connection at rest: nothing is due on it, so anything to read is its end."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def decode_answer(method: Method[R, A], status: int, content: bytes) -> A:
    """What an HTTP response of the broker says: the answer, or the error that it raises."""
    if status != 200:
        raise _error_of(status, content)
    try:
        return decoder_of(method.answer).decode(content)
    except msgspec.DecodeError as error:
        raise errors.MagnetarError(f"the broker's response to {method.name} is not valid: {error}") from None


def _error_of(status: int, content: bytes) -> errors.MagnetarError:
    try:
        answer = decoder_of(_ErrorAnswer).decode(content)
    except msgspec.DecodeError:
        answer = _ErrorAnswer(message=f"the broker answered with HTTP status {status}")
    error = errors.from_code(answer.code, answer.message)
    return error.of(answer.change) if isinstance(error, errors.UnderWay) else error
