import java.nio.charset.StandardCharsets;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Function;
import java.util.regex.Pattern;
import com.google.protobuf.Type;
import org.apache.avro.reflect.Nullable;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.client.impl.DefaultCryptoKeyReader;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/**
 * Writes what another client is to read and reads what it wrote, a topic for each schema, and prints what it read as text, a line of
 * JSON for each. tests/compat/cross_reading has the same list of cases.
 */
class CrossReading {
    static PulsarClient client;
    static Map<String, String> plan = new HashMap<>();
    static final Map<String, Callable<List<String>>> READING = new LinkedHashMap<>();
    static final Map<String, Callable<?>> WRITING = new LinkedHashMap<>();

    static <T> void add(String name, Schema<T> schema, Function<T, String> text, List<T> values) {
        add(name, schema, text, values, "", CompressionType.NONE);
    }

    /** `key`: what names the files of a pair of keys, or "". */
    static <T> void add(String name, Schema<T> schema, Function<T, String> text, List<T> values, String key, CompressionType compression) {
        WRITING.put(name, () -> {
            var builder = client.newProducer(schema).topic(plan.get("theirs") + name).compressionType(compression)
                    .enableBatching(true).batchingMaxPublishDelay(2, TimeUnit.SECONDS);
            if (!key.isEmpty()) builder.addEncryptionKey(key).cryptoKeyReader(keys(key));
            try (var producer = builder.create()) {
                producer.send(values.get(0));  // alone, and all of them as a batch
                for (T value : values) producer.sendAsync(value);
                producer.flush();
            }
            return null;
        });
        read(name, name, schema, text, values.size() + 1, key);
    }

    static <T> void read(String name, String topic, Schema<T> schema, Function<T, String> text, int count, String key) {
        READING.put(name, () -> {
            var builder = client.newConsumer(schema).topic(plan.get("ours") + topic).subscriptionName(name)
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
            if (!key.isEmpty()) builder.cryptoKeyReader(keys(key));
            List<String> texts = new ArrayList<>();
            try (var consumer = builder.subscribe()) {
                while (texts.size() < count) {
                    var message = consumer.receive(10, TimeUnit.SECONDS);
                    if (message == null) break;
                    T value = message.getValue();
                    texts.add(value == null ? "null" : text.apply(value));
                }
            }
            return texts;
        });
    }

    static CryptoKeyReader keys(String key) {
        return DefaultCryptoKeyReader.builder().publicKey(key, "file://" + plan.get(key + "_public"))
                .privateKey(key, "file://" + plan.get(key + "_private")).build();
    }

    static String record(GenericRecord record) {
        List<String> texts = new ArrayList<>();
        for (String field : List.of("number", "customer", "note")) texts.add(String.valueOf(record.getField(field)));
        return String.join("|", texts);
    }

    static <K, V> String pair(KeyValue<K, V> pair, Function<K, String> key, Function<V, String> value) {
        return (pair.getKey() == null ? "null" : key.apply(pair.getKey())) + "=" + (pair.getValue() == null ? "null" : value.apply(pair.getValue()));
    }

    /** Nothing may be null but what says so, as by the other client. */
    static <T> Schema<T> agreed(Class<T> type, boolean json) {
        var definition = SchemaDefinition.<T>builder().withPojo(type).withAlwaysAllowNull(false).build();
        return json ? Schema.JSON(definition) : Schema.AVRO(definition);
    }

