import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/** Settings of producers and consumers that the reference names, each with what an application sees of it. */
class Settings {
    static final SubscriptionInitialPosition EARLIEST = SubscriptionInitialPosition.Earliest;

    static void register(Map<String, Probe.Feature> features) {
        producers(features);
        redelivery(features);
        chunks(features);
        features.put("non_durable_consumer", client -> {
            var consumer = transientOn(client).subscribe();
            Probe.send(client, "transient", "a");
            Probe.next(consumer);
            consumer.close();
            Probe.same(Probe.rest(transientOn(client).subscribe()), List.of());
            Probe.same(stats(Probe.topic("transient")).contains("\"isDurable\":true"), false);
        });
        features.put("pattern_of_one_namespace", client -> {
            String mine = Probe.topic("one-x"), local = mine.substring(mine.lastIndexOf('/') + 1);
            var consumer = Consuming.pattern(client, "one-.*");
            try (var other = client.newProducer().topic(Probe.plan.get("deduplicated") + local).create()) {
                other.send("other".getBytes());
            }
            Probe.send(client, "one-x", "mine");
            Probe.same(Probe.receive(consumer, 1), List.of("mine"));
            Probe.same(Probe.rest(consumer), List.of());
            Probe.refused(Exception.class, () -> client.newConsumer().topicsPattern(Pattern.compile("persistent://public/.*/one-x"))
                    .subscriptionName("s").subscribe());
        });
    }

    static ConsumerBuilder<byte[]> transientOn(PulsarClient client) {
        return Probe.on(client, "transient").subscriptionMode(SubscriptionMode.NonDurable);
    }

    static void producers(Map<String, Probe.Feature> features) {
        features.put("full_queue", client -> {
            var builder = client.newProducer().topic(Probe.topic("full")).maxPendingMessages(1).enableBatching(true)
                    .batchingMaxPublishDelay(300, TimeUnit.MILLISECONDS);
            var failing = builder.clone().blockIfQueueFull(false).create();
            var first = failing.sendAsync("a".getBytes());
            Probe.refused(PulsarClientException.ProducerQueueIsFullError.class, () -> {
                try {
                    return failing.sendAsync("b".getBytes()).get(8, TimeUnit.SECONDS);
                } catch (ExecutionException error) {
                    throw (Exception) error.getCause();
                }
            });
            first.get(8, TimeUnit.SECONDS);
            var blocking = builder.clone().blockIfQueueFull(true).create();
            // The client lets the second message in before it completes the first one's future: their order is all that it promises.
            var completed = Collections.synchronizedList(new ArrayList<String>());
            var before = blocking.sendAsync("c".getBytes()).thenRun(() -> completed.add("c"));
            var after = blocking.sendAsync("d".getBytes()).thenRun(() -> completed.add("d"));
            before.get(8, TimeUnit.SECONDS);
            after.get(8, TimeUnit.SECONDS);
            Probe.same(completed, List.of("c", "d"));
        });
        features.put("batch_sizes", client -> {
            var consumer = Probe.on(client, "sizes").subscribe();
            Probe.same(sizes(client, consumer, client.newProducer().batchingMaxMessages(3), 8, 1), List.of(3, 3, 3, 3, 3, 3, 2, 2));
            Probe.same(sizes(client, consumer, client.newProducer().batchingMaxBytes(2_000), 4, 900), List.of(2, 2, 2, 2));
        });
        features.put("chunks_without_batches", client -> Probe.refused(IllegalArgumentException.class,
                () -> client.newProducer().topic(Probe.topic("both")).enableBatching(true).enableChunking(true).create()));
        features.put("hashing_schemes", client -> {
            var keys = List.of("a", "Order-3459134", "key-1", "key-2");
            Probe.same(partitions(client, HashingScheme.JavaStringHash, keys), JAVA_STRING_HASH);
            Probe.same(partitions(client, HashingScheme.Murmur3_32Hash, keys), MURMUR3_32_HASH);
        });
    }

    // Of the keys above, hash & 0x7fffffff modulo 3 partitions.
    static final List<Integer> JAVA_STRING_HASH = List.of(1, 2, 0, 1), MURMUR3_32_HASH = List.of(2, 0, 1, 1);

    static List<Integer> partitions(PulsarClient client, HashingScheme scheme, List<String> keys) throws Exception {
        List<Integer> found = new ArrayList<>();
        try (var producer = client.newProducer().topic(Probe.plan.get("hashed")).hashingScheme(scheme).create()) {
            for (String key : keys) found.add(((MessageIdAdv) producer.newMessage().key(key).value(new byte[1]).send()).getPartitionIndex());
        }
        return found;
    }

