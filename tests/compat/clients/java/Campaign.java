import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.concurrent.*;
import org.apache.pulsar.client.api.*;

/**
 * A client of a campaign: it is told on standard input what to do, and tells what it was told by brokers. The arguments are the service
 * URL and a token; tests/compat/fleet/programs.py has the words.
 */
public class Campaign {
    static final CountDownLatch closing = new CountDownLatch(1);
    static final Set<String> acknowledged = ConcurrentHashMap.newKeySet();

    static synchronized void tell(Object... words) {
        StringJoiner line = new StringJoiner(" ");
        for (Object word : words) line.add(String.valueOf(word));
        System.out.println(line);
        System.out.flush();
    }

    static String oneLine(Throwable error) {
        return String.valueOf(error).replaceAll("\\s+", " ");
    }

    static void publish(Producer<byte[]> producer, String topic, String name, long pauseMs) {
        try {
            var room = new Semaphore(50);
            for (int number = 0; !closing.await(pauseMs, TimeUnit.MILLISECONDS); number++) {
                room.acquire();
                String key = name + "-k" + number % 5, payload = key + ":" + number;
                long started = System.currentTimeMillis();
                producer.newMessage().key(key).value(payload.getBytes()).sendAsync().whenComplete((id, error) -> {
                    if (error == null) tell("receipt", topic, payload, started);
                    else tell("refused", topic, payload, oneLine(error));
                    room.release();
                });
            }
            room.acquire(50); // each has its receipt
            producer.close();
        } catch (Exception error) {
            tell("refused", topic, name + ":0", oneLine(error));
        }
    }

    /**
     * Until it is answered. A message that comes again though its acknowledgement was answered is not acknowledged again: one that the
     * broker forgot stays in its backlog.
     */
    static void acknowledge(Consumer<byte[]> consumer, MessageId id, String... words) {
        consumer.acknowledgeAsync(id).whenComplete((nothing, error) -> {
            if (error == null) {
                acknowledged.add(String.join(" ", words));
                tell("acknowledged", String.join(" ", words));
            } else {
                CompletableFuture.delayedExecutor(500, TimeUnit.MILLISECONDS).execute(() -> acknowledge(consumer, id, words));
            }
        });
    }

    static void consume(Consumer<byte[]> consumer, String topic, String subscription) {
        try {
            while (true) {
                Message<byte[]> message = consumer.receive();
                var id = (MessageIdAdv) message.getMessageId();
                String text = id.getLedgerId() + ":" + id.getEntryId() + ":" + id.getBatchIndex();
                tell("came", topic, subscription, text, new String(message.getData()));
                if (!acknowledged.contains(topic + " " + subscription + " " + text)) acknowledge(consumer, id, topic, subscription, text);
            }
        } catch (Exception error) {
            tell("ended", topic, subscription, oneLine(error));
        }
    }

    public static void main(String[] arguments) throws Exception {
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).authentication(AuthenticationFactory.token(arguments[1]))
                .operationTimeout(60, TimeUnit.SECONDS).keepAliveInterval(10, TimeUnit.SECONDS).connectionTimeout(5, TimeUnit.SECONDS)
                .maxBackoffInterval(2, TimeUnit.SECONDS).ioThreads(1).listenerThreads(1).build();
        List<Thread> publishing = new ArrayList<>();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; tell("done", line)) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "publish" -> { // topic, name, batched or single, pause in milliseconds
                    Producer<byte[]> producer = client.newProducer().topic(words[1]).producerName(words[2])
                            .enableBatching(words[3].equals("batched")).batchingMaxPublishDelay(5, TimeUnit.MILLISECONDS)
                            .sendTimeout(0, TimeUnit.SECONDS).maxPendingMessages(60).create();
                    Thread thread = new Thread(() -> publish(producer, words[1], words[2], Long.parseLong(words[4])));
                    thread.start();
                    publishing.add(thread);
                }
                case "consume" -> { // topic, subscription, type
                    Consumer<byte[]> consumer = client.newConsumer().topic(words[1]).subscriptionName(words[2])
                            .subscriptionType(SubscriptionType.valueOf(words[3])).isAckReceiptEnabled(true)
                            // In groups, what waits while there is no connection is given up, and counts as answered with the next group.
                            .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                            .enableBatchIndexAcknowledgment(true)
                            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                    Thread thread = new Thread(() -> consume(consumer, words[1], words[2]));
                    thread.setDaemon(true);
                    thread.start();
                }
                case "close" -> {
                    closing.countDown();
                    for (Thread thread : publishing) thread.join();
                    tell("closed");
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.exit(0);
    }
}
