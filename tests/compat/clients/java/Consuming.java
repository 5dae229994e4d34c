import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/** Features of consumers, readers and table views. */
class Consuming {
    static final SubscriptionInitialPosition EARLIEST = SubscriptionInitialPosition.Earliest;

    static void register(Map<String, Probe.Feature> features) {
        types(features);
        acknowledgements(features);
        positions(features);
        features.put("several_topics", client -> {
            var consumer = client.newConsumer().topic(Probe.topic("several-1"), Probe.topic("several-2")).subscriptionName("s").subscribe();
            Probe.send(client, "several-1", "a");
            Probe.send(client, "several-2", "b");
            Probe.same(Probe.sorted(Probe.receive(consumer, 2)), List.of("a", "b"));
        });
        features.put("topics_by_pattern", client -> {
            Probe.send(client, "pattern-1", "early");
            Probe.same(Probe.receive(pattern(client, "pattern-.*"), 1), List.of("early"));
        });
        features.put("topics_by_pattern_made_later", client -> {
            var consumer = pattern(client, "later-.*");
            Probe.send(client, "later-1", "late");
            Probe.same(Probe.receive(consumer, 1), List.of("late"));
        });
        features.put("listeners", client -> {
            var came = new CompletableFuture<String>();
            Probe.on(client, "listen").messageListener((consumer, message) -> came.complete(new String(message.getData()))).subscribe();
            Probe.send(client, "listen", "a");
            Probe.same(came.get(8, TimeUnit.SECONDS), "a");
        });
        features.put("receiving_many_at_once", client -> {
            var policy = BatchReceivePolicy.builder().maxNumMessages(2).timeout(3, TimeUnit.SECONDS).build();
            var consumer = Probe.on(client, "many").batchReceivePolicy(policy).subscribe();
            Probe.send(client, "many", "a", "b");
            Probe.same(consumer.batchReceive().size(), 2);
        });
        features.put("pausing", client -> {
            var consumer = Probe.on(client, "pause").receiverQueueSize(1).subscribe();
            consumer.pause();
            consumer.resume();
            Probe.send(client, "pause", "a");
            Probe.same(Probe.receive(consumer, 1), List.of("a"));
        });
        features.put("table_views", client -> {
            var producer = client.newProducer().topic(Probe.topic("table")).create();
            for (String value : List.of("1", "2")) producer.newMessage().key("k").value(value.getBytes()).send();
            try (var view = client.newTableView().topic(Probe.topic("table")).create()) {
                Probe.same(new String(view.get("k")), "2");
            }
        });
        features.put("table_views_of_compacted_topics", client -> {
            try (var view = client.newTableView().topic(Probe.plan.get("compacted")).create()) {
                Probe.same(view.keySet(), Set.of("a", "c"));
                Probe.same(new String(view.get("a")), "a2");
            }
        });
        features.put("readers_of_compacted_topics", client -> {
            var reader = client.newReader().topic(Probe.plan.get("compacted")).startMessageId(MessageId.earliest).readCompacted(true).create();
            List<String> found = new ArrayList<>();
            while (reader.hasMessageAvailable()) found.add(new String(reader.readNext(8, TimeUnit.SECONDS).getData()));
            Probe.same(found, List.of("a2", "c1"));
        });
        features.put("consumers_of_compacted_topics", client -> {
            var consumer = client.newConsumer().topic(Probe.plan.get("compacted")).subscriptionName("compacted").readCompacted(true)
                    .subscriptionInitialPosition(EARLIEST).subscribe();
            Probe.same(Probe.receive(consumer, 2), List.of("a2", "c1"));
        });
        features.put("unsubscribe", client -> {
            Probe.on(client, "unsub").subscribe().unsubscribe();
            Probe.send(client, "unsub", "a");
            Probe.same(Probe.rest(Probe.on(client, "unsub").subscribe()), List.of());
        });
        features.put("unsubscribe_by_force", client -> {
            var consumer = Probe.on(client, "force").subscriptionType(SubscriptionType.Shared).subscribe();
            Probe.on(client, "force").subscriptionType(SubscriptionType.Shared).subscribe();
            consumer.unsubscribe(true);
        });
        features.put("end_of_topic", client -> {
            var consumer = client.newConsumer().topic(Probe.plan.get("ended")).subscriptionName("s").subscriptionInitialPosition(EARLIEST)
                    .subscribe();
            Probe.same(Probe.receive(consumer, 1), List.of("last"));
            for (int round = 0; round < 100 && !consumer.hasReachedEndOfTopic(); round++) consumer.receive(50, TimeUnit.MILLISECONDS);
            Probe.same(consumer.hasReachedEndOfTopic(), true);
        });
    }