    static void cases() {
        add("bytes", Schema.BYTES, bytes -> HexFormat.of().formatHex(bytes), List.of(new byte[] {0, 1, -1}, new byte[0]));
        add("string", Schema.STRING, text -> text, Arrays.asList("größe", "", null));
        add("boolean", Schema.BOOL, String::valueOf, List.of(true, false));
        add("int8", Schema.INT8, String::valueOf, List.of((byte) -128, (byte) 127));
        add("int16", Schema.INT16, String::valueOf, List.of((short) -32768, (short) 258));
        add("int32", Schema.INT32, String::valueOf, List.of(Integer.MIN_VALUE, 66051));
        add("int64", Schema.INT64, String::valueOf, List.of(Long.MIN_VALUE, 283686952306183L));
        add("float", Schema.FLOAT, String::valueOf, List.of(-0.25f, 65536.75f));
        add("double", Schema.DOUBLE, String::valueOf, List.of(-0.25, 123456.0625));
        add("date", Schema.DATE, date -> "" + date.getTime(), List.of(new Date(-1001), new Date(1_764_193_801_123L)));
        add("time", Schema.TIME, time -> "" + time.getTime(), List.of(new Time(0), new Time(78_601_123)));
        add("timestamp", Schema.TIMESTAMP, time -> "" + time.getTime(), List.of(new Timestamp(-1001), new Timestamp(1_764_193_801_123L)));
        add("instant", Schema.INSTANT, Instant::toString, List.of(Instant.parse("2026-11-26T21:50:01.123456Z"), Instant.parse("1969-12-31T23:59:59.500001Z")));
        add("local_date", Schema.LOCAL_DATE, LocalDate::toString, List.of(LocalDate.of(2026, 11, 26), LocalDate.of(1900, 2, 28)));
        add("local_time", Schema.LOCAL_TIME, LocalTime::toString, List.of(LocalTime.parse("21:50:01.123456"), LocalTime.parse("00:00:01")));
        add("local_date_time", Schema.LOCAL_DATE_TIME, LocalDateTime::toString,
                List.of(LocalDateTime.parse("2026-11-26T21:50:01.123456"), LocalDateTime.parse("1900-02-28T00:00:01")));
        var orders = Arrays.asList(Order.of(1, "größe", null, Colour.RED, "wheel", "bell"), Order.of(-2, "", "late", Colour.BLUE), null);
        add("json", agreed(Order.class, true), Order::text, orders);
        add("avro", agreed(Order.class, false), Order::text, orders);
        add("json_of_a_package", Schema.JSON(Shop.Sale.class), Shop.Sale::text, List.of(Shop.sale("a", Shop.Size.LARGE), Shop.sale(null, null)));
        add("avro_of_a_package", Schema.AVRO(Shop.Sale.class), Shop.Sale::text, List.of(Shop.sale("a", Shop.Size.LARGE), Shop.sale(null, null)));
        var items = List.of(Shop.item("a", Shop.Size.SMALL, Shop.Size.LARGE), Shop.item("", Shop.Size.LARGE));
        add("json_with_names_of_a_package", agreed(Shop.Item.class, true), Shop.Item::text, items);
        add("avro_with_names_of_a_package", agreed(Shop.Item.class, false), Shop.Item::text, items);
        String newer = "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"number\",\"type\":\"long\"},"
                + "{\"name\":\"discount\",\"type\":\"double\",\"default\":0.5}]}";
        read("avro_newer", "avro", Schema.generic(Schema.AVRO(SchemaDefinition.builder().withJsonDef(newer).build()).getSchemaInfo()),
                record -> record.getField("number") + "|" + record.getField("discount"), 4, "");
        read("json_auto", "json", Schema.AUTO_CONSUME(), CrossReading::record, 4, "");
        read("avro_auto", "avro", Schema.AUTO_CONSUME(), CrossReading::record, 4, "");
        add("protobuf", Schema.PROTOBUF_NATIVE(Type.class), type -> type.getName() + "|" + String.join(",", type.getOneofsList()),
                List.of(Type.newBuilder().setName("größe").addOneofs("a").addOneofs("b").build(), Type.getDefaultInstance()));
        for (var encoding : KeyValueEncodingType.values()) {
            String how = encoding.name().toLowerCase();
            add("key_value_" + how, Schema.KeyValue(Schema.STRING, Schema.INT32, encoding), pair -> pair(pair, key -> key, String::valueOf),
                    List.of(new KeyValue<>("größe", 5), new KeyValue<>("b", null), new KeyValue<>("", 0)));
            add("key_value_avro_" + how, Schema.KeyValue(agreed(Order.class, false), agreed(Part.class, true), encoding),
                    pair -> pair(pair, Order::text, part -> part.name),
                    List.of(new KeyValue<>(orders.get(0), Part.of("wheel")), new KeyValue<>(orders.get(1), null)));
            read("key_value_auto_" + how, "key_value_" + how, Schema.AUTO_CONSUME(), record -> {
                var pair = (KeyValue<?, ?>) record.getNativeObject();
                return pair.getKey() + "=" + pair.getValue();
            }, 4, "");
        }
        for (String key : List.of("rsa", "ec")) {
            add("encrypted_" + key, Schema.STRING, text -> text, List.of("secret", "größe"), key, CompressionType.NONE);
            add("encrypted_compressed_" + key, Schema.STRING, text -> text, List.of("a".repeat(500), "größe"), key, CompressionType.LZ4);
        }
    }

