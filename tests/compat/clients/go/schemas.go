package main

import (
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type reading struct {
	Sensor string `avro:"sensor" json:"sensor"`
	Value  int    `avro:"value" json:"value"`
}

const (
	sensorField = `{"name":"sensor","type":"string"}`
	valueField  = `{"name":"value","type":"int"}`
	unitField   = `{"name":"unit","type":"string","default":"C"}`
	otherField  = `{"name":"sensor","type":"double"}`
)

func record(fields string) string {
	return fmt.Sprintf(`{"type":"record","name":"Reading","namespace":"test","fields":[%s]}`, fields)
}

func first() string { return record(sensorField + "," + valueField) }
func wider() string { return record(sensorField + "," + valueField + "," + unitField) }
func other() string { return record(otherField) }

func withSchema(client pulsar.Client, name string, schema pulsar.Schema) pulsar.Producer {
	return producing(client, pulsar.ProducerOptions{Topic: topic(name), Schema: schema})
}

func reader(client pulsar.Client, name string, schema pulsar.Schema) pulsar.Consumer {
	return on(client, name, func(o *pulsar.ConsumerOptions) { o.Schema = schema })
}

// incompatible says that neither a producer nor a consumer may have this schema.
func incompatible(client pulsar.Client, name string, schema pulsar.Schema) {
	_, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic(name), Schema: schema})
	refused(err, "IncompatibleSchema")
	_, err = client.Subscribe(pulsar.ConsumerOptions{Topic: topic(name), SubscriptionName: "other", Schema: schema})
	refused(err, "IncompatibleSchema")
}

// through sends a value with a schema; found is where what comes is put.
func through(client pulsar.Client, name string, schema pulsar.Schema, value, found any) {
	consumer := reader(client, name, schema)
	defer consumer.Close()
	producer := withSchema(client, name, schema)
	defer producer.Close()
	publish(producer, pulsar.ProducerMessage{Value: value})
	message := next(consumer)
	check(message.GetSchemaValue(found))
	check(consumer.Ack(message))
}

func registerSchemas() {
	features["primitive_schemas"] = func(client pulsar.Client) {
		var text *string
		through(client, "sc-string", pulsar.NewStringSchema(nil), "ü", &text)
		var short int8
		through(client, "sc-int8", pulsar.NewInt8Schema(nil), int8(-8), &short)
		var long int64
		through(client, "sc-int64", pulsar.NewInt64Schema(nil), int64(-1<<62), &long)
		var half float64
		through(client, "sc-double", pulsar.NewDoubleSchema(nil), 1.5, &half)
		same([]any{*text, short, long, half}, []any{"ü", int8(-8), int64(-1 << 62), 1.5})
		incompatible(client, "sc-string", pulsar.NewInt32Schema(nil))
	}
	features["json_schema"] = func(client pulsar.Client) {
		var found reading
		through(client, "sc-json", pulsar.NewJSONSchema(first(), nil), reading{"a", 7}, &found)
		same(found, reading{"a", 7})
		incompatible(client, "sc-json", pulsar.NewJSONSchema(other(), nil))
	}
	features["avro_schema"] = func(client pulsar.Client) {
		var found reading
		through(client, "sc-avro", pulsar.NewAvroSchema(first(), nil), reading{"a", 7}, &found)
		same(found, reading{"a", 7})
	}
	features["protobuf_schema"] = func(client pulsar.Client) {
		schema := pulsar.NewProtoSchema(record(`{"name":"value","type":"string"}`), nil)
		found := &wrapperspb.StringValue{}
		through(client, "sc-proto", schema, wrapperspb.String("a"), found)
		same(proto.Equal(found, wrapperspb.String("a")), true)
	}
	features["protobuf_native_schema"] = func(client pulsar.Client) {
		found := &wrapperspb.StringValue{}
		through(client, "sc-native", pulsar.NewProtoNativeSchemaWithMessage(found, nil), wrapperspb.String("a"), found)
		same(found.Value, "a")
		incompatible(client, "sc-native", pulsar.NewProtoNativeSchemaWithMessage(&wrapperspb.UInt64Value{}, nil))
	}
	features["schema_evolution"] = func(client pulsar.Client) {
		consumer := reader(client, "sc-evolves", pulsar.NewAvroSchema(wider(), nil))
		var versions []any
		for _, definition := range []string{wider(), first(), wider()} {
			producer := withSchema(client, "sc-evolves", pulsar.NewAvroSchema(definition, nil))
			publish(producer, pulsar.ProducerMessage{Value: map[string]any{"sensor": "a", "value": 1, "unit": "F"}})
			producer.Close()
			message := next(consumer)
			versions = append(versions, message.SchemaVersion())
			check(consumer.Ack(message))
		}
		same(versions, []any{[]byte{0, 0, 0, 0, 0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 0, 0, 0}})
	}
	features["incompatible_schema"] = func(client pulsar.Client) {
		withSchema(client, "sc-strict", pulsar.NewAvroSchema(first(), nil)).Close()
		incompatible(client, "sc-strict", pulsar.NewAvroSchema(other(), nil))
		incompatible(client, "sc-strict", pulsar.NewStringSchema(nil))
	}
	features["without_a_schema"] = func(client pulsar.Client) {
		consumer := on(client, "sc-plain")
		publish(withSchema(client, "sc-plain", pulsar.NewStringSchema(nil)), pulsar.ProducerMessage{Value: "a"})
		publish(producing(client, pulsar.ProducerOptions{Topic: topic("sc-plain")}), pulsar.ProducerMessage{Payload: []byte("b")})
		same(receive(consumer, 2), []string{"a", "b"})
	}
	features["enforced_schemas"] = func(client pulsar.Client) {
		name := plan["enforced"] + "go"
		producing(client, pulsar.ProducerOptions{Topic: name, Schema: pulsar.NewStringSchema(nil)}).Close()
		_, err := client.CreateProducer(pulsar.ProducerOptions{Topic: name})
		refused(err, "IncompatibleSchema")
		must(client.Subscribe(pulsar.ConsumerOptions{Topic: name, SubscriptionName: "s"})).Close()
	}
}
