"""Magnetar's admin client: /api/v1 as typed methods. It blocks, and needs nothing but Python's own library.

::

    from messaging.client.admin import Admin

    admin = Admin("http://127.0.0.1:8080", token=TOKEN)
    admin.topics.create("acme", "orders", {"name": "new", "partitions": 4})
    for topic in admin.topics.each("acme", "orders"):
        print(topic["topic"])
    told = admin.subscriptions.clear("acme", "orders", "new", "billing", dry_run=True)

`generated.py` is made from the OpenAPI document (`make client`); `http.py` sends and repeats.
"""

from messaging.client.admin.client import Admin
from messaging.client.admin.http import ApiError, Unreachable

__all__ = ["Admin", "ApiError", "Unreachable"]
