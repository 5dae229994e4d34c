"""Producers and consumers of clients of single messages on topics of another broker.

They are what `messaging.broker.runtime.local` opens for topics that this broker serves, over the binary protocol: a link to the
other broker's own port for each client, as that client.
"""
