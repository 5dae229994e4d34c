"""The fleet campaign: brokers are killed, paused, moved, drained and cut off in the middle of work, and each keeps its word.

    python -m tests.compat.fleet --rounds 100 --brokers 3 --seed 7                 # one machine, a log for each broker
    python -m tests.compat.fleet --database postgresql://user@host/database        # one machine; all store in an empty database
    python -m tests.compat.fleet --machines                                        # a network namespace for each, with PostgreSQL
    python -m tests.compat.fleet --machines --bookies                              # their messages on bookies

Stock publishers (Apache's clients for Python, Java and Go, which send again by themselves, and one of the WebSocket API) publish
numbered messages of a few keys to partitioned topics and plain ones, half of them in a namespace that drops duplicates. Consumers
of the SDK, of Java, Go and of the WebSocket API acknowledge with receipts, on subscriptions of type Key_Shared, Failover and
Exclusive. In each round one thing of `faults.py` happens. Checked in the end: what had a receipt is there, and came to every
subscription; each key's messages are in their order, in the log and at each subscription; nothing is there twice where duplicates
are dropped; no acknowledgement that was answered is forgotten; and no broker that stood still acknowledged anything once others
had its topics.

Measured: how long it took each topic to answer a message that was published after something happened to its broker.

`../receipts.py` is what clients were told; `../python_clients.py`, `programs.py`, `websocket_clients.py` and `witness.py` are the
clients, `platforms.py`, `machines.py` and `network.py` what they speak to, and `campaign.py` holds the one against the other.
"""
