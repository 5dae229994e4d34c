package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsaradmin"
	adminrest "github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

var deleteMode = utils.DeleteWhenNoSubscriptions

// policyValues are what the policies are set to, by the type of the parameter.
var policyValues = []any{
	7, int64(9), true, []string{"standalone"}, map[string]string{"team": "blue"},
	utils.RetentionPolicies{RetentionTimeInMinutes: 100, RetentionSizeInMB: 100},
	utils.PersistencePolicies{BookkeeperEnsemble: 1, BookkeeperWriteQuorum: 1, BookkeeperAckQuorum: 1, ManagedLedgerMaxMarkDeleteRate: 0.5},
	utils.PersistenceData{BookkeeperEnsemble: 1, BookkeeperWriteQuorum: 1, BookkeeperAckQuorum: 1, ManagedLedgerMaxMarkDeleteRate: 0.5},
	utils.DispatchRate{DispatchThrottlingRateInMsg: 10, DispatchThrottlingRateInByte: 1000, RatePeriodInSecond: 1},
	utils.DispatchRateData{DispatchThrottlingRateInMsg: 10, DispatchThrottlingRateInByte: 1000, RatePeriodInSecond: 1},
	utils.PublishRate{PublishThrottlingRateInMsg: 10, PublishThrottlingRateInByte: 1000},
	utils.PublishRateData{PublishThrottlingRateInMsg: 10, PublishThrottlingRateInByte: 1000},
	utils.SubscribeRate{SubscribeThrottlingRatePerConsumer: 10, RatePeriodInSecond: 30},
	utils.DelayedDeliveryData{TickTime: 1000, Active: true},
	utils.InactiveTopicPolicies{InactiveTopicDeleteMode: &deleteMode, MaxInactiveDurationSeconds: 60, DeleteWhileInactive: true},
	utils.TopicAutoCreationConfig{Allow: true, Type: utils.NonPartitioned},
	utils.AutoSubscriptionCreationOverride{AllowAutoSubscriptionCreation: true},
	utils.SchemaCompatibilityStrategyBackward,
	utils.Prefix,
}

// notOffered are policies of offloading, of several clusters and of placement, which Magnetar does not offer.
var notOffered = []string{
	"BookieAffinityGroup", "NamespaceAntiAffinityGroup", "OffloadDeleteLag", "OffloadPolicies", "OffloadThreshold",
	"OffloadThresholdInSeconds", "ReplicationClusters", "ReplicatorDispatchRate", "SchemaAutoUpdateCompatibilityStrategy",
}

// withContext is the end of the names of methods that do what the others do.
const withContext = "WithContext"

// roundTrip sets every policy that target has methods for, reads it and removes it, but those of the names `without`.
func roundTrip(target any, scope []any, without ...string) {
	methods, failures := reflect.ValueOf(target), []string{}
	for index := range methods.NumMethod() {
		policy, isSetter := strings.CutPrefix(methods.Type().Method(index).Name, "Set")
		if !isSetter || strings.HasSuffix(policy, withContext) || policy == "BacklogQuota" || slices.Contains(without, policy) {
			continue
		}
		if err := roundTripOf(methods, policy, scope); err != nil {
			failures = append(failures, policy+": "+err.Error())
		}
	}
	if len(failures) > 0 {
		panic(errors.New(strings.Join(failures, "; ")))
	}
}

func roundTripOf(methods reflect.Value, policy string, scope []any) error {
	setter := methods.MethodByName("Set" + policy)
	value := valueOf(setter.Type().In(setter.Type().NumIn() - 1))
	if _, err := call(setter, append(slices.Clone(scope), value)); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	getter, remover := methods.MethodByName("Get"+policy), methods.MethodByName("Remove"+policy)
	if getter.IsValid() {
		found, err := call(getter, scope)
		if err != nil {
			return fmt.Errorf("get: %w", err)
		}
		if !reflect.DeepEqual(reflect.Indirect(found).Interface(), value) {
			return fmt.Errorf("%v instead of %v", reflect.Indirect(found), value)
		}
	}
	if remover.IsValid() && policy != "SchemaValidationEnforced" { // Pulsar has no such method
		if _, err := call(remover, scope); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
	}
	return readable(getter, scope)
}

// readable says whether a policy that has no value can be read: some methods answer that with "not found".
func readable(getter reflect.Value, scope []any) error {
	var answer adminrest.Error
	if getter.IsValid() {
		if _, err := call(getter, scope); err != nil && !(errors.As(err, &answer) && answer.Code == 404) {
			return fmt.Errorf("get what was removed: %w", err)
		}
	}
	return nil
}

func valueOf(wanted reflect.Type) any {
	for _, value := range policyValues {
		if reflect.TypeOf(value) == wanted {
			return value
		}
	}
	panic(fmt.Errorf("no value of type %v", wanted))
}

// call gives a method its arguments: a namespace by its name where it takes that, and false for a last one that is missing.
func call(method reflect.Value, arguments []any) (reflect.Value, error) {
	given := []reflect.Value{}
	for index := range method.Type().NumIn() {
		wanted := method.Type().In(index)
		switch {
		case index >= len(arguments):
			given = append(given, reflect.Zero(wanted))
		case wanted.Kind() == reflect.String && reflect.TypeOf(arguments[index]) == reflect.TypeOf(utils.NameSpaceName{}):
			name := arguments[index].(utils.NameSpaceName)
			given = append(given, reflect.ValueOf(name.String()))
		default:
			given = append(given, reflect.ValueOf(arguments[index]))
		}
	}
	results := method.Call(given)
	err, _ := results[len(results)-1].Interface().(error)
	return results[0], err
}

func registerPolicies() {
	quota := utils.BacklogQuota{LimitSize: 1000, LimitTime: -1, Policy: utils.ProducerException}
	features["administering_namespace_policies"] = func(pulsar.Client) {
		namespaces, name := administrator().Namespaces(), namespaceName("policies")
		check(namespaces.CreateNamespace(name.String()))
		roundTrip(namespaces, []any{name}, notOffered...)
		check(namespaces.SetBacklogQuota(name.String(), quota, utils.DestinationStorage))
		same(must(namespaces.GetBacklogQuotaMap(name.String())), map[utils.BacklogQuotaType]utils.BacklogQuota{"destination_storage": quota})
		check(namespaces.RemoveBacklogQuota(name.String()))
	}
	features["administering_topic_policies"] = func(pulsar.Client) {
		topics, name := administrator().Topics(), topicName("policies")
		check(topics.Create(name, 0))
		roundTrip(topics, []any{name}, notOffered...)
	}
	features["administering_local_topic_policies"] = func(pulsar.Client) {
		client, name := administrator(), topicName("local-policies")
		check(client.Topics().Create(name, 0))
		policies := must(pulsaradmin.TopicPoliciesOf(client, false))
		roundTrip(policies, []any{context.Background(), name}, notOffered...)
	}
}
