"""Before the control plane said anything, nobody is told that they may not: clients would not ask again."""

from __future__ import annotations

from messaging.adminrpc.feed import FeedApply
from messaging.protocol import pulsar_pb2 as pb
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://public/default/t"


async def test_a_client_that_comes_too_early_is_told_to_try_again(world: BrokerWorld) -> None:
    access = world.service.access
    told = access.view.dump()
    access.view.apply(access.view.version, 0, [], full=True)

    keyed = await world.client()
    keyed.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=world.token("owner").encode())
    (answer,) = await keyed.gone()
    assert (answer.name, answer.body.error) == ("ERROR", pb.ServiceNotReady)

    anybody = await world.connected(None)
    anybody.say(pb.Command.LOOKUP, topic=TOPIC)
    assert (await anybody.expect("LOOKUP_RESPONSE")).error == pb.ServiceNotReady
    anybody.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await anybody.expect("ERROR")).error == pb.ServiceNotReady

    await world.admin.feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=told))
    await anybody.producer(TOPIC)
    await world.connected("owner")
