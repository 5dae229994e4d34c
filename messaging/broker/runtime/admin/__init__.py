"""The admin RPC on the broker's side.

    handlers          which function answers which method: the table
    naming            names in requests, looked up as topics
    changes           long changes as jobs of their own, which go on whoever waits
    status, feed, usage, namespaces, topics, topic_stats, subscriptions, maintenance
                      handlers of one group of methods each; all of them take the broker
    messages, peek    one stored message as Pulsar's tools read it
    browse            messages of a topic, filtered where they are stored
    stats, pulsar_stats, partitioned_stats
                      a topic's figures in Pulsar's shape: pure

Callers are our own web and worker processes, which authorised the person; names are validated again here.
"""
