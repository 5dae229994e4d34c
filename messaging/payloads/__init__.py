"""What payloads hold, as people read it: decoded, found by path, filtered. Pure, and bounded: whoever publishes may send anything.

budget      how many values may be made of one payload
avro        data written with an Avro definition
protobuf    the wire format, with the names of a descriptor where there is one
cbor, msgpack    data that describes itself
reading     a payload with its schema, or without one
paths       paths to values in JSON
filters     which messages somebody looks for
"""
