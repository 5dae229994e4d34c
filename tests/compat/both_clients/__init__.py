"""One list of scenarios for Apache's client and for ours: over every transport, on every broker, they have the same outcome.

clients.py     one small interface, and both clients behind it
scenarios.py   the list
test_both_clients.py   runs it on our broker
recorded.json  the outcomes, recorded from a real Pulsar with both clients: ``python -m tests.compat.both_clients``
"""
