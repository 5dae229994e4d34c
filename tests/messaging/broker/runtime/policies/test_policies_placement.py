"""Where policies let bundles be, with several brokers in this process."""

from __future__ import annotations

from pathlib import Path

from messaging.client import connect
from messaging.protocol.names import parse_topic
from tests.support.brokers.fleet import running_fleet
from tests.support.brokers.running_broker import GRANTS

WHOLE = {"grants": GRANTS, "boundaries": [0, 0xFFFFFFFF]}


async def test_policy_anti_affinity_group_keeps_namespaces_at_different_brokers(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        namespaces = [f"acme/n{number}" for number in range(8)]
        for broker in fleet:
            await broker.say(
                *(
                    ("namespace", name, WHOLE | {"policies": {"anti_affinity_group": f"pair-{number // 2}"}})
                    for number, name in enumerate(namespaces)
                )
            )
        async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client:
            for name in namespaces:
                async with client.producer(f"persistent://{name}/t") as producer:
                    await producer.send(b"x")
        places = [
            [await broker.service.owners.where(parse_topic(f"persistent://{name}/t")) is None for broker in fleet]
            for name in namespaces
        ]
        for first, second in zip(places[::2], places[1::2], strict=True):
            assert sum(first) == sum(second) == 1 and first != second


async def test_isolated_namespaces_are_at_the_brokers_of_their_policy(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        for broker in fleet:
            await broker.say(
                ("isolation", "gold", {"namespaces": ["acme/orders"], "primary": ["broker-2"]}),
                ("namespace", "acme/other", {"grants": GRANTS}),
            )
        async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client:
            for number in range(6):
                for namespace in ("acme/orders", "acme/other"):
                    async with client.producer(f"persistent://{namespace}/t{number}") as producer:
                        await producer.send(b"x")
        first, second = ({str(topic.name.namespace) for topic in broker.service.topics} for broker in fleet)
        assert "acme/orders" in second and "acme/orders" not in first
        assert "acme/other" in first and "acme/other" not in second, "the other broker is reserved"
