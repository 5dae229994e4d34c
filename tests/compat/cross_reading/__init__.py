"""What the SDK writes, Apache's Java client reads with its own schema, and the other way: every schema, and encryption.

cases.py       the list, which tests/compat/clients/java/CrossReading.java has too
run.py         runs it on a platform
test_cross_reading.py   runs it on our broker
recorded.json  the outcome on a real Pulsar: ``python -m tests.compat.cross_reading --record``
"""
