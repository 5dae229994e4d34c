"""The HTTP server of the broker and of the web process: uvicorn, with limits that uvicorn does not have.

connection_slots.py   which connections may stay open, and which are closed to make room (pure)
transfer_rate.py      the rate at which a peer must send and receive (pure)
unread_responses.py   limits on responses that peers do not read (pure)
protocol.py           one HTTP connection: deadlines and limits
websocket.py          one WebSocket: limits on what is read before the application takes it
tunnel.py             WebSockets below a path that another listener serves: bytes are passed on
tunnel_slots.py       how many of these there may be, and how many of one address (pure)
request_queue.py      which requests run and which wait; health checks come first
tls.py                a TLS listener that limits handshakes
samples.py            metrics of a listener
server.py             uvicorn inside an event loop of ours
"""

import sys

from messaging.lean_imports import replaced

if "uvicorn" not in sys.modules:
    # Its command line and its supervisors of processes bring click and multiprocessing: 2 MiB that no listener needs. The server
    # itself is `uvicorn.server.Server`.
    with replaced("uvicorn.main", Server=None, main=None, run=None):
        import uvicorn  # noqa: F401
