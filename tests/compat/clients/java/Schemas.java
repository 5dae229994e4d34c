import java.util.*;
import java.util.concurrent.*;
import com.google.protobuf.StringValue;
import com.google.protobuf.UInt64Value;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.GenericSchema;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/** Schemas: what an application registers, evolves, and reads without knowing. */
class Schemas {
    public static class Reading {
        public String sensor;
        public int value;
    }

    /** With nothing of it but a name. */
    public static class Other {
        public double sensor;
    }

    static Reading reading(String sensor, int value) {
        var made = new Reading();
        made.sensor = sensor;
        made.value = value;
        return made;
    }

    static GenericSchema<GenericRecord> avro(String fields) {
        String text = "{\"type\":\"record\",\"name\":\"Reading\",\"namespace\":\"test\",\"fields\":[" + fields + "]}";
        return Schema.generic(Schema.AVRO(SchemaDefinition.builder().withJsonDef(text).build()).getSchemaInfo());
    }

    static final String SENSOR = "{\"name\":\"sensor\",\"type\":\"string\"}", VALUE = "{\"name\":\"value\",\"type\":\"int\"}",
            UNIT = "{\"name\":\"unit\",\"type\":\"string\",\"default\":\"C\"}", OTHER = "{\"name\":\"sensor\",\"type\":\"double\"}";

    static GenericSchema<GenericRecord> first() {
        return avro(SENSOR + "," + VALUE);
    }

    static GenericSchema<GenericRecord> wider() {
        return avro(SENSOR + "," + VALUE + "," + UNIT);
    }

    static GenericRecord record(GenericSchema<GenericRecord> schema, String sensor) {
        var made = schema.newRecordBuilder().set("sensor", sensor).set("value", 1);
        return (schema.getFields().size() == 3 ? made.set("unit", "F") : made).build();
    }

    static <T> Consumer<T> consumer(PulsarClient client, Schema<T> schema, String name) throws Exception {
        return client.newConsumer(schema).topic(Probe.topic(name)).subscriptionName("s").subscribe();
    }

    static <T> Producer<T> producer(PulsarClient client, Schema<T> schema, String name) throws Exception {
        return client.newProducer(schema).topic(Probe.topic(name)).create();
    }

    static <T> Message<T> next(Consumer<T> consumer) throws Exception {
        Message<T> message = consumer.receive(8, TimeUnit.SECONDS);
        if (message == null) throw new IllegalStateException("no message came");
        consumer.acknowledge(message);
        return message;
    }

    /** What comes of a value that was sent with a schema. */
    static <T> T through(PulsarClient client, Schema<T> schema, String name, T value) throws Exception {
        try (var consumer = consumer(client, schema, name); var producer = producer(client, schema, name)) {
            producer.send(value);
            return next(consumer).getValue();
        }
    }

