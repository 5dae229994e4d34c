"""The blocking classes: the same names, and each call returns when it is done."""

from __future__ import annotations

import sys

from messaging.client import blocking as magnetar


def main(url: str, key: str | None = None, namespace: str = "public/default") -> list[str]:
    topic = f"persistent://{namespace}/example-plain"
    received = []
    with magnetar.connect(url, key=key) as client, client.consumer(topic, "reader", schema=magnetar.STRING) as consumer:
        with client.producer(topic, schema=magnetar.STRING) as producer:
            producer.send("first")
            futures = [producer.send_nowait(text) for text in ("second", "third")]
            producer.flush()
            assert all(future.done() for future in futures)
        for message in consumer:
            received.append(message.value)
            consumer.ack(message)
            if len(received) == 3:
                break
    return received


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
