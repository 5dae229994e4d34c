// What Apache's Go client can do against a platform: a JSON line for each feature. The argument is a JSON object of strings, which
// tests/compat/probes/__init__.py describes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

var plan map[string]string
var features = map[string]func(client pulsar.Client){}

func topic(name string) string { return plan["topics"] + name }

// must ends a feature with an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("%v instead of %v", found, wanted))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func refused(err error, words ...string) {
	if err == nil {
		panic(errors.New("not refused"))
	}
	for _, word := range words {
		if strings.Contains(err.Error(), word) {
			return
		}
	}
	panic(err)
}

func soon(wait time.Duration) context.Context {
	ctx, _ := context.WithTimeout(context.Background(), wait) //nolint:govet // ends by itself
	return ctx
}

func next(consumer pulsar.Consumer) pulsar.Message {
	return must(consumer.Receive(soon(8 * time.Second)))
}

func receive(consumer pulsar.Consumer, count int) []string {
	found := []string{}
	for len(found) < count {
		message := next(consumer)
		check(consumer.Ack(message))
		found = append(found, string(message.Payload()))
	}
	return found
}

func rest(consumer pulsar.Consumer) []string {
	found := []string{}
	for {
		message, err := consumer.Receive(soon(400 * time.Millisecond))
		if err != nil {
			return found
		}
		check(consumer.Ack(message))
		found = append(found, string(message.Payload()))
	}
}

func sorted(texts []string) []string {
	sort.Strings(texts)
	return texts
}

func on(client pulsar.Client, name string, change ...func(*pulsar.ConsumerOptions)) pulsar.Consumer {
	options := pulsar.ConsumerOptions{Topic: topic(name), SubscriptionName: "s", NackRedeliveryDelay: 100 * time.Millisecond}
	for _, one := range change {
		one(&options)
	}
	return must(client.Subscribe(options))
}

func producing(client pulsar.Client, options pulsar.ProducerOptions) pulsar.Producer {
	return must(client.CreateProducer(options))
}

func publish(producer pulsar.Producer, message pulsar.ProducerMessage) pulsar.MessageID {
	return must(producer.Send(soon(8*time.Second), &message))
}

func send(client pulsar.Client, name string, texts ...string) []pulsar.MessageID {
	producer := producing(client, pulsar.ProducerOptions{Topic: topic(name), DisableBatching: true})
	defer producer.Close()
	ids := []pulsar.MessageID{}
	for _, text := range texts {
		ids = append(ids, publish(producer, pulsar.ProducerMessage{Payload: []byte(text)}))
	}
	return ids
}

// unload does to a topic what a restart of its broker does: what the broker knows of it is what it stored.
func unload(name string) {
	url := plan["admin"] + "/admin/v2/" + strings.Replace(topic(name), "://", "/", 1) + "/unload"
	request := must(http.NewRequest(http.MethodPut, url, nil))
	request.Header.Set("Authorization", "Bearer "+plan["token"])
	answer := must(http.DefaultClient.Do(request))
	check(answer.Body.Close())
	same(answer.StatusCode/100, 2)
}

func run(name string) (result map[string]any) {
	result = map[string]any{"feature": name, "ok": true}
	defer func() {
		if failure := recover(); failure != nil {
			result["ok"] = false
			result["error"] = fmt.Sprint(failure)
		}
	}()
	client := must(pulsar.NewClient(pulsar.ClientOptions{
		URL: plan["broker"], Authentication: pulsar.NewAuthenticationToken(plan["token"]), OperationTimeout: 10 * time.Second,
		Logger: log.DefaultNopLogger(),
		// With a certificate to trust, over TLS, and only to a host that it is for.
		TLSTrustCertsFilePath: plan["trust"], TLSValidateHostname: plan["trust"] != "",
	}))
	defer client.Close()
	features[name](client)
	return
}

func main() {
	check(json.Unmarshal([]byte(os.Args[1]), &plan))
	if plan["campaign"] != "" {
		campaign()
		return
	}
	registerProducing()
	registerConsuming()
	registerSchemas()
	registerAdministering()
	results := make(chan map[string]any)
	slots := make(chan struct{}, 8)
	var group sync.WaitGroup
	for name := range features {
		if only := plan["only"]; only != "" && !slices.Contains(strings.Split(only, ","), name) {
			continue
		}
		group.Add(1)
		go func() {
			defer group.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			results <- run(name)
		}()
	}
	go func() { group.Wait(); close(results) }()
	for result := range results {
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
	}
}