    static Consumer<byte[]> pattern(PulsarClient client, String name) throws Exception {
        return client.newConsumer().topicsPattern(Pattern.compile(Probe.topic(name))).subscriptionName("s")
                .subscriptionInitialPosition(EARLIEST).patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscribe();
    }

    static void types(Map<String, Probe.Feature> features) {
        features.put("exclusive_subscription", client -> {
            Probe.on(client, "excl").subscribe();
            Probe.refused(PulsarClientException.ConsumerBusyException.class, () -> Probe.on(client, "excl").subscribe());
        });
        features.put("shared_subscription", client -> {
            List<Consumer<byte[]>> consumers = new ArrayList<>();
            for (int number = 0; number < 2; number++)
                consumers.add(Probe.on(client, "shared").subscriptionType(SubscriptionType.Shared).receiverQueueSize(3).subscribe());
            Probe.send(client, "shared", "a", "b", "c", "d", "e", "f");
            List<String> found = new ArrayList<>();
            for (var consumer : consumers) found.addAll(Probe.rest(consumer));
            Probe.same(Probe.sorted(found), List.of("a", "b", "c", "d", "e", "f"));
        });
        features.put("failover_subscription", client -> {
            String topic = Probe.plan.get("single") + "-partition-0";
            var first = client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(SubscriptionType.Failover).consumerName("a").subscribe();
            var second = client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(SubscriptionType.Failover).consumerName("b").subscribe();
            var producer = client.newProducer().topic(topic).create();
            producer.send("x".getBytes());
            Probe.same(Probe.receive(first, 1), List.of("x"));
            first.close();
            producer.send("y".getBytes());
            Probe.same(Probe.receive(second, 1), List.of("y"));
        });
        features.put("key_shared_subscription", client -> {
            var consumer = Probe.on(client, "keyed").subscriptionType(SubscriptionType.Key_Shared).subscribe();
            var producer = client.newProducer().topic(Probe.topic("keyed")).batcherBuilder(BatcherBuilder.KEY_BASED).create();
            for (String key : List.of("a", "b")) producer.newMessage().key(key).value(key.getBytes()).send();
            Probe.same(Probe.receive(consumer, 2), List.of("a", "b"));
        });
        features.put("sticky_key_ranges", client -> {
            var policy = KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 65535));
            var consumer = Probe.on(client, "sticky").subscriptionType(SubscriptionType.Key_Shared).keySharedPolicy(policy).subscribe();
            client.newProducer().topic(Probe.topic("sticky")).create().newMessage().key("k").value("x".getBytes()).send();
            Probe.same(Probe.receive(consumer, 1), List.of("x"));
        });
        features.put("priority_levels", client -> {
            var second = Probe.on(client, "priority").subscriptionType(SubscriptionType.Shared).priorityLevel(1).subscribe();
            var first = Probe.on(client, "priority").subscriptionType(SubscriptionType.Shared).priorityLevel(0).subscribe();
            Probe.send(client, "priority", "a", "b");
            Probe.same(Probe.receive(first, 2), List.of("a", "b"));
            Probe.same(Probe.rest(second), List.of());
        });
        features.put("subscription_properties", client -> Probe.on(client, "labels").subscriptionProperties(Map.of("team", "blue")).subscribe());
        features.put("initial_position", client -> {
            Probe.send(client, "early", "a");
            Probe.same(Probe.receive(Probe.on(client, "early").subscriptionInitialPosition(EARLIEST).subscribe(), 1), List.of("a"));
        });
    }

    static void acknowledgements(Map<String, Probe.Feature> features) {
        features.put("cumulative_acknowledgement", client -> {
            var consumer = Probe.on(client, "cumulative").subscribe();
            Probe.send(client, "cumulative", "a", "b", "c");
            Probe.next(consumer);
            consumer.acknowledgeCumulative(Probe.next(consumer));
            consumer.close();
            Probe.same(Probe.receive(Probe.on(client, "cumulative").subscribe(), 1), List.of("c"));
        });
        features.put("acknowledgement_receipts", client -> {
            var consumer = Probe.on(client, "receipts").isAckReceiptEnabled(true).subscribe();
            Probe.send(client, "receipts", "a");
            consumer.acknowledgeAsync(Probe.next(consumer)).get(8, TimeUnit.SECONDS);
        });
        features.put("batch_index_acknowledgement", client -> {
            var consumer = Probe.on(client, "index").enableBatchIndexAcknowledgment(true).subscribe();
            var producer = client.newProducer().topic(Probe.topic("index")).batchingMaxMessages(3).batchingMaxPublishDelay(2, TimeUnit.SECONDS).create();
            for (String text : List.of("a", "b", "c")) producer.sendAsync(text.getBytes());
            producer.flush();
            Probe.next(consumer);
            consumer.acknowledge(Probe.next(consumer));
            consumer.close();
            Probe.same(Probe.receive(Probe.on(client, "index").enableBatchIndexAcknowledgment(true).subscribe(), 2), List.of("a", "c"));
        });
        features.put("negative_acknowledgement", client -> {
            var consumer = Probe.on(client, "nack").subscriptionType(SubscriptionType.Shared)
                    .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
            Probe.send(client, "nack", "a");
            consumer.negativeAcknowledge(Probe.next(consumer));
            Probe.same(Probe.next(consumer).getRedeliveryCount(), 1);
        });
        features.put("redelivery_backoff", client -> {
            var backoff = MultiplierRedeliveryBackoff.builder().minDelayMs(100).maxDelayMs(200).build();
            var consumer = Probe.on(client, "backoff").subscriptionType(SubscriptionType.Shared).negativeAckRedeliveryBackoff(backoff).subscribe();
            Probe.send(client, "backoff", "a");
            for (int count = 0; count < 3; count++) {
                var message = Probe.next(consumer);
                Probe.same(message.getRedeliveryCount(), count);
                consumer.negativeAcknowledge(message);
            }
        });
        features.put("acknowledgement_timeout", client -> {
            var consumer = Probe.on(client, "timeout").subscriptionType(SubscriptionType.Shared).ackTimeout(1, TimeUnit.SECONDS)
                    .ackTimeoutTickTime(200, TimeUnit.MILLISECONDS).subscribe();
            Probe.send(client, "timeout", "a");
            Probe.next(consumer);
            Probe.same(Probe.next(consumer).getRedeliveryCount(), 1);
        });
        features.put("dead_letters", client -> {
            var policy = DeadLetterPolicy.builder().maxRedeliverCount(1).deadLetterTopic(Probe.topic("graves")).build();
            var dead = client.newConsumer().topic(Probe.topic("graves")).subscriptionName("dead").subscribe();
            var consumer = Probe.on(client, "dead").subscriptionType(SubscriptionType.Shared).deadLetterPolicy(policy)
                    .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
            Probe.send(client, "dead", "a");
            for (int round = 0; round < 2; round++) consumer.negativeAcknowledge(Probe.next(consumer));
            Probe.rest(consumer);
            var message = Probe.next(dead);
            Probe.same(message.getProperty("REAL_TOPIC"), Probe.topic("dead"));
        });
        features.put("retry_letters", client -> {
            var consumer = Probe.on(client, "retry").subscriptionType(SubscriptionType.Shared).enableRetry(true)
                    .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).build()).subscribe();
            var dead = Probe.on(client, "retry-s-DLQ").subscribe();
            var sent = Probe.send(client, "retry", "a").get(0);
            consumer.reconsumeLater(Probe.next(consumer), Map.of("mine", "1"), 1, TimeUnit.SECONDS);
            var again = Probe.next(consumer);
            Probe.same(again.getTopicName(), Probe.topic("retry-s-RETRY"));
            Probe.same(List.of(again.getProperty("RECONSUMETIMES"), again.getProperty("DELAY_TIME"), again.getProperty("mine")), List.of("1", "1000", "1"));
            Probe.same(List.of(again.getProperty("REAL_TOPIC"), again.getProperty("ORIGIN_MESSAGE_ID")), List.of(Probe.topic("retry"), sent.toString()));
            consumer.reconsumeLater(again, 1, TimeUnit.SECONDS);
            Probe.same(Probe.receive(dead, 1), List.of("a"));
        });
        features.put("delayed_delivery", client -> {
            var consumer = Probe.on(client, "delayed").subscriptionType(SubscriptionType.Shared).subscribe();
            var producer = client.newProducer().topic(Probe.topic("delayed")).create();
            producer.newMessage().value("late".getBytes()).deliverAfter(2, TimeUnit.SECONDS).send();
            producer.send("now".getBytes());
            Probe.same(Probe.receive(consumer, 2), List.of("now", "late"));
        });
        features.put("delayed_through_a_restart", client -> {
            var consumer = Probe.on(client, "restart").subscriptionType(SubscriptionType.Key_Shared).subscribe();
            var producer = client.newProducer().topic(Probe.topic("restart")).create();
            long at = System.currentTimeMillis() + 3000;
            producer.newMessage().key("k").value("much later".getBytes()).deliverAt(at + 3_600_000).send();
            producer.newMessage().key("k").value("late".getBytes()).deliverAt(at).send();
            Probe.unload("restart");
            producer.newMessage().key("k").value("now".getBytes()).send();
            Map<String, Long> came = new TreeMap<>();
            while (came.size() < 2) came.put(Probe.receive(consumer, 1).get(0), System.currentTimeMillis());
            Probe.same(List.copyOf(came.keySet()), List.of("late", "now"));
            Probe.same(came.get("late") >= at - 1000, true);
            Probe.same(Probe.rest(consumer), List.of());
        });
    }

    static void positions(Map<String, Probe.Feature> features) {
        features.put("readers", client -> {
            Probe.send(client, "reader", "a", "b");
            var reader = client.newReader().topic(Probe.topic("reader")).startMessageId(MessageId.earliest).create();
            List<String> found = new ArrayList<>();
            while (reader.hasMessageAvailable()) found.add(new String(reader.readNext(8, TimeUnit.SECONDS).getData()));
            Probe.same(found, List.of("a", "b"));
        });
        features.put("readers_from_a_time", client -> {
            Probe.send(client, "rollback", "a");
            var reader = client.newReader().topic(Probe.topic("rollback")).startMessageFromRollbackDuration(1, TimeUnit.HOURS).create();
            Probe.same(new String(reader.readNext(8, TimeUnit.SECONDS).getData()), "a");
        });
        features.put("readers_of_key_ranges", client -> {
            client.newProducer().topic(Probe.topic("ranges")).create().newMessage().key("k").value("x".getBytes()).send();
            var reader = client.newReader().topic(Probe.topic("ranges")).startMessageId(MessageId.earliest).keyHashRange(Range.of(0, 65535)).create();
            var message = reader.readNext(8, TimeUnit.SECONDS);
            Probe.same(message == null ? null : new String(message.getData()), "x");
        });
        features.put("seek_to_a_message", client -> {
            var consumer = Probe.on(client, "seek").subscribe();
            var ids = Probe.send(client, "seek", "a", "b", "c");
            Probe.receive(consumer, 3);
            consumer.seek(ids.get(0));
            Probe.same(Probe.receive(consumer, 2), List.of("b", "c"));
        });
        features.put("seek_to_a_time", client -> {
            var consumer = Probe.on(client, "time").subscribe();
            Probe.send(client, "time", "a");
            Probe.receive(consumer, 1);
            consumer.seek(1);
            Probe.same(Probe.receive(consumer, 1), List.of("a"));
        });
        features.put("last_message_id", client -> {
            var consumer = Probe.on(client, "last").subscribe();
            var ids = Probe.send(client, "last", "a", "b");
            Probe.same(consumer.getLastMessageIds().get(0).compareTo(ids.get(1)), 0);
        });
    }
}
