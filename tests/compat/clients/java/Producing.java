import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.*;
import org.apache.pulsar.client.api.*;

/** Features of producers. */
class Producing {
    static void register(Map<String, Probe.Feature> features) {
        features.put("produce_and_consume", client -> {
            var consumer = Probe.on(client, "plain").subscribe();
            Probe.send(client, "plain", "a", "b");
            Probe.same(Probe.receive(consumer, 2), List.of("a", "b"));
        });
        features.put("keys_and_properties", client -> {
            var consumer = Probe.on(client, "props").subscribe();
            client.newProducer().topic(Probe.topic("props")).create().newMessage().value("x".getBytes()).property("ü", "1").key("k")
                    .eventTime(5).send();
            var message = Probe.next(consumer);
            Probe.same(List.of(message.getProperty("ü"), message.getKey(), message.getEventTime()), List.of("1", "k", 5L));
        });
        features.put("batches", client -> {
            var consumer = Probe.on(client, "batches").subscribe();
            var producer = client.newProducer().topic(Probe.topic("batches")).batchingMaxPublishDelay(50, TimeUnit.MILLISECONDS).create();
            List<String> wanted = new ArrayList<>();
            for (int number = 0; number < 10; number++) {
                wanted.add("" + number);
                producer.sendAsync(("" + number).getBytes());
            }
            producer.flush();
            Probe.same(Probe.receive(consumer, 10), wanted);
        });
        features.put("compression", client -> {
            var consumer = Probe.on(client, "compression").subscribe();
            for (CompressionType type : List.of(CompressionType.LZ4, CompressionType.ZLIB, CompressionType.ZSTD, CompressionType.SNAPPY)) {
                client.newProducer().topic(Probe.topic("compression")).compressionType(type).create().send(type.name().repeat(50).getBytes());
                Probe.same(Probe.receive(consumer, 1), List.of(type.name().repeat(50)));
            }
        });
        features.put("chunks", client -> {
            var consumer = Probe.on(client, "chunks").subscribe();
            client.newProducer().topic(Probe.topic("chunks")).enableChunking(true).enableBatching(false).create().send(new byte[6_000_000]);
            Probe.same(Probe.receive(consumer, 1).get(0).length(), 6_000_000);
        });
        features.put("encryption", client -> {
            var consumer = Probe.on(client, "secret").cryptoKeyReader(keys()).subscribe();
            client.newProducer().topic(Probe.topic("secret")).addEncryptionKey("key").cryptoKeyReader(keys()).create().send("x".getBytes());
            Probe.same(Probe.receive(consumer, 1), List.of("x"));
        });
        features.put("null_values", client -> {
            var consumer = Probe.on(client, "null").subscribe();
            client.newProducer().topic(Probe.topic("null")).create().newMessage().key("k").value(null).send();
            Probe.same(Probe.next(consumer).hasKey(), true);
        });
        features.put("deduplication", client -> {
            String topic = Probe.plan.get("deduplicated") + "t";
            var consumer = client.newConsumer().topic(topic).subscriptionName("s").subscribe();
            var producer = client.newProducer().topic(topic).producerName("p").enableBatching(false).create();
            for (int number : List.of(1, 2, 2, 3)) producer.newMessage().value(("" + number).getBytes()).sequenceId(number).send();
            Probe.same(Probe.receive(consumer, 3), List.of("1", "2", "3"));
        });
        features.put("exclusive_producer", client -> {
            open(client, "mode", ProducerAccessMode.Exclusive);
            Probe.refused(PulsarClientException.ProducerFencedException.class, () -> open(client, "mode", ProducerAccessMode.Exclusive));
        });
        features.put("fencing_producer", client -> {
            open(client, "fence", ProducerAccessMode.Exclusive);
            open(client, "fence", ProducerAccessMode.ExclusiveWithFencing).send("x".getBytes());
        });
        features.put("waiting_producer", client -> {
            var first = open(client, "wait", ProducerAccessMode.Exclusive);
            var second = client.newProducer().topic(Probe.topic("wait")).accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
            first.close();
            second.get(8, TimeUnit.SECONDS).send("x".getBytes());
        });
        features.put("partitioned_topics", client -> {
            var consumer = client.newConsumer().topic(Probe.plan.get("partitioned")).subscriptionName("s").subscribe();
            var producer = client.newProducer().topic(Probe.plan.get("partitioned")).create();
            for (int number = 0; number < 6; number++) producer.send(("" + number).getBytes());
            Probe.same(Probe.sorted(Probe.receive(consumer, 6)), List.of("0", "1", "2", "3", "4", "5"));
        });
        features.put("initial_subscription", client -> {
            var dead = DeadLetterPolicy.builder().maxRedeliverCount(1).initialSubscriptionName("care").build();
            var consumer = Probe.on(client, "care").subscriptionType(SubscriptionType.Shared).deadLetterPolicy(dead)
                    .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
            Probe.send(client, "care", "a");
            for (int round = 0; round < 2; round++) consumer.negativeAcknowledge(Probe.next(consumer));
            Probe.rest(consumer);
            var care = client.newConsumer().topic(Probe.topic("care-s-DLQ")).subscriptionName("care").subscribe();
            Probe.same(Probe.receive(care, 1), List.of("a"));
        });
    }

    static Producer<byte[]> open(PulsarClient client, String name, ProducerAccessMode mode) throws Exception {
        return client.newProducer().topic(Probe.topic(name)).accessMode(mode).create();
    }

    static CryptoKeyReader keys() {
        return new CryptoKeyReader() {
            private EncryptionKeyInfo read(String path) {
                try {
                    return new EncryptionKeyInfo(Files.readAllBytes(Path.of(Probe.plan.get(path))), Map.of());
                } catch (java.io.IOException error) {
                    throw new IllegalStateException(error);
                }
            }

            public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
                return read("public_key");
            }

            public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
                return read("private_key");
            }
        };
    }
}