    static void register(Map<String, Probe.Feature> features) {
        features.put("primitive_schemas", client -> {
            Probe.same(through(client, Schema.STRING, "sc-string", "ü"), "ü");
            Probe.same(through(client, Schema.BOOL, "sc-bool", true), true);
            Probe.same(through(client, Schema.INT8, "sc-int8", (byte) -8), (byte) -8);
            Probe.same(through(client, Schema.INT64, "sc-int64", Long.MIN_VALUE), Long.MIN_VALUE);
            Probe.same(through(client, Schema.DOUBLE, "sc-double", 1.5), 1.5);
            Probe.same(through(client, Schema.TIMESTAMP, "sc-time", new java.sql.Timestamp(5)), new java.sql.Timestamp(5));
            Probe.same(through(client, Schema.LOCAL_DATE, "sc-date", java.time.LocalDate.of(2026, 1, 31)), java.time.LocalDate.of(2026, 1, 31));
            Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> producer(client, Schema.INT32, "sc-string"));
        });
        features.put("json_schema", client -> {
            var found = through(client, Schema.JSON(Reading.class), "sc-json", reading("a", 7));
            Probe.same(List.of(found.sensor, found.value), List.of("a", 7));
            Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> producer(client, Schema.JSON(Other.class), "sc-json"));
        });
        features.put("avro_schema", client -> {
            var found = through(client, Schema.AVRO(Reading.class), "sc-avro", reading("a", 7));
            Probe.same(List.of(found.sensor, found.value), List.of("a", 7));
        });
        features.put("protobuf_schema", client -> Probe.same(
                through(client, Schema.PROTOBUF(StringValue.class), "sc-proto", StringValue.of("a")), StringValue.of("a")));
        features.put("protobuf_native_schema", client -> {
            Probe.same(through(client, Schema.PROTOBUF_NATIVE(StringValue.class), "sc-native", StringValue.of("a")), StringValue.of("a"));
            Probe.refused(PulsarClientException.class, () -> producer(client, Schema.PROTOBUF_NATIVE(UInt64Value.class), "sc-native"));
        });
        features.put("key_value_schemas", client -> {
            for (var encoding : KeyValueEncodingType.values()) {
                var schema = Schema.KeyValue(Schema.AVRO(Reading.class), Schema.INT32, encoding);
                try (var consumer = consumer(client, schema, "sc-kv-" + encoding); var producer = producer(client, schema, "sc-kv-" + encoding)) {
                    producer.send(new KeyValue<>(reading("k", 1), 5));
                    var message = next(consumer);
                    Probe.same(List.of(message.getValue().getKey().sensor, message.getValue().getValue()), List.of("k", 5));
                    Probe.same(message.hasKey(), encoding == KeyValueEncodingType.SEPARATED);
                }
                var other = Schema.KeyValue(Schema.STRING, Schema.INT32, encoding);
                Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> producer(client, other, "sc-kv-" + encoding));
            }
        });
        features.put("schema_evolution", client -> {
            try (var before = consumer(client, first(), "sc-evolves"); var oldest = producer(client, first(), "sc-evolves");
                 var newest = producer(client, wider(), "sc-evolves");
                 var after = client.newConsumer(wider()).topic(Probe.topic("sc-evolves")).subscriptionName("all").subscribe()) {
                oldest.send(record(first(), "old"));
                newest.send(record(wider(), "new"));
                List<Object> versions = new ArrayList<>(), sensors = new ArrayList<>(), units = new ArrayList<>();
                for (int number = 0; number < 2; number++) {
                    Message<GenericRecord> message = next(before);
                    versions.add(message.getSchemaVersion()[7]);
                    sensors.add(message.getValue().getField("sensor"));
                    units.add(next(after).getValue().getField("unit"));
                }
                Probe.same(List.of(versions, sensors), List.of(List.of((byte) 0, (byte) 1), List.of("old", "new")));
                Probe.same(units, List.of("C", "F"));
            }
        });
        features.put("incompatible_schema", client -> {
            producer(client, first(), "sc-strict").close();
            Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> producer(client, avro(OTHER), "sc-strict"));
            Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> consumer(client, avro(OTHER), "sc-strict"));
            Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> consumer(client, Schema.STRING, "sc-strict"));
        });
        features.put("auto_consume", client -> {
            try (Consumer<GenericRecord> consumer = consumer(client, Schema.AUTO_CONSUME(), "sc-auto");
                 var oldest = producer(client, first(), "sc-auto"); var newest = producer(client, wider(), "sc-auto")) {
                oldest.send(record(first(), "old"));
                newest.send(record(wider(), "new"));
                GenericRecord one = next(consumer).getValue(), two = next(consumer).getValue();
                Probe.same(List.of(one.getField("sensor"), one.getFields().size()), List.of("old", 2));
                Probe.same(List.of(two.getField("unit"), two.getFields().size()), List.of("F", 3));
            }
            var pairs = Schema.KeyValue(Schema.STRING, Schema.INT32, KeyValueEncodingType.SEPARATED);
            try (Consumer<GenericRecord> consumer = consumer(client, Schema.AUTO_CONSUME(), "sc-auto-kv");
                 var producer = producer(client, pairs, "sc-auto-kv")) {
                producer.send(new KeyValue<>("k", 5));
                var found = (KeyValue<?, ?>) next(consumer).getValue().getNativeObject();
                Probe.same(List.of(found.getKey(), found.getValue()), List.of("k", 5));
            }
        });
        features.put("auto_produce", client -> {
            try (var consumer = consumer(client, first(), "sc-bytes"); var producer = producer(client, Schema.AUTO_PRODUCE_BYTES(), "sc-bytes")) {
                producer.send(first().encode(record(first(), "a")));
                Probe.same(next(consumer).getValue().getField("sensor"), "a");
                Probe.refused(SchemaSerializationException.class, () -> producer.send(new byte[] {(byte) 0xff, (byte) 0xff}));
            }
        });
        features.put("without_a_schema", client -> {
            try (var plain = Probe.on(client, "sc-plain").subscribe(); var producer = producer(client, Schema.STRING, "sc-plain");
                 var bytes = producer(client, Schema.BYTES, "sc-plain")) {
                producer.send("a");
                bytes.send("b".getBytes());
                Probe.same(Probe.receive(plain, 2), List.of("a", "b"));
            }
        });
        features.put("enforced_schemas", client -> {
            String topic = Probe.plan.get("enforced") + "java";
            client.newProducer(Schema.STRING).topic(topic).create().close();
            Probe.refused(PulsarClientException.IncompatibleSchemaException.class, () -> client.newProducer().topic(topic).create());
            client.newConsumer().topic(topic).subscriptionName("s").subscribe();
        });
    }
}
