"""A client in a process that was forked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest

from messaging.client import errors
from tests.messaging.client.scripted import ScriptedBroker

TOPIC = "persistent://acme/orders/new"


async def test_what_was_open_before_says_why_it_does_nothing() -> None:
    broker = ScriptedBroker()
    async with broker.client() as client:
        producer, consumer = await client.create_producer(TOPIC), await client.subscribe(TOPIC, "s")
        commands = len(broker.commands)
        client.forked()
        for call in (producer.send(b"x"), consumer.receive(), client.create_producer(TOPIC)):
            with pytest.raises(errors.InvalidOperation, match="was forked"):
                await call
        with pytest.raises(errors.InvalidOperation):
            producer.send_nowait(b"x")
        assert len(broker.commands) == commands, "the connection is the parent's"


async def test_what_is_closed_in_a_forked_process_leaves_the_connection_to_the_parent() -> None:
    """Also where nothing may wait: the event loop that a context manager was entered in is the parent's."""
    broker = ScriptedBroker()
    client = broker.client()
    producer, consumer = await client.create_producer(TOPIC), await client.subscribe(TOPIC, "s")
    reader = await client.reader(TOPIC)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    client.forked()
    commands = len(broker.commands)
    for close in (producer.close, producer.abort, consumer.close, reader.close, client.close):
        with pytest.raises(StopIteration):
            close().__await__().send(None)
        with pytest.raises(StopIteration):
            client.__aexit__(None, None, None).__await__().send(None)
    await asyncio.sleep(0)
    assert broker.connection.open and len(broker.commands) == commands
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_forked_process_is_told_and_makes_its_own() -> None:
    script = """
        import os
        from messaging.client import blocking, connect
        before, waiting = connect("pulsar://127.0.0.1:1"), blocking.connect("pulsar://127.0.0.1:1")
        child = os.fork()
        if not child:
            try:
                before.producer("t").__await__().send(None)
            except Exception as error:
                print(error)
            try:
                waiting.partitions("t")
            except Exception as error:
                print(error, flush=True)
            connect("pulsar://127.0.0.1:1")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        waiting.close()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("make another one in the new process") == 2, done.stderr
