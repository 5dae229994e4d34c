package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

// What Campaign.java does, with this client: it is told on standard input what to do, and tells what it was told by brokers.
// tests/compat/fleet/programs.py has the words.

var output sync.Mutex

func tell(words ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(words...)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func publishAll(producer pulsar.Producer, topic, name string, pause time.Duration, closing <-chan struct{}, done *sync.WaitGroup) {
	defer done.Done()
	room := make(chan struct{}, 50)
	for number := 0; ; number++ {
		select {
		case <-closing:
			for range cap(room) { // each has its receipt
				room <- struct{}{}
			}
			producer.Close()
			return
		case <-time.After(pause):
		}
		room <- struct{}{}
		key := fmt.Sprintf("%s-k%d", name, number%5)
		payload := fmt.Sprintf("%s:%d", key, number)
		started := time.Now().UnixMilli()
		message := &pulsar.ProducerMessage{Payload: []byte(payload), Key: key}
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				tell("refused", topic, payload, oneLine(err))
			} else {
				tell("receipt", topic, payload, started)
			}
			<-room
		})
	}
}

// acknowledged are ids, by topic and subscription. A message that comes again though its acknowledgement was answered is not
// acknowledged again: one that the broker forgot stays in its backlog.
var acknowledged sync.Map

func acknowledge(consumer pulsar.Consumer, message pulsar.Message, topic, subscription, id string) {
	for consumer.Ack(message) != nil {
		time.Sleep(500 * time.Millisecond)
	}
	acknowledged.Store(topic+subscription+id, true)
	tell("acknowledged", topic, subscription, id)
}

func consumeAll(consumer pulsar.Consumer, topic, subscription string) {
	for {
		message, err := consumer.Receive(context.Background())
		if err != nil {
			tell("ended", topic, subscription, oneLine(err))
			return
		}
		id := fmt.Sprintf("%d:%d:%d", message.ID().LedgerID(), message.ID().EntryID(), message.ID().BatchIdx())
		tell("came", topic, subscription, id, string(message.Payload()))
		if _, answered := acknowledged.Load(topic + subscription + id); !answered {
			go acknowledge(consumer, message, topic, subscription, id)
		}
	}
}

// steady tries again each second or two, where the client's own rule waits up to a minute.
type steady struct{}

func steadily() backoff.Policy { return steady{} }

func (steady) Next() time.Duration       { return time.Second + rand.N(time.Second) }
func (steady) IsMaxBackoffReached() bool { return false }
func (steady) Reset()                    {}

// opened tries until it succeeds: this client does not by itself, as where the topic is being handed over.
func opened[T any](open func() (T, error)) T {
	for {
		value, err := open()
		if err == nil {
			return value
		}
		time.Sleep(500 * time.Millisecond)
	}
}

var types = map[string]pulsar.SubscriptionType{
	"Exclusive": pulsar.Exclusive, "Failover": pulsar.Failover, "Key_Shared": pulsar.KeyShared, "Shared": pulsar.Shared,
}

func campaign() {
	client := must(pulsar.NewClient(pulsar.ClientOptions{
		URL: plan["broker"], Authentication: pulsar.NewAuthenticationToken(plan["token"]),
		Logger:           log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		OperationTimeout: 15 * time.Second, KeepAliveInterval: 10 * time.Second, ConnectionTimeout: 5 * time.Second,
	}))
	closing := make(chan struct{})
	var publishing sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "publish": // topic, name, batched or single, pause in milliseconds
			pause := must(time.ParseDuration(words[4] + "ms"))
			options := pulsar.ProducerOptions{
				Topic: words[1], Name: words[2], DisableBatching: words[3] == "single", SendTimeout: -1, MaxPendingMessages: 60,
				BatchingMaxPublishDelay: 5 * time.Millisecond, BackOffPolicyFunc: steadily,
			}
			producer := opened(func() (pulsar.Producer, error) { return client.CreateProducer(options) })
			publishing.Add(1)
			go publishAll(producer, words[1], words[2], pause, closing, &publishing)
		case "consume": // topic, subscription, type
			options := pulsar.ConsumerOptions{
				Topic: words[1], SubscriptionName: words[2], Type: types[words[3]], AckWithResponse: true,
				EnableBatchIndexAcknowledgment: true, SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
				BackOffPolicyFunc: steadily,
			}
			consumer := opened(func() (pulsar.Consumer, error) { return client.Subscribe(options) })
			go consumeAll(consumer, words[1], words[2])
		case "close":
			close(closing)
			publishing.Wait()
			tell("closed")
		}
		tell("done", strings.Join(words, " "))
	}
}
