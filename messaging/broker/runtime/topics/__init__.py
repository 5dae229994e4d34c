"""Loaded topics.

registry.py, opening.py, recovery.py, partitions/    load, create, unload and delete topics
topic.py                      a topic: its identity and its life; its parts lie in the rooms below
persistent.py, non_persistent.py    the two kinds of topics
producers/                    socket to log
subscriptions/                subscriptions and their changes
dispatch/                     log to consumers
delayed/, backlog/, limits/   delayed messages, stored messages, what policies allow
member_rates.py, topic_rates.py    questions about a topic
loaded_topic.py, topic_context.py, services.py    what the rest of the broker, and the parts of a topic, may use of it
"""
