"""The trace context of OpenTelemetry travels with a message."""

from __future__ import annotations

from opentelemetry import trace

from messaging.client.message import Message, MessageId
from messaging.client.tracing import TraceContext, context_of
from tests.messaging.client.scripted import ScriptedBroker

SPAN = trace.NonRecordingSpan(trace.SpanContext(0x5B8EFFF798038103D269B633813FC60C, 0xEEE19B7EC3C1B174, True, trace.TraceFlags(1)))
HEADER = "00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01"


async def test_a_message_carries_the_context_that_it_was_sent_in() -> None:
    broker = ScriptedBroker()
    broker.answers_sends = True
    interceptors = [TraceContext()]
    async with broker.client() as client, client.producer("t", batching=False, interceptors=interceptors) as producer:
        with trace.use_span(SPAN):
            await producer.send(b"x", properties={"a": "b"})
        await producer.send(b"y", properties={"a": "b"})
    assert broker.properties() == [{"traceparent": HEADER, "a": "b"}, {"a": "b"}]


def test_a_consumer_continues_it() -> None:
    received = Message(MessageId(1, 1), b"x", {"traceparent": HEADER}, 0)
    context = trace.get_current_span(context_of(received)).get_span_context()
    assert (context.trace_id, context.span_id) == (SPAN.get_span_context().trace_id, SPAN.get_span_context().span_id)
    assert not trace.get_current_span(context_of(Message(MessageId(1, 1), b"x", {}, 0))).get_span_context().is_valid
