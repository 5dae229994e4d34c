"""What policies allow on a topic.

admission.py, shared_limits.py    another producer, consumer or subscription
topic_reservations.py         another topic
publish_limits.py, dispatch_limits.py    rates
"""
