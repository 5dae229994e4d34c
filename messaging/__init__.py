"""The data plane and its client SDK: what carries messages. Imports no Django and no Celery.

- `protocol/`     bytes in, events out: frames, the hot loops, names (no I/O)
- `storage/`      the two seams to storage, `LedgerStore` and `MetaStore`, and what stands behind them
- `broker/core/`  decisions as pure functions of state, input and time
- `broker/runtime/` the asyncio shell: sockets, topics' owners, the admin RPC
- `permissions/`  the one permission table
- `adminrpc/`     the typed interface between web, workers and brokers
- `client/`       the SDK
"""