    static <T> String outcome(Callable<T> call, Function<T, String> text) {
        try {
            return text.apply(call.call());
        } catch (Throwable error) {
            return "\"" + quoted("failed: " + error.getClass().getSimpleName() + ": " + error.getMessage()) + "\"";
        }
    }

    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder();
        for (char character : text.substring(0, Math.min(600, text.length())).toCharArray()) {
            boolean plain = character >= ' ' && character < 127 && character != '"' && character != '\\';
            quoted.append(plain ? String.valueOf(character) : String.format("\\u%04x", (int) character));
        }
        return quoted.toString();
    }

    public static void main(String[] arguments) throws Exception {
        var matcher = Pattern.compile("\"(\\w+)\":\\s*\"([^\"]*)\"").matcher(arguments[0]);
        while (matcher.find()) plan.put(matcher.group(1), matcher.group(2));
        client = PulsarClient.builder().serviceUrl(plan.get("broker")).authentication(AuthenticationFactory.token(plan.get("token")))
                .operationTimeout(30, TimeUnit.SECONDS).ioThreads(1).listenerThreads(1).build();
        cases();
        Map<String, String> written = new ConcurrentHashMap<>(), read = new ConcurrentHashMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        WRITING.forEach((name, write) -> pool.submit(() -> written.put(name, outcome(write, none -> "true"))));
        READING.forEach((name, reading) -> pool.submit(() -> read.put(name, outcome(reading, texts -> {
            List<String> quoted = new ArrayList<>();
            for (String text : texts) quoted.add("\"" + quoted(text) + "\"");
            return "[" + String.join(", ", quoted) + "]";
        }))));
        pool.shutdown();
        pool.awaitTermination(100, TimeUnit.SECONDS);
        for (String name : READING.keySet()) {
            System.out.println("{\"case\": \"" + name + "\", \"written\": " + written.getOrDefault(name, "null") + ", \"read\": " + read.get(name) + "}");
        }
        System.out.flush();
        System.exit(0);
    }
}

enum Colour {
    RED, BLUE
}

class Part {
    public String name;

    static Part of(String name) {
        var made = new Part();
        made.name = name;
        return made;
    }
}

class Order {
    public long number;
    public String customer;
    @Nullable
    public String note;
    public Colour colour;
    public List<Part> parts;

    static Order of(long number, String customer, String note, Colour colour, String... parts) {
        var made = new Order();
        made.number = number;
        made.customer = customer;
        made.note = note;
        made.colour = colour;
        made.parts = new ArrayList<>();
        for (String part : parts) made.parts.add(Part.of(part));
        return made;
    }

    String text() {
        List<String> names = new ArrayList<>();
        for (Part part : parts) names.add(part.name);
        return number + "|" + customer + "|" + note + "|" + colour + "|" + String.join(",", names);
    }
}

/** As applications have them: in a namespace, and everything may be null. */
class Shop {
    enum Size {
        SMALL, LARGE
    }

    static class Sale {
        public String customer;
        public Size size;
        public Map<String, Long> counts;

        String text() {
            return customer + "|" + size + "|" + (counts == null ? "null" : new TreeMap<>(counts));
        }
    }

    static class Item {
        public Size size;
        public Label label;
        public List<Size> others;

        String text() {
            return size + "|" + label.name + "|" + others;
        }
    }

    static class Label {
        public String name;
    }

    static Item item(String name, Size size, Size... others) {
        var made = new Item();
        made.size = size;
        made.label = new Label();
        made.label.name = name;
        made.others = List.of(others);
        return made;
    }

    static Sale sale(String customer, Size size) {
        var made = new Sale();
        made.customer = customer;
        made.size = size;
        if (size != null) made.counts = Map.of("a", 1L);
        return made;
    }
}
