"""The data plane and its client SDK: everything that carries messages. Imports no Django and no Celery.

- `protocol/`       bytes in, events out: frames, hot loops, names (no I/O)
- `storage/`        the interfaces `LedgerStore` and `MetaStore`, and their implementations
- `broker/core/`    decisions as pure functions of state, input and time
- `broker/runtime/` the asyncio shell: connections, topics, the admin RPC
- `broker/http/`    the broker's HTTP and WebSocket listeners
- `http_server/`    uvicorn with limits, for broker and web
- `permissions/`    the permission table; `policies/` and `limits/` the other tables
- `adminrpc/`       the typed interface between web, workers and brokers
- `client/`         the SDK
"""
