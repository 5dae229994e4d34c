"""An exchange over TLS that another thread ends stays one over TLS: what it goes on reading is no ciphertext."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import closing, suppress

import trustme

from messaging.adminrpc.client import end_exchange


def test_what_arrived_before_an_exchange_was_ended_is_still_read_through_tls() -> None:
    authority = trustme.CA()
    there, here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("broker.example").configure_cert(there)
    authority.configure_trust(here)
    ours, theirs = socket.socketpair()
    arrived = threading.Event()

    def answer() -> None:
        with there.wrap_socket(theirs, server_side=True) as sock:
            for _ in range(3):  # records of TLS, which are read one by one
                sock.sendall(b"x" * 1_000)
            arrived.set()
            with suppress(OSError):
                sock.recv(1)

    broker = threading.Thread(target=answer)
    broker.start()
    connection = http.client.HTTPSConnection("broker.example", context=here)
    connection.sock = here.wrap_socket(ours, server_hostname="broker.example")
    with closing(connection):
        assert connection.sock.recv(1) == b"x" and arrived.wait(60)
        end_exchange(connection)
        rest = b""
        with suppress(OSError):
            while part := connection.sock.recv(4096):
                rest += part
        assert rest.strip(b"x") == b""
    broker.join()
    end_exchange(connection)  # of one that is closed it is nothing
