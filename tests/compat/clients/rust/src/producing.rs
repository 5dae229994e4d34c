//! Features of producers.
use std::time::Duration;

use pulsar::compression::{Compression, CompressionLz4, CompressionSnappy, CompressionZlib, CompressionZstd};
use pulsar::producer::{Message, ProducerOptions};
use pulsar::SubType;
use tokio::time::timeout;

use crate::{features, next, on, plan, producing, receive, refused, same, send, sorted, texts, topic, Client, Done, Feature, Texts};

const EXCLUSIVE: i32 = 1;
const WAITING: i32 = 2;
const FENCING: i32 = 3;

pub fn all() -> Vec<(&'static str, Feature)> {
    features![
        produce_and_consume,
        keys_and_properties,
        batches,
        compression,
        deduplication,
        exclusive_producer,
        fencing_producer,
        waiting_producer,
        partitioned_topics,
        delayed_delivery,
    ]
}

async fn produce_and_consume(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("plain"), SubType::Exclusive).build().await?;
    send(&client, "plain", &["a", "b"]).await?;
    same(receive(&mut consumer, 2).await?, texts(&["a", "b"]))
}

async fn keys_and_properties(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("props"), SubType::Exclusive).build().await?;
    let mut producer = producing(&client, topic("props"), ProducerOptions::default()).await?;
    let message = producer.create_message().with_content("x".to_string()).with_property("ü", "1").with_key("k").event_time(5);
    message.send_non_blocking().await?.await?;
    let message = next(&mut consumer).await?;
    let metadata = message.metadata();
    same(metadata.properties.iter().map(|pair| (pair.key.as_str(), pair.value.as_str())).collect(), vec![("ü", "1")])?;
    same((message.key(), metadata.event_time), (Some("k".into()), Some(5)))
}

async fn batches(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("batches"), SubType::Exclusive).build().await?;
    let options = ProducerOptions { batch_size: Some(10), ..Default::default() };
    let mut producer = producing(&client, topic("batches"), options).await?;
    let wanted: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let mut receipts = Vec::new();
    for text in &wanted {
        receipts.push(producer.send_non_blocking(text.clone()).await?);
    }
    for receipt in receipts {
        receipt.await?;
    }
    same(receive(&mut consumer, 10).await?, wanted)
}

async fn compression(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("compression"), SubType::Exclusive).build().await?;
    for compression in [
        Compression::Lz4(CompressionLz4::default()),
        Compression::Zlib(CompressionZlib::default()),
        Compression::Zstd(CompressionZstd::default()),
        Compression::Snappy(CompressionSnappy::default()),
    ] {
        let text = format!("{compression:?}").repeat(20);
        let options = ProducerOptions { compression: Some(compression), ..Default::default() };
        let mut producer = producing(&client, topic("compression"), options).await?;
        producer.send_non_blocking(text.clone()).await?.await?;
        same(receive(&mut consumer, 1).await?, vec![text])?;
    }
    Ok(())
}

/// Its producers number messages by themselves: what is asked is that a named one may publish where duplicates are looked for.
async fn deduplication(client: Client) -> Done {
    let name = format!("{}rust", plan("deduplicated"));
    let mut consumer: Texts = on(&client, name.clone(), SubType::Exclusive).build().await?;
    let mut producer = client.producer().with_topic(name).with_name("p").build().await?;
    for text in ["1", "2", "3"] {
        producer.send_non_blocking(text.to_string()).await?.await?;
    }
    same(receive(&mut consumer, 3).await?, texts(&["1", "2", "3"]))
}

fn with_access(mode: i32) -> ProducerOptions {
    ProducerOptions { access_mode: Some(mode), ..Default::default() }
}

async fn exclusive_producer(client: Client) -> Done {
    let _first = producing(&client, topic("mode"), with_access(EXCLUSIVE)).await?;
    refused(producing(&client, topic("mode"), with_access(EXCLUSIVE)).await, &["ProducerFenced", "ProducerBusy"])
}

async fn fencing_producer(client: Client) -> Done {
    let _first = producing(&client, topic("fence"), with_access(EXCLUSIVE)).await?;
    let mut second = producing(&client, topic("fence"), with_access(FENCING)).await?;
    second.send_non_blocking("x".to_string()).await?.await?;
    Ok(())
}

async fn waiting_producer(client: Client) -> Done {
    let mut first = producing(&client, topic("wait"), with_access(EXCLUSIVE)).await?;
    let mut second = Box::pin(producing(&client, topic("wait"), with_access(WAITING)));
    if timeout(Duration::from_millis(400), &mut second).await.is_ok() {
        return Err("it did not wait".into());
    }
    first.close().await?;
    second.await?.send_non_blocking("x".to_string()).await?.await?;
    Ok(())
}

async fn partitioned_topics(client: Client) -> Done {
    let mut consumer: Texts = on(&client, plan("partitioned").into(), SubType::Exclusive).build().await?;
    let mut producer = producing(&client, plan("partitioned").into(), ProducerOptions::default()).await?;
    for text in ["a", "b", "c"] {
        producer.send_non_blocking(text.to_string()).await?.await?;
    }
    same(producer.partitions().map(|names| names.len()), Some(3))?;
    same(sorted(receive(&mut consumer, 3).await?), texts(&["a", "b", "c"]))
}

async fn delayed_delivery(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("delayed"), SubType::Shared).build().await?;
    let mut producer = producing(&client, topic("delayed"), ProducerOptions::default()).await?;
    let late = producer.create_message().with_content("late".to_string()).delay(Duration::from_secs(2))?;
    late.send_non_blocking().await?.await?;
    let now = Message { payload: b"now".to_vec(), ..Default::default() };
    producer.send_non_blocking(now).await?.await?;
    same(receive(&mut consumer, 2).await?, texts(&["now", "late"]))
}
