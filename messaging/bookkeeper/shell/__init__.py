"""What carries the machines of `core` out, in an event loop: a connection to each bookie, and writers, recoveries and readers
over them.
"""
