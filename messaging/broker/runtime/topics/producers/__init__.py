"""Socket to log: what producers do to a topic.

topic_publisher.py            what the publishers of both kinds of topics have
publisher.py                  appends their blocks and returns the receipts
topic_producers.py            who may publish; fences and promotes exclusive producers
deduplication.py              stores what deduplication knows
stored_moves.py               dead letters that the topic has stored as their target
"""
