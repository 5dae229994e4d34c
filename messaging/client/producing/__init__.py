"""The way of a message from `send` to its receipt, a module for each stage, in this order:

    arguments    the arguments of `send` become a message
    routing      which partition it goes to
    interceptors what the application changes in passing
    admission    whether there is room: messages of the partition, bytes of all producers of the client
    batches      waits for company: by number, bytes and time
    serializing  messages become the bytes of an entry
    compression  of the whole entry
    encryption   of the whole entry
    chunks       an entry too large for the broker becomes several
    pending      operations that have no receipt yet, in order; sent again in order on a new connection
    partition    the connection of one partition: sends operations, takes receipts
    flushing     when batches end because of their age: one place for all partitions of a client
    producer     all of it behind `send`

All but the last three are pure: no I/O, no clock, no loop.
"""
