"""Every field that a peer may fill has a limit: one table, in a module for each way in.

    binary.py     each field of each command of the binary protocol, by message and field
    metadata.py   each field of what producers write about a message
    websocket.py  each field of each WebSocket frame, and each query parameter
    rest.py       each field of each body of REST: ours, Pulsar's, and the admin RPC

`model.py` has the shape of a row and the one comparison. Tests walk the schemas and fail on a field without a row, and send one
over each limit. `docs/limits.md` is made from here.
"""
