"""Schemas of topics: what a schema is, which schemas are equal, and which may follow which. Pure: no I/O, no clock.

`model.py` has the types, `registry.py` the decisions about the versions of one topic, `strategies.py` who is compared with whom.
`comparison.py` parses schemas and says which are equal, within a budget; `avro.py`, `protobuf_native.py` and `key_value.py` know
the types.
"""
