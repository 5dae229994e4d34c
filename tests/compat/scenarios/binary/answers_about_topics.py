"""Every field of the answers to what clients ask before they open a producer or a consumer."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.compat.scenarios.binary.conversation import Conversation, converse
from tests.compat.scenarios.world import Outcome, World, topic_path

_ABSENT = "persistent://public/no-such-namespace/t"
_BEGINS_WITH_A = "persistent://.*/a[^/]*"  # Pulsar evaluates patterns up to 50 characters


def connecting(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        for version in (6, 12, 13, 15, 19, 20, 21):
            await talk.client(protocol_version=version)
        await talk.client(protocol_version=20, feature_flags=pb.FeatureFlags(supports_auth_refresh=True))

    return converse(w, script)


def partitions(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, kind = await talk.client(), pb.Command.PARTITIONED_METADATA
        plain, parts = w.topic("plain"), w.partitioned(2)
        w.send(plain, "a")
        for topic in (plain, parts, f"{parts}-partition-0", w.topic("absent"), _ABSENT, "odd://public/default/t"):
            await talk.ask(client, kind, topic=topic, metadata_auto_creation_enabled=False)
        await talk.ask(client, kind, topic=w.topic("made"))

    return converse(w, script)


def lookups(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client = await talk.client()
        for topic in (w.topic(), w.unstored_topic(), _ABSENT, "odd://public/default/t"):
            await talk.ask(client, pb.Command.LOOKUP, topic=topic)
        await talk.ask(client, pb.Command.LOOKUP, topic=w.topic(), authoritative=True)
        await talk.ask(client, pb.Command.LOOKUP, topic=w.topic(), advertised_listener_name="absent")

    return converse(w, script)


def listings(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, kind = await talk.client(), pb.Command.GET_TOPICS_OF_NAMESPACE
        prefix = w.namespace()
        namespace = prefix.removeprefix("persistent://").rstrip("/")
        await talk.ask(client, kind, namespace=namespace)
        w.send(f"{prefix}a", "a")
        w.send(f"{prefix}b", "b")
        listed = await talk.ask(client, kind, namespace=namespace, mode=pb.GetTopicsOfNamespace.ALL)
        await talk.ask(client, kind, namespace=namespace, topics_hash=listed.body.topics_hash)
        await talk.ask(client, kind, namespace=namespace, topics_hash="00000000")
        await talk.ask(client, kind, namespace=namespace, topics_pattern=_BEGINS_WITH_A)
        await talk.ask(client, kind, namespace=namespace, topics_pattern="persistent://.*/c")
        await talk.ask(client, kind, namespace="public/no-such-namespace")
        await talk.ask(client, kind, namespace="no-such-tenant/n")

    return converse(w, script)


def watches(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, kind = await talk.client(), pb.Command.WATCH_TOPIC_LIST
        prefix = w.namespace()
        namespace = prefix.removeprefix("persistent://").rstrip("/")
        await talk.ask(client, kind, watcher_id=1, namespace=namespace, topics_pattern=_BEGINS_WITH_A)
        w.send(f"{prefix}a1", "a")
        await talk.hear(client)
        topic = topic_path(f"{prefix}a1")
        await talk.admin("DELETE", f"{topic}?force=true")
        await talk.hear(client)
        await talk.ask(client, pb.Command.WATCH_TOPIC_LIST_CLOSE, watcher_id=1)
        w.send(f"{prefix}a2", "a")
        watched = await talk.ask(client, kind, watcher_id=2, namespace=namespace, topics_pattern=_BEGINS_WITH_A)
        same = watched.body.topics_hash
        await talk.ask(client, kind, watcher_id=3, namespace=namespace, topics_pattern=_BEGINS_WITH_A, topics_hash=same)
        await talk.ask(client, pb.Command.WATCH_TOPIC_LIST_CLOSE, watcher_id=9)

    return converse(w, script)


_RECORD = b'{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
_OTHER = b'{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


def schemas(w: World) -> Outcome:
    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        await talk.serve(client, topic)
        read, create = pb.Command.GET_SCHEMA, pb.Command.GET_OR_CREATE_SCHEMA
        await talk.ask(client, create, topic=topic, schema=pb.Schema(name="s", schema_data=b"", type=1))
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=1)
        await talk.ask(client, read, topic=topic)
        avro = pb.Schema(name="s", schema_data=_RECORD, type=4, properties=[pb.KeyValue(key="team", value="blue")])
        await talk.ask(client, create, topic=topic, schema=avro)
        await talk.ask(client, create, topic=topic, schema=pb.Schema(name="s", schema_data=_OTHER, type=4))
        await talk.ask(client, create, topic=topic, schema=pb.Schema(name="s", schema_data=b"", type=0))
        for version in (None, b"\0" * 8, b"\0" * 7 + b"\x09"):
            await talk.ask(client, read, topic=topic, **({} if version is None else {"schema_version": version}))
        await talk.ask(client, read, topic=w.topic("absent"))
        await talk.ask(client, read, topic=_ABSENT)

    return converse(w, script)


def schemas_of_bytes(w: World) -> Outcome:
    """With properties, and by both ways of giving one."""

    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        w.send(topic, "a")
        given = {"type": "BYTES", "schema": "", "properties": {"team": "blue"}}
        answer = w.admin("POST", f"schemas/{topic_path(topic).partition('/')[2]}/schema", given)
        talk.answers.append(["POST", {"status": answer.status, "body": answer.body}])
        answer = w.admin("GET", f"schemas/{topic_path(topic).partition('/')[2]}/schema")
        talk.answers.append(["GET", {**answer.body, "timestamp": "<ms>"}])
        await talk.ask(client, pb.Command.GET_SCHEMA, topic=topic)
        plain = pb.Schema(name="s", schema_data=b"", type=0, properties=[pb.KeyValue(key="team", value="blue")])
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=1, schema=plain)
        other = pb.Schema(name="s", schema_data=b"", type=0)
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=2, schema=other)
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=3)
        untyped, typed = w.topic("untyped"), w.topic("typed")
        await talk.serve(client, untyped, typed)
        await talk.ask(client, pb.Command.PRODUCER, topic=untyped, producer_id=4, schema=other)
        await talk.ask(client, pb.Command.GET_SCHEMA, topic=untyped)
        text = pb.Schema(name="s", schema_data=b"", type=1)
        await talk.ask(client, pb.Command.PRODUCER, topic=typed, producer_id=5, schema=text)
        await talk.ask(client, pb.Command.PRODUCER, topic=typed, producer_id=6, schema=other)
        for number, name in enumerate((topic, untyped, typed, w.topic("fresh"))):
            fields = {"consumer_id": number, "subscription": "s", "sub_type": pb.Subscribe.Shared, "schema": other}
            await talk.serve(client, name)
            await talk.ask(client, pb.Command.SUBSCRIBE, topic=name, **fields)
        await talk.ask(client, pb.Command.GET_SCHEMA, topic=w.topic("fresh"))
        await talk.ask(client, pb.Command.GET_OR_CREATE_SCHEMA, topic=topic, schema=plain)

    return converse(w, script)


def schemas_that_were_deleted(w: World) -> Outcome:
    """The version that was deleted, and the one that follows."""

    async def script(talk: Conversation) -> None:
        client, topic = await talk.client(), w.topic()
        await talk.serve(client, topic)
        path = f"schemas/{topic_path(topic).partition('/')[2]}"
        await talk.ask(client, pb.Command.PRODUCER, topic=topic, producer_id=1)
        text, record = pb.Schema(name="s", schema_data=b"", type=1), pb.Schema(name="s", schema_data=_RECORD, type=4)
        await talk.ask(client, pb.Command.GET_OR_CREATE_SCHEMA, topic=topic, schema=record)
        await talk.admin("DELETE", f"{path}/schema")
        for version in (None, 0, 1, 2):
            fields = {} if version is None else {"schema_version": version.to_bytes(8, "big")}
            await talk.ask(client, pb.Command.GET_SCHEMA, topic=topic, **fields)
        for end in ("schema", "schema/0", "schema/1", "schemas"):
            answer = w.admin("GET", f"{path}/{end}")
            body = answer.body if answer.status == 200 else {}
            talk.answers.append([end, {"status": answer.status, **{key: body[key] for key in body if key != "timestamp"}}])
        await talk.ask(client, pb.Command.GET_OR_CREATE_SCHEMA, topic=topic, schema=text)
        for number in (0, 1, 2):
            await talk.ask(client, pb.Command.GET_SCHEMA, topic=topic, schema_version=number.to_bytes(8, "big"))

    return converse(w, script)
