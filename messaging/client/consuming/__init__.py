"""The way of a message from the broker to the application and its acknowledgement back.

    unpacking    an entry becomes messages: checksum, decryption, decompression, batches
    assembly     chunks become a message again
    acks         which messages of a batch are done, and what the broker is told
    writers      the schemas that messages were written with, for those that take them
    redelivery   when a message comes again: negative acknowledgements and timeouts, with their backoffs
    dead_letters what is sent elsewhere instead of coming again
    partition    the connection of one topic or partition: permits, messages, acknowledgements
    consumer     all of it behind `receive`, for one topic, for several, or for a pattern of names
    reader       a consumer that remembers nothing; `table_view` is the latest value of each key

The first four are pure: no I/O, no clock, no loop.
"""
