import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.*;

/**
 * What Apache's Java client can do against a platform: a JSON line for each feature. The argument is a JSON object of strings, which
 * tests/compat/probes/__init__.py describes.
 */
public class Probe {
    interface Feature {
        void run(PulsarClient client) throws Exception;
    }

    static final Map<String, Feature> FEATURES = new LinkedHashMap<>();
    static Map<String, String> plan = new HashMap<>();

    static String topic(String name) {
        return plan.get("topics") + name;
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) throw new IllegalStateException(found + " instead of " + wanted);
    }

    static Message<byte[]> next(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = consumer.receive(8, TimeUnit.SECONDS);
        if (message == null) throw new IllegalStateException("no message came");
        return message;
    }

    static List<String> receive(Consumer<byte[]> consumer, int count) throws Exception {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            Message<byte[]> message = next(consumer);
            consumer.acknowledge(message);
            found.add(new String(message.getData()));
        }
        return found;
    }

    static List<String> rest(Consumer<byte[]> consumer) throws Exception {
        List<String> found = new ArrayList<>();
        for (Message<byte[]> m; (m = consumer.receive(400, TimeUnit.MILLISECONDS)) != null; consumer.acknowledge(m)) found.add(new String(m.getData()));
        return found;
    }

    static List<String> sorted(List<String> list) {
        List<String> copy = new ArrayList<>(list);
        Collections.sort(copy);
        return copy;
    }

    static ConsumerBuilder<byte[]> on(PulsarClient client, String name) {
        return client.newConsumer().topic(topic(name)).subscriptionName("s");
    }

    static List<MessageId> send(PulsarClient client, String name, String... texts) throws Exception {
        List<MessageId> ids = new ArrayList<>();
        try (Producer<byte[]> producer = client.newProducer().topic(topic(name)).enableBatching(false).create()) {
            for (String text : texts) ids.add(producer.send(text.getBytes()));
        }
        return ids;
    }

    /** As when its broker restarts: what it knows of the topic is what it stored. */
    static void unload(String name) throws Exception {
        var address = java.net.URI.create(plan.get("admin") + "/admin/v2/" + topic(name).replace("://", "/") + "/unload");
        var request = java.net.http.HttpRequest.newBuilder(address).header("Authorization", "Bearer " + plan.get("token"))
                .PUT(java.net.http.HttpRequest.BodyPublishers.noBody()).build();
        var client = java.net.http.HttpClient.newBuilder().version(java.net.http.HttpClient.Version.HTTP_1_1).build();
        same(client.send(request, java.net.http.HttpResponse.BodyHandlers.discarding()).statusCode() / 100, 2);
    }

    static void refused(Class<? extends Exception> wanted, Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (Exception error) {
            if (wanted.isInstance(error)) return;
            throw error;
        }
        throw new IllegalStateException("not refused");
    }

    /** With a certificate to trust, over TLS, and only to a host that it is for. */
    static PulsarClient client() throws Exception {
        var builder = PulsarClient.builder().serviceUrl(plan.get("broker"))
                .authentication(AuthenticationFactory.token(plan.get("token"))).operationTimeout(10, TimeUnit.SECONDS)
                .ioThreads(1).listenerThreads(1);
        if (plan.containsKey("trust")) builder.tlsTrustCertsFilePath(plan.get("trust")).enableTlsHostnameVerification(true);
        return builder.build();
    }

    static void run(String name) {
        String error = null;
        try (PulsarClient client = client()) {
            FEATURES.get(name).run(client);
        } catch (Throwable failure) {
            error = failure.getClass().getSimpleName() + ": " + String.valueOf(failure.getMessage()).replaceAll("[\\\\\"\\p{Cntrl}]", " ");
        }
        String tail = error == null ? "\"ok\": true" : "\"ok\": false, \"error\": \"" + error.substring(0, Math.min(300, error.length())) + "\"";
        System.out.println("{\"feature\": \"" + name + "\", " + tail + "}");
    }

    public static void main(String[] arguments) throws Exception {
        var matcher = Pattern.compile("\"(\\w+)\":\\s*\"([^\"]*)\"").matcher(arguments[0]);
        while (matcher.find()) plan.put(matcher.group(1), matcher.group(2));
        Producing.register(FEATURES);
        Consuming.register(FEATURES);
        Settings.register(FEATURES);
        Schemas.register(FEATURES);
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<String> only = List.of(plan.getOrDefault("only", "").split(","));
        for (String name : FEATURES.keySet()) if (!plan.containsKey("only") || only.contains(name)) pool.submit(() -> run(name));
        pool.shutdown();
        pool.awaitTermination(100, TimeUnit.SECONDS);
        System.out.flush();
        System.exit(0);
    }
}
