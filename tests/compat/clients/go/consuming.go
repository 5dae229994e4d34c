package main

import (
	"errors"
	"reflect"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

type change = func(*pulsar.ConsumerOptions)

func shared(o *pulsar.ConsumerOptions) { o.Type = pulsar.Shared }

func registerConsuming() {
	features["exclusive_subscription"] = func(client pulsar.Client) {
		on(client, "excl")
		_, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic("excl"), SubscriptionName: "s"})
		refused(err, "ConsumerBusy")
	}
	features["shared_subscription"] = func(client pulsar.Client) {
		few := func(o *pulsar.ConsumerOptions) { o.ReceiverQueueSize = 3 }
		consumers := []pulsar.Consumer{on(client, "shared", shared, few), on(client, "shared", shared, few)}
		send(client, "shared", "a", "b", "c", "d", "e", "f")
		found := []string{}
		for _, consumer := range consumers {
			found = append(found, rest(consumer)...)
		}
		same(sorted(found), []string{"a", "b", "c", "d", "e", "f"})
	}
	features["failover_subscription"] = func(client pulsar.Client) {
		name := plan["single"] + "-partition-0"
		named := func(text string) change {
			return func(o *pulsar.ConsumerOptions) { o.Topic, o.Name, o.Type = name, text, pulsar.Failover }
		}
		first, second := on(client, "", named("a")), on(client, "", named("b"))
		producer := producing(client, pulsar.ProducerOptions{Topic: name})
		publish(producer, pulsar.ProducerMessage{Payload: []byte("x")})
		same(receive(first, 1), []string{"x"})
		first.Close()
		publish(producer, pulsar.ProducerMessage{Payload: []byte("y")})
		found := receive(second, 1)
		if found[0] == "x" { // the acknowledgement was still on its way
			found = receive(second, 1)
		}
		same(found, []string{"y"})
	}
	features["key_shared_subscription"] = func(client pulsar.Client) {
		consumer := on(client, "keyed", func(o *pulsar.ConsumerOptions) { o.Type = pulsar.KeyShared })
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("keyed"), BatcherBuilderType: pulsar.KeyBasedBatchBuilder})
		for _, key := range []string{"a", "b"} {
			publish(producer, pulsar.ProducerMessage{Key: key, Payload: []byte(key)})
		}
		same(receive(consumer, 2), []string{"a", "b"})
	}
	features["sticky_key_ranges"] = func(client pulsar.Client) {
		policy := must(pulsar.NewKeySharedPolicySticky([]int{0, 65535}))
		consumer := on(client, "sticky", func(o *pulsar.ConsumerOptions) { o.Type, o.KeySharedPolicy = pulsar.KeyShared, policy })
		publish(producing(client, pulsar.ProducerOptions{Topic: topic("sticky")}), pulsar.ProducerMessage{Key: "k", Payload: []byte("x")})
		same(receive(consumer, 1), []string{"x"})
	}
	features["subscription_properties"] = func(client pulsar.Client) {
		on(client, "labels", func(o *pulsar.ConsumerOptions) { o.SubscriptionProperties = map[string]string{"team": "blue"} })
	}
	features["initial_position"] = func(client pulsar.Client) {
		send(client, "early", "a")
		same(receive(on(client, "early", earliest), 1), []string{"a"})
	}
	features["several_topics"] = func(client pulsar.Client) {
		names := []string{topic("several-1"), topic("several-2")}
		consumer := on(client, "", func(o *pulsar.ConsumerOptions) { o.Topic, o.Topics = "", names })
		send(client, "several-1", "a")
		send(client, "several-2", "b")
		same(sorted(receive(consumer, 2)), []string{"a", "b"})
	}
	features["topics_by_pattern"] = func(client pulsar.Client) {
		send(client, "pattern-1", "early")
		same(receive(on(client, "", earliest, pattern("pattern-.*")), 1), []string{"early"})
	}
	features["topics_by_pattern_made_later"] = func(client pulsar.Client) {
		consumer := on(client, "", earliest, pattern("later-.*"))
		send(client, "later-1", "late")
		same(receive(consumer, 1), []string{"late"})
	}
	features["cumulative_acknowledgement"] = func(client pulsar.Client) {
		consumer := on(client, "cumulative")
		send(client, "cumulative", "a", "b", "c")
		next(consumer)
		check(consumer.AckCumulative(next(consumer)))
		consumer.Close()
		same(receive(on(client, "cumulative"), 1), []string{"c"})
	}
	features["acknowledgement_receipts"] = func(client pulsar.Client) {
		consumer := on(client, "receipts", func(o *pulsar.ConsumerOptions) { o.AckWithResponse = true })
		send(client, "receipts", "a")
		check(consumer.Ack(next(consumer)))
	}
	features["batch_index_acknowledgement"] = func(client pulsar.Client) {
		byIndex := func(o *pulsar.ConsumerOptions) { o.EnableBatchIndexAcknowledgment = true }
		consumer := on(client, "index", byIndex)
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("index"), BatchingMaxMessages: 3, BatchingMaxPublishDelay: 2 * time.Second})
		for _, text := range []string{"a", "b", "c"} {
			producer.SendAsync(soon(8*time.Second), &pulsar.ProducerMessage{Payload: []byte(text)},
				func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
		}
		check(producer.Flush())
		next(consumer)
		check(consumer.Ack(next(consumer)))
		consumer.Close()
		same(receive(on(client, "index", byIndex), 2), []string{"a", "c"})
	}
	features["negative_acknowledgement"] = func(client pulsar.Client) {
		consumer := on(client, "nack", shared)
		send(client, "nack", "a")
		consumer.Nack(next(consumer))
		same(next(consumer).RedeliveryCount(), uint32(1))
	}
	features["dead_letters"] = func(client pulsar.Client) {
		dead := on(client, "graves")
		policy := &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: topic("graves")}
		consumer := on(client, "dead", shared, func(o *pulsar.ConsumerOptions) { o.DLQ = policy })
		send(client, "dead", "a")
		for round := 0; round < 2; round++ {
			consumer.Nack(next(consumer))
		}
		rest(consumer)
		same(receive(dead, 1), []string{"a"})
	}
	features["retry_letters"] = func(client pulsar.Client) {
		policy := &pulsar.DLQPolicy{MaxDeliveries: 4, DeadLetterTopic: topic("retry-dead"), RetryLetterTopic: topic("retry-again")}
		consumer := on(client, "retry", shared, func(o *pulsar.ConsumerOptions) { o.RetryEnable, o.DLQ = true, policy })
		send(client, "retry", "a")
		consumer.ReconsumeLater(next(consumer), time.Second)
		same(next(consumer).Properties()["RECONSUMETIMES"], "1")
	}
	features["delayed_delivery"] = func(client pulsar.Client) {
		consumer := on(client, "delayed", shared)
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("delayed")})
		publish(producer, pulsar.ProducerMessage{Payload: []byte("late"), DeliverAfter: 2 * time.Second})
		publish(producer, pulsar.ProducerMessage{Payload: []byte("now")})
		same(receive(consumer, 2), []string{"now", "late"})
	}
	features["delayed_through_a_restart"] = func(client pulsar.Client) {
		consumer := on(client, "restart", func(o *pulsar.ConsumerOptions) { o.Type = pulsar.KeyShared })
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("restart")})
		at := time.Now().Add(3 * time.Second)
		publish(producer, pulsar.ProducerMessage{Payload: []byte("much later"), Key: "k", DeliverAt: at.Add(time.Hour)})
		publish(producer, pulsar.ProducerMessage{Payload: []byte("late"), Key: "k", DeliverAt: at})
		unload("restart")
		publish(producer, pulsar.ProducerMessage{Payload: []byte("now"), Key: "k"})
		found := []string{}
		for len(found) < 2 {
			found = append(found, receive(consumer, 1)[0])
			if found[len(found)-1] == "late" && time.Until(at) > time.Second {
				panic(errors.New("it came early"))
			}
		}
		same(sorted(found), []string{"late", "now"})
		same(rest(consumer), []string{})
	}
	features["unsubscribe"] = func(client pulsar.Client) {
		check(on(client, "unsub").Unsubscribe())
		send(client, "unsub", "a")
		same(rest(on(client, "unsub")), []string{})
	}
	features["unsubscribe_by_force"] = func(client pulsar.Client) {
		consumer := on(client, "force", shared)
		on(client, "force", shared)
		check(consumer.UnsubscribeForce())
	}
	features["seek_to_a_message"] = func(client pulsar.Client) {
		consumer := on(client, "seek", func(o *pulsar.ConsumerOptions) { o.StartMessageIDInclusive = true })
		ids := send(client, "seek", "a", "b", "c")
		receive(consumer, 3)
		check(consumer.Seek(ids[1]))
		same(receive(consumer, 2), []string{"b", "c"})
	}
	features["seek_to_a_time"] = func(client pulsar.Client) {
		consumer := on(client, "time")
		send(client, "time", "a")
		receive(consumer, 1)
		check(consumer.SeekByTime(time.UnixMilli(1)))
		same(receive(consumer, 1), []string{"a"})
	}
	features["last_message_id"] = func(client pulsar.Client) {
		consumer := on(client, "last")
		ids := send(client, "last", "a", "b")
		same(must(consumer.GetLastMessageIDs())[0].EntryID(), ids[1].EntryID())
	}
	features["readers"] = func(client pulsar.Client) {
		send(client, "reader", "a", "b")
		reader := must(client.CreateReader(pulsar.ReaderOptions{Topic: topic("reader"), StartMessageID: pulsar.EarliestMessageID()}))
		found := []string{}
		for reader.HasNext() {
			found = append(found, string(must(reader.Next(soon(8*time.Second))).Payload()))
		}
		same(found, []string{"a", "b"})
	}
	features["no_receiver_queue"] = func(client pulsar.Client) {
		consumer := on(client, "zero", func(o *pulsar.ConsumerOptions) { o.EnableZeroQueueConsumer = true })
		send(client, "zero", "a", "b")
		same(receive(consumer, 2), []string{"a", "b"})
	}
	features["table_views"] = func(client pulsar.Client) {
		schema := pulsar.NewStringSchema(nil)
		producer := producing(client, pulsar.ProducerOptions{Topic: topic("table"), Schema: schema})
		for _, value := range []string{"1", "2"} {
			publish(producer, pulsar.ProducerMessage{Key: "k", Value: value})
		}
		view := must(client.CreateTableView(pulsar.TableViewOptions{
			Topic: topic("table"), Schema: schema, SchemaValueType: reflect.TypeOf((*string)(nil)),
		}))
		same(reflect.Indirect(reflect.Indirect(reflect.ValueOf(view.Get("k")))).String(), "2")
	}
}

func earliest(o *pulsar.ConsumerOptions) {
	o.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
}

func pattern(name string) change {
	return func(o *pulsar.ConsumerOptions) {
		o.Topic, o.TopicsPattern, o.AutoDiscoveryPeriod = "", topic(name), time.Second
	}
}
