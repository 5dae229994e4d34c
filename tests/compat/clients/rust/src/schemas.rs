//! Schemas: what an application registers, and is refused.
use pulsar::producer::ProducerOptions;
use pulsar::proto::schema::Type;
use pulsar::proto::Schema;
use pulsar::{ConsumerOptions, SubType};

use crate::{features, on, plan, producing, receive, refused, same, texts, topic, Client, Done, Failure, Feature, Texts};

const READING: &str = r#"{"type":"record","name":"Reading","fields":[{"name":"value","type":"int"}]}"#;
const OTHER: &str = r#"{"type":"record","name":"Reading","fields":[{"name":"value","type":"string"}]}"#;

pub fn all() -> Vec<(&'static str, Feature)> {
    features![primitive_schemas, json_schema, avro_schema, incompatible_schema, without_a_schema, enforced_schemas]
}

fn schema(kind: Type, definition: &str) -> Schema {
    Schema { name: "s".into(), schema_data: definition.into(), r#type: kind as i32, properties: vec![] }
}

fn of(schema: Schema) -> ProducerOptions {
    ProducerOptions { schema: Some(schema), ..Default::default() }
}

/// Sends a text with `given`; what the consumer reads of the topic's schema.
async fn through(client: &Client, name: &str, given: Schema) -> Result<Option<Schema>, Failure> {
    let options = ConsumerOptions::default().with_schema(given.clone());
    let mut consumer: Texts = on(client, topic(name), SubType::Exclusive).with_options(options).build().await?;
    producing(client, topic(name), of(given)).await?.send_non_blocking("a".to_string()).await?.await?;
    same(receive(&mut consumer, 1).await?, texts(&["a"]))?;
    Ok(consumer.get_schema(&topic(name), None).await?)
}

async fn primitive_schemas(client: Client) -> Done {
    let found = through(&client, "sc-string", schema(Type::String, "")).await?;
    same(found.map(|found| found.r#type), Some(Type::String as i32))?;
    refused(producing(&client, topic("sc-string"), of(schema(Type::Json, READING))).await, &["IncompatibleSchema"])
}

async fn json_schema(client: Client) -> Done {
    let found = through(&client, "sc-json", schema(Type::Json, READING)).await?;
    same(found.map(|found| found.schema_data), Some(READING.into()))
}

async fn avro_schema(client: Client) -> Done {
    let found = through(&client, "sc-avro", schema(Type::Avro, READING)).await?;
    same(found.map(|found| found.schema_data), Some(READING.into()))
}

async fn incompatible_schema(client: Client) -> Done {
    producing(&client, topic("sc-strict"), of(schema(Type::Avro, READING))).await?;
    refused(producing(&client, topic("sc-strict"), of(schema(Type::Avro, OTHER))).await, &["IncompatibleSchema"])?;
    let options = ConsumerOptions::default().with_schema(schema(Type::Avro, OTHER));
    let consumer = on(&client, topic("sc-strict"), SubType::Exclusive).with_options(options);
    refused(consumer.build::<String>().await, &["IncompatibleSchema"])
}

async fn without_a_schema(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("sc-plain"), SubType::Exclusive).build().await?;
    producing(&client, topic("sc-plain"), of(schema(Type::String, ""))).await?.send_non_blocking("a".to_string()).await?.await?;
    producing(&client, topic("sc-plain"), ProducerOptions::default()).await?.send_non_blocking("b".to_string()).await?.await?;
    same(receive(&mut consumer, 2).await?, texts(&["a", "b"]))
}

async fn enforced_schemas(client: Client) -> Done {
    let name = format!("{}rust", plan("enforced"));
    producing(&client, name.clone(), of(schema(Type::String, ""))).await?;
    refused(producing(&client, name.clone(), ProducerOptions::default()).await, &["IncompatibleSchema"])?;
    on(&client, name, SubType::Exclusive).build::<String>().await?;
    Ok(())
}
