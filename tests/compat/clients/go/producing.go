package main

import (
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

func open(client pulsar.Client, name string, mode pulsar.ProducerAccessMode) (pulsar.Producer, error) {
	return client.CreateProducer(pulsar.ProducerOptions{Topic: topic(name), ProducerAccessMode: mode})
}

func registerProducing() {
	features["produce_and_consume"] = func(client pulsar.Client) {
		consumer := on(client, "plain")
		send(client, "plain", "a", "b")
		same(receive(consumer, 2), []string{"a", "b"})
	}
	features["keys_and_properties"] = func(client pulsar.Client) {
		consumer := on(client, "props")
		when := time.UnixMilli(5)
		publish(producing(client, pulsar.ProducerOptions{Topic: topic("props")}), pulsar.ProducerMessage{
			Payload: []byte("x"), Key: "k", EventTime: when, Properties: map[string]string{"ü": "1"},
		})
		message := next(consumer)
		same([]any{message.Key(), message.Properties(), message.EventTime().UnixMilli()}, []any{"k", map[string]string{"ü": "1"}, int64(5)})
	}
	features["batches"] = func(client pulsar.Client) {
		consumer := on(client, "batches")
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("batches"), BatchingMaxPublishDelay: 50 * time.Millisecond})
		wanted := strings.Split("0123456789", "")
		for _, text := range wanted {
			producer.SendAsync(soon(8*time.Second), &pulsar.ProducerMessage{Payload: []byte(text)},
				func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
		}
		check(producer.Flush())
		same(receive(consumer, 10), wanted)
	}
	features["compression"] = func(client pulsar.Client) {
		consumer := on(client, "compression")
		for _, kind := range []pulsar.CompressionType{pulsar.LZ4, pulsar.ZLib, pulsar.ZSTD} {
			text := strings.Repeat("text", 50)
			producer := producing(client, pulsar.ProducerOptions{Topic: topic("compression"), CompressionType: kind})
			publish(producer, pulsar.ProducerMessage{Payload: []byte(text)})
			same(receive(consumer, 1), []string{text})
		}
	}
	features["chunks"] = func(client pulsar.Client) {
		consumer := on(client, "chunks")
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("chunks"), DisableBatching: true, EnableChunking: true})
		publish(producer, pulsar.ProducerMessage{Payload: make([]byte, 6_000_000)})
		same(len(next(consumer).Payload()), 6_000_000)
	}
	features["encryption"] = func(client pulsar.Client) {
		keys := crypto.NewFileKeyReader(plan["public_key"], plan["private_key"])
		consumer := on(client, "secret", func(o *pulsar.ConsumerOptions) { o.Decryption = &pulsar.MessageDecryptionInfo{KeyReader: keys} })
		producer := producing(client, pulsar.ProducerOptions{
			Topic: topic("secret"), Encryption: &pulsar.ProducerEncryptionInfo{KeyReader: keys, Keys: []string{"key"}},
		})
		publish(producer, pulsar.ProducerMessage{Payload: []byte("x")})
		same(receive(consumer, 1), []string{"x"})
	}
	features["deduplication"] = func(client pulsar.Client) {
		name := plan["deduplicated"] + "t"
		consumer := on(client, "", func(o *pulsar.ConsumerOptions) { o.Topic = name })
		producer := producing(client, pulsar.ProducerOptions{Topic: name, Name: "p", DisableBatching: true})
		for number, text := range []string{"1", "2", "2", "3"} {
			sequence := int64([]int{1, 2, 2, 3}[number])
			publish(producer, pulsar.ProducerMessage{Payload: []byte(text), SequenceID: &sequence})
		}
		same(receive(consumer, 3), []string{"1", "2", "3"})
	}
	features["exclusive_producer"] = func(client pulsar.Client) {
		must(open(client, "mode", pulsar.ProducerAccessModeExclusive))
		_, err := open(client, "mode", pulsar.ProducerAccessModeExclusive)
		refused(err, "ProducerFenced", "ProducerBusy")
	}
	features["waiting_producer"] = func(client pulsar.Client) {
		first := must(open(client, "wait", pulsar.ProducerAccessModeExclusive))
		done := make(chan error, 1)
		go func() {
			second, err := open(client, "wait", pulsar.ProducerAccessModeWaitForExclusive)
			if err == nil {
				_, err = second.Send(soon(8*time.Second), &pulsar.ProducerMessage{Payload: []byte("x")})
			}
			done <- err
		}()
		first.Close()
		check(<-done)
	}
	features["partitioned_topics"] = func(client pulsar.Client) {
		consumer := on(client, "", func(o *pulsar.ConsumerOptions) { o.Topic = plan["partitioned"] })
		producer := producing(client, pulsar.ProducerOptions{Topic: plan["partitioned"]})
		wanted := strings.Split("012345", "")
		for _, text := range wanted {
			publish(producer, pulsar.ProducerMessage{Payload: []byte(text)})
		}
		same(sorted(receive(consumer, 6)), wanted)
	}
}
