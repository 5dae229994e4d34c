package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/config"
	adminrest "github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

// The admin client decodes answers into structs: a field of another type than Pulsar's is an error in each of these features.

func administrator() pulsaradmin.Client {
	return must(pulsaradmin.NewClient(&config.Config{WebServiceURL: plan["admin"], Token: plan["token"]}))
}

func topicName(name string) utils.TopicName { return *must(utils.GetTopicName(topic(name))) }

// unique is a name that no other run uses.
func unique(name string) string {
	parts := strings.Split(plan["topics"], "/")
	return parts[len(parts)-1] + name
}

func namespaceName(name string) utils.NameSpaceName {
	return *must(utils.GetNamespaceName("public/" + unique(name)))
}

func contains[T comparable](values []T, wanted T) {
	if !slices.Contains(values, wanted) {
		panic(fmt.Errorf("%v is not in %v", wanted, values))
	}
}

func status(err error, code int) {
	var answer adminrest.Error
	if !errors.As(err, &answer) {
		panic(err)
	}
	same(answer.Code, code)
}

func registerAdministering() {
	features["administering_tenants"] = func(pulsar.Client) {
		tenants, name := administrator().Tenants(), unique("tenant")
		check(tenants.Create(utils.TenantData{Name: name, AdminRoles: []string{"a"}, AllowedClusters: []string{"standalone"}}))
		contains(must(tenants.List()), name)
		check(tenants.Update(utils.TenantData{Name: name, AdminRoles: []string{"b"}, AllowedClusters: []string{"standalone"}}))
		same(must(tenants.Get(name)), utils.TenantData{AdminRoles: []string{"b"}, AllowedClusters: []string{"standalone"}})
		check(tenants.Delete(name))
		_, err := tenants.Get(name)
		status(err, 404)
	}
	features["administering_namespaces"] = func(pulsar.Client) {
		namespaces, name := administrator().Namespaces(), namespaceName("namespace")
		wanted := utils.NewDefaultPolicies()
		seconds := 60
		wanted.MessageTTLInSeconds = &seconds
		wanted.RetentionPolicies = &utils.RetentionPolicies{RetentionTimeInMinutes: 10, RetentionSizeInMB: 20}
		wanted.ReplicationClusters = []string{"standalone"}
		wanted.Bundles = utils.NewBundlesDataWithNumBundles(4)
		wanted.AuthPolicies.NamespaceAuth["reader"] = []utils.AuthAction{"consume"}
		check(namespaces.CreateNsWithPolices(name.String(), *wanted))
		contains(must(namespaces.GetNamespaces("public")), name.String())
		policies := must(namespaces.GetPolicies(name.String()))
		same(*policies.MessageTTLInSeconds, 60)
		same(*policies.RetentionPolicies, *wanted.RetentionPolicies)
		same(len(policies.Bundles.Boundaries), policies.Bundles.NumBundles+1)
		same(must(namespaces.GetNamespacePermissions(name)), map[string][]utils.AuthAction{"reader": {"consume"}})
		same(must(namespaces.GetTopics(name.String())), []string{})
		check(namespaces.Unload(name.String()))
		check(namespaces.ClearNamespaceBacklog(name))
		check(namespaces.DeleteNamespace(name.String()))
		_, err := namespaces.GetPolicies(name.String())
		status(err, 404)
	}
	features["administering_permissions"] = func(pulsar.Client) {
		client, name := administrator(), namespaceName("permissions")
		namespaces, actions := client.Namespaces(), []utils.AuthAction{"produce"}
		check(namespaces.CreateNamespace(name.String()))
		check(namespaces.GrantNamespacePermission(name, "writer", actions))
		same(must(namespaces.GetNamespacePermissions(name)), map[string][]utils.AuthAction{"writer": actions})
		check(namespaces.RevokeNamespacePermission(name, "writer"))
		check(namespaces.GrantSubPermission(name, "s", []string{"writer"}))
		same(must(namespaces.GetSubPermissions(name)), map[string][]string{"s": {"writer"}})
		check(namespaces.RevokeSubPermission(name, "s", "writer"))
		topics, granted := client.Topics(), *must(utils.GetTopicName("persistent://" + name.String() + "/t"))
		check(topics.Create(granted, 0))
		check(topics.GrantPermission(granted, "writer", actions))
		same(must(topics.GetPermissions(granted)), map[string][]utils.AuthAction{"writer": actions})
		check(topics.RevokePermission(granted, "writer"))
		same(must(topics.GetPermissions(granted)), map[string][]utils.AuthAction{})
	}
	features["administering_topics"] = func(client pulsar.Client) {
		topics, name := administrator().Topics(), topicName("administered")
		check(topics.CreateWithProperties(name, 0, map[string]string{"team": "blue"}))
		check(topics.UpdateProperties(name, map[string]string{"tier": "gold"}))
		check(topics.RemoveProperty(name, "tier"))
		same(must(topics.GetProperties(name)), map[string]string{"team": "blue"})
		ids := send(client, "administered", "a", "b")
		_, listed, err := topics.List(*must(utils.GetNamespaceName("public/default")))
		check(err)
		contains(listed, name.String())
		same(must(topics.GetLastMessageID(name)).LedgerID, ids[1].LedgerID())
		same(must(topics.GetMessageID(name, 1)).LedgerID, ids[0].LedgerID())
		same(strings.HasPrefix(must(topics.Lookup(name)).BrokerURL, "pulsar://"), true)
		same(strings.HasPrefix(must(topics.GetBundleRange(name)), "0x"), true)
		same(must(topics.GetMetadata(name)).Partitions, 0)
		must(topics.GetInternalInfo(name))
		check(topics.Unload(name))
		same(must(topics.Terminate(name)).LedgerID > 0, true)
		check(topics.Delete(name, true, true))
		_, err = topics.GetStats(name)
		status(err, 404)
	}
	features["administering_compaction"] = func(client pulsar.Client) {
		topics, name := administrator().Topics(), topicName("compacting")
		send(client, "compacting", "a")
		same(must(topics.CompactStatus(name)).Status, utils.NOTRUN)
		check(topics.Compact(name))
		for deadline := time.Now().Add(20 * time.Second); must(topics.CompactStatus(name)).Status != utils.SUCCESS; {
			if time.Now().After(deadline) {
				panic(errors.New("it did not end"))
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	features["administering_statistics"] = func(client pulsar.Client) {
		topics, name := administrator().Topics(), topicName("measured")
		on(client, "measured", func(o *pulsar.ConsumerOptions) {
			o.Type, o.SubscriptionProperties = pulsar.KeyShared, map[string]string{"team": "blue"}
		})
		producing(client, pulsar.ProducerOptions{Topic: topic("measured"), Properties: map[string]string{"team": "blue"}})
		send(client, "measured", "a", "b")
		option := utils.GetStatsOptions{GetPreciseBacklog: true, SubscriptionBacklogSize: true, GetEarliestTimeInBacklog: true}
		for _, stats := range []utils.TopicStats{must(topics.GetStats(name)), must(topics.GetStatsWithOption(name, option))} {
			same(stats.MsgCounterIn, int64(2))
			same(stats.Publishers[0].Metadata, map[string]string{"team": "blue"})
			same(len(stats.Subscriptions["s"].Consumers), 1)
		}
		internal := must(topics.GetInternalStats(name))
		same(internal.NumberOfEntries, int64(2))
		same(len(internal.Cursors), 1)
	}
	features["administering_partitioned_topics"] = func(client pulsar.Client) {
		topics, name := administrator().Topics(), topicName("administered-parts")
		check(topics.Create(name, 2))
		check(topics.Update(name, 3))
		same(must(topics.GetMetadata(name)).Partitions, 3)
		on(client, "administered-parts", shared)
		send(client, "administered-parts", "a", "b", "c")
		stats := must(topics.GetPartitionedStats(name, true))
		same(stats.Metadata.Partitions, 3)
		same(len(stats.Partitions), 3)
		same(len(stats.Subscriptions), 1)
		must(topics.GetPartitionedStatsWithOption(name, false, utils.GetStatsOptions{GetPreciseBacklog: true}))
		partitioned, _, err := topics.List(*must(utils.GetNamespaceName("public/default")))
		check(err)
		contains(partitioned, name.String())
		check(topics.Delete(name, true, false))
	}
	features["administering_subscriptions"] = administerSubscriptions
	features["administering_schemas"] = func(pulsar.Client) {
		schemas, name := administrator().Schemas(), topic("described")
		described := func(schema string) utils.PostSchemaPayload {
			return utils.PostSchemaPayload{SchemaType: "AVRO", Schema: schema, Properties: map[string]string{"team": "blue"}}
		}
		check(schemas.CreateSchemaByPayload(name, described(first())))
		check(schemas.CreateSchemaByPayload(name, described(wider())))
		same(must(schemas.GetSchemaInfo(name)).Properties, map[string]string{"team": "blue"})
		same(must(schemas.GetSchemaInfoWithVersion(name)).Version, int64(1))
		same(string(must(schemas.GetSchemaInfoByVersion(name, 0)).Schema), first())
		same(len(must(schemas.GetAllSchemas(name))), 2)
		same(must(schemas.GetVersionByPayload(name, described(first()))), int64(0))
		same(must(schemas.TestCompatibilityWithPostSchemaPayload(name, described(wider()))).IsCompatibility, true)
		check(schemas.DeleteSchema(name))
		_, err := schemas.GetSchemaInfo(name)
		status(err, 404)
	}
	features["administering_brokers_and_clusters"] = func(pulsar.Client) {
		client := administrator()
		clusters, brokers := client.Clusters(), client.Brokers()
		cluster := must(clusters.List())[0]
		same(must(clusters.Get(cluster)).Name, "")
		must(clusters.GetPeerClusters(cluster))
		must(clusters.ListFailureDomains(cluster))
		contains(must(brokers.GetListActiveBrokers()), must(brokers.GetActiveBrokers(cluster))[0])
		same(must(brokers.GetLeaderBroker()).BrokerID != "", true)
		must(brokers.GetDynamicConfigurationNames())
		must(brokers.GetAllDynamicConfigurations())
		must(brokers.GetRuntimeConfigurations())
		check(brokers.HealthCheckWithTopicVersion(utils.TopicVersionV2))
	}
	registerPolicies()
}

func administerSubscriptions(client pulsar.Client) {
	subscriptions, name := administrator().Subscriptions(), topicName("subscribed")
	check(administrator().Topics().Create(name, 0))
	check(subscriptions.Create(name, "s", utils.Earliest))
	same(must(subscriptions.List(name)), []string{"s"})
	producer := producing(client, pulsar.ProducerOptions{Topic: topic("subscribed"), DisableBatching: true})
	ids := []pulsar.MessageID{}
	for _, text := range []string{"a", "b", "c"} {
		message := pulsar.ProducerMessage{Payload: []byte(text), Properties: map[string]string{"text": text}}
		ids = append(ids, publish(producer, message))
	}
	peeked := must(subscriptions.PeekMessages(name, "s", 2))
	same([]string{string(peeked[0].Payload), string(peeked[1].Payload)}, []string{"a", "b"})
	same(peeked[1].Properties["text"], "b")
	same(string(must(subscriptions.GetMessageByID(name, ids[2].LedgerID(), ids[2].EntryID())).Payload), "c")
	backlog := func(wanted int64) {
		same(must(administrator().Topics().GetStats(name)).Subscriptions["s"].MsgBacklog, wanted)
	}
	check(subscriptions.SkipMessages(name, "s", 1))
	backlog(2)
	second := utils.MessageID{LedgerID: ids[1].LedgerID(), EntryID: ids[1].EntryID(), PartitionIndex: -1, BatchIndex: -1}
	check(subscriptions.ResetCursorToMessageID(name, "s", second))
	check(subscriptions.ResetCursorToTimestamp(name, "s", 1))
	backlog(3)
	check(subscriptions.ExpireMessages(name, "s", 3600))
	check(subscriptions.ExpireAllMessages(name, 3600))
	check(subscriptions.ClearBacklog(name, "s"))
	backlog(0)
	check(subscriptions.Delete(name, "s"))
	check(subscriptions.Create(name, "latest", utils.Latest))
	check(subscriptions.ForceDelete(name, "latest"))
	same(must(subscriptions.List(name)), []string{})
}