    static List<Integer> sizes(PulsarClient client, Consumer<byte[]> consumer, ProducerBuilder<byte[]> builder, int count, int size) throws Exception {
        try (var producer = builder.topic(Probe.topic("sizes")).batchingMaxPublishDelay(500, TimeUnit.MILLISECONDS).create()) {
            for (int number = 0; number < count; number++) producer.sendAsync(new byte[size]);
            producer.flush();
        }
        List<Integer> found = new ArrayList<>();
        for (int number = 0; number < count; number++) found.add(((MessageIdAdv) Probe.next(consumer).getMessageId()).getBatchSize());
        return found;
    }

    static RedeliveryBackoff asInTheReference() {
        return MultiplierRedeliveryBackoff.builder().minDelayMs(1000).maxDelayMs(60 * 1000).multiplier(2).build();
    }

    static void redelivery(Map<String, Probe.Feature> features) {
        features.put("redelivery_delays", client -> {
            List<Long> found = new ArrayList<>();
            for (int count = 0; count < 8; count++) found.add(asInTheReference().next(count) / 1000);
            Probe.same(found, List.of(1L, 2L, 4L, 8L, 16L, 32L, 60L, 60L));
            var consumer = Probe.on(client, "table").subscriptionType(SubscriptionType.Shared).negativeAckRedeliveryBackoff(asInTheReference()).subscribe();
            Probe.send(client, "table", "a");
            long begin = System.nanoTime();
            for (int count = 0; count < 3; count++) {
                var message = Probe.next(consumer);
                Probe.same(message.getRedeliveryCount(), count);
                consumer.negativeAcknowledge(message);
            }
            if (System.nanoTime() - begin < 2_500_000_000L) throw new IllegalStateException("1 and 2 seconds are longer");
        });
        features.put("acknowledgement_timeout_backoff", client -> {
            var backoff = MultiplierRedeliveryBackoff.builder().minDelayMs(100).maxDelayMs(400).multiplier(2).build();
            var consumer = Probe.on(client, "late").subscriptionType(SubscriptionType.Shared).ackTimeout(1, TimeUnit.SECONDS)
                    .ackTimeoutTickTime(100, TimeUnit.MILLISECONDS).ackTimeoutRedeliveryBackoff(backoff).subscribe();
            Probe.send(client, "late", "a");
            for (int count = 0; count < 4; count++) Probe.same(Probe.next(consumer).getRedeliveryCount(), count);
        });
        features.put("dead_letters_after_timeout", client -> {
            String name = "expired";
            var consumer = Probe.on(client, name).subscriptionType(SubscriptionType.Shared).consumerName("c").ackTimeout(1, TimeUnit.SECONDS)
                    .ackTimeoutTickTime(100, TimeUnit.MILLISECONDS)
                    .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).build()).subscribe();
            var dead = Probe.on(client, name + "-s-DLQ").subscribe();
            Probe.send(client, name, "a");
            for (int count = 0; count < 2; count++) Probe.same(Probe.next(consumer).getRedeliveryCount(), count);
            var letter = Probe.next(dead);
            Probe.same(new String(letter.getData()), "a");
            String producer = letter.getProducerName(), wanted = Probe.topic(name) + "-s-c-";
            if (!producer.startsWith(wanted) || !producer.endsWith("DLQ")) throw new IllegalStateException(producer + " instead of " + wanted + "DLQ");
        });
    }

    static void chunks(Map<String, Probe.Feature> features) {
        features.put("pending_chunked_messages", client -> {
            var consumer = client.newConsumer().topic(Probe.plan.get("interwoven")).subscriptionName("s").subscriptionInitialPosition(EARLIEST)
                    .maxPendingChunkedMessage(1).autoAckOldestChunkedMessageOnQueueFull(true).subscribe();
            Probe.same(Probe.receive(consumer, 1), List.of("second"));
            Probe.same(Probe.rest(consumer), List.of());
            var all = client.newConsumer().topic(Probe.plan.get("interwoven")).subscriptionName("all").subscriptionInitialPosition(EARLIEST).subscribe();
            Probe.same(Probe.sorted(Probe.receive(all, 2)), List.of("first", "second"));
        });
        features.put("incomplete_chunks", client -> {
            String topic = Probe.plan.get("unfinished");
            var consumer = client.newConsumer().topic(topic).subscriptionName("s").subscriptionInitialPosition(EARLIEST)
                    .expireTimeOfIncompleteChunkedMessage(500, TimeUnit.MILLISECONDS).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).subscribe();
            Probe.same(Probe.receive(consumer, 1), List.of("after"));
            for (int round = 0; round < 50 && !stats(topic).contains("\"msgBacklog\":0"); round++) Thread.sleep(100);
            Probe.same(stats(topic).contains("\"msgBacklog\":0"), true);
        });
    }

    static String stats(String topic) throws Exception {
        var uri = URI.create(Probe.plan.get("admin") + topic.replace("persistent://", "/admin/v2/persistent/") + "/stats");
        var request = HttpRequest.newBuilder(uri).header("Authorization", "Bearer " + Probe.plan.get("token")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        Probe.same(answer.statusCode(), 200);
        return answer.body().replace("\": ", "\":");
    }
}
