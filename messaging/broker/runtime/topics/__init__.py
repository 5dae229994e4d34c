"""Loaded topics.

registry.py, partitions.py    load, create, unload and delete topics
topic.py                      a topic: its life, and its producers; exclusive_access.py fences and promotes them
subscriptions.py              creating, moving and deleting its subscriptions, and attaching consumers
subscription_effects.py       what consumers and administrators do to a subscription: change, store, dispatch
publisher.py                  socket to log; dedup_state.py keeps what deduplication knows
dispatcher.py                 log to consumers, from entry_cache.py or by backlog_reader.py and backlog_scheduler.py
entry_lookup.py, backlog_age.py, member_rates.py, topic_rates.py    questions about a topic
loaded_topic.py, topic_context.py, services.py    what the rest of the broker, and the parts of a topic, may use of it
"""
