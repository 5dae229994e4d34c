//! Features of consumers and readers.
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use pulsar::consumer::DeadLetterPolicy;
use pulsar::producer::ProducerOptions;
use pulsar::reader::Reader;
use pulsar::{SubType, TokioExecutor};
use regex::Regex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{
    early, features, next, on, plan, producing, receive, refused, rest, same, send, sorted, texts, topic, Client, Done, Failure, Feature,
    Texts,
};

pub fn all() -> Vec<(&'static str, Feature)> {
    features![
        exclusive_subscription,
        shared_subscription,
        failover_subscription,
        key_shared_subscription,
        initial_position,
        several_topics,
        topics_by_pattern,
        topics_by_pattern_made_later,
        cumulative_acknowledgement,
        negative_acknowledgement,
        acknowledgement_timeout,
        dead_letters,
        delayed_through_a_restart,
        readers,
        seek_to_a_message,
        seek_to_a_time,
        last_message_id,
        consumer_statistics,
        unsubscribe,
    ]
}

async fn exclusive_subscription(client: Client) -> Done {
    let _first: Texts = on(&client, topic("excl"), SubType::Exclusive).build().await?;
    refused(on(&client, topic("excl"), SubType::Exclusive).build::<String>().await, &["ConsumerBusy"])
}

async fn shared_subscription(client: Client) -> Done {
    let few = || early().with_receiver_queue_size(3);
    let mut first: Texts = on(&client, topic("shared"), SubType::Shared).with_options(few()).build().await?;
    let mut second: Texts = on(&client, topic("shared"), SubType::Shared).with_options(few()).build().await?;
    send(&client, "shared", &["a", "b", "c", "d", "e", "f"]).await?;
    let mut found = rest(&mut first).await?;
    found.extend(rest(&mut second).await?);
    same(sorted(found), texts(&["a", "b", "c", "d", "e", "f"]))
}

async fn failover_subscription(client: Client) -> Done {
    let name = format!("{}-partition-0", plan("single"));
    let mut first: Texts = on(&client, name.clone(), SubType::Failover).with_consumer_name("a").build().await?;
    let mut second: Texts = on(&client, name.clone(), SubType::Failover).with_consumer_name("b").build().await?;
    let mut producer = producing(&client, name, ProducerOptions::default()).await?;
    producer.send_non_blocking("x".to_string()).await?.await?;
    same(receive(&mut first, 1).await?, texts(&["x"]))?;
    first.close().await?;
    producer.send_non_blocking("y".to_string()).await?.await?;
    let mut found = receive(&mut second, 1).await?;
    if found[0] == "x" {
        found = receive(&mut second, 1).await?; // the acknowledgement was still on its way
    }
    same(found, texts(&["y"]))
}

async fn key_shared_subscription(client: Client) -> Done {
    let mut first: Texts = on(&client, topic("keyed"), SubType::KeyShared).build().await?;
    let mut second: Texts = on(&client, topic("keyed"), SubType::KeyShared).build().await?;
    let mut producer = producing(&client, topic("keyed"), ProducerOptions::default()).await?;
    for number in 0..40 {
        let message = producer.create_message().with_content(format!("{number:02}")).with_key(format!("key-{}", number % 8));
        message.send_non_blocking().await?.await?;
    }
    let (one, other) = (rest(&mut first).await?, rest(&mut second).await?);
    let keys = |found: &[String]| -> Vec<u32> { found.iter().map(|text| text.parse::<u32>().unwrap_or(99) % 8).collect() };
    if keys(&one).iter().any(|key| keys(&other).contains(key)) {
        return Err("a key went to both consumers".into());
    }
    same((sorted(one.clone()), sorted(other.clone())), (one.clone(), other.clone()))?; // in the order of their keys
    same(one.len() + other.len(), 40)
}

async fn initial_position(client: Client) -> Done {
    send(&client, "early", &["a"]).await?;
    let mut consumer: Texts = on(&client, topic("early"), SubType::Exclusive).with_options(early()).build().await?;
    same(receive(&mut consumer, 1).await?, texts(&["a"]))
}

async fn several_topics(client: Client) -> Done {
    let names = [topic("several-1"), topic("several-2")];
    let builder = client.consumer().with_topics(names).with_subscription("s").with_subscription_type(SubType::Shared);
    let mut consumer: Texts = builder.build().await?;
    send(&client, "several-1", &["a"]).await?;
    send(&client, "several-2", &["b"]).await?;
    same(sorted(receive(&mut consumer, 2).await?), texts(&["a", "b"]))
}

async fn by_pattern(client: &Client, pattern: &str) -> Result<Texts, Failure> {
    let builder = client.consumer().with_topic_regex(Regex::new(&topic(pattern))?).with_subscription("s");
    let builder = builder.with_subscription_type(SubType::Shared).with_options(early());
    Ok(builder.with_topic_refresh(Duration::from_secs(1)).build().await?)
}

async fn topics_by_pattern(client: Client) -> Done {
    send(&client, "pattern-1", &["early"]).await?;
    same(receive(&mut by_pattern(&client, "pattern-.*").await?, 1).await?, texts(&["early"]))
}

async fn topics_by_pattern_made_later(client: Client) -> Done {
    send(&client, "later-0", &["early"]).await?;
    let mut consumer = by_pattern(&client, "later-.*").await?;
    same(receive(&mut consumer, 1).await?, texts(&["early"]))?;
    send(&client, "later-1", &["late"]).await?;
    same(receive(&mut consumer, 1).await?, texts(&["late"]))
}

async fn cumulative_acknowledgement(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("cumulative"), SubType::Exclusive).build().await?;
    send(&client, "cumulative", &["a", "b", "c"]).await?;
    next(&mut consumer).await?;
    let second = next(&mut consumer).await?;
    consumer.cumulative_ack(&second).await?;
    next(&mut consumer).await?;
    consumer.close().await?;
    let mut again: Texts = on(&client, topic("cumulative"), SubType::Exclusive).build().await?;
    same(receive(&mut again, 1).await?, texts(&["c"]))
}

async fn negative_acknowledgement(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("nack"), SubType::Shared).build().await?;
    send(&client, "nack", &["a"]).await?;
    let message = next(&mut consumer).await?;
    consumer.nack(&message).await?;
    same(receive(&mut consumer, 1).await?, texts(&["a"]))
}

async fn acknowledgement_timeout(client: Client) -> Done {
    let builder = on(&client, topic("timeout"), SubType::Shared);
    let mut consumer: Texts = builder.with_unacked_message_resend_delay(Some(Duration::from_secs(1))).build().await?;
    send(&client, "timeout", &["a"]).await?;
    next(&mut consumer).await?;
    same(receive(&mut consumer, 1).await?, texts(&["a"]))
}

async fn dead_letters(client: Client) -> Done {
    let mut graves: Texts = on(&client, topic("graves"), SubType::Exclusive).build().await?;
    let policy = DeadLetterPolicy { max_redeliver_count: 2, dead_letter_topic: topic("graves") };
    let mut consumer: Texts = on(&client, topic("dead"), SubType::Shared).with_dead_letter_policy(policy).build().await?;
    send(&client, "dead", &["a"]).await?;
    for _ in 0..2 {
        let message = next(&mut consumer).await?;
        consumer.nack(&message).await?;
    }
    let moved = async { same(receive(&mut graves, 1).await?, texts(&["a"])) };
    tokio::select! { // its consumer moves them while it is asked for messages
        found = moved => found,
        message = next(&mut consumer) => Err(format!("it came again: {:?}", message.map(|one| one.deserialize())).into()),
    }
}

async fn delayed_through_a_restart(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("restart"), SubType::Shared).build().await?;
    let mut producer = producing(&client, topic("restart"), ProducerOptions::default()).await?;
    let at = SystemTime::now() + Duration::from_secs(3);
    for (text, due) in [("much later", at + Duration::from_secs(3600)), ("late", at)] {
        let message = producer.create_message().with_content(text.to_string()).deliver_at(due)?;
        message.send_non_blocking().await?.await?;
    }
    unload("restart").await?;
    producer.send_non_blocking("now".to_string()).await?.await?;
    let mut found = Vec::new();
    while found.len() < 2 {
        found.extend(receive(&mut consumer, 1).await?);
        if found.last().is_some_and(|text| text == "late") && SystemTime::now() + Duration::from_secs(1) < at {
            return Err("it came early".into());
        }
    }
    same(sorted(found), texts(&["late", "now"]))?;
    same(rest(&mut consumer).await?, texts(&[]))
}

/// As when its broker restarts: what it knows of the topic is what it stored.
async fn unload(name: &str) -> Done {
    let host = plan("admin").trim_start_matches("http://").trim_end_matches('/');
    let path = topic(name).replacen("://", "/", 1);
    let head = format!("PUT /admin/v2/{path}/unload HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n");
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("{head}Authorization: Bearer {}\r\n\r\n", plan("token")).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    same(answer.split(' ').nth(1).map(|status| &status[..1]), Some("2"))
}

async fn read(reader: &mut Reader<String, TokioExecutor>) -> Result<String, Failure> {
    let message = timeout(Duration::from_secs(8), reader.try_next()).await??.ok_or("the reader ended")?;
    Ok(message.deserialize()?)
}

async fn readers(client: Client) -> Done {
    send(&client, "reader", &["a", "b"]).await?;
    let mut reader = client.reader().with_topic(topic("reader")).with_options(early()).into_reader().await?;
    same(vec![read(&mut reader).await?, read(&mut reader).await?], texts(&["a", "b"]))
}

async fn seek_to_a_message(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("seek"), SubType::Shared).build().await?;
    let ids = send(&client, "seek", &["a", "b", "c"]).await?;
    receive(&mut consumer, 3).await?;
    consumer.seek(None, Some(ids[1].clone()), None, client.clone()).await?;
    same(receive(&mut consumer, 2).await?, texts(&["b", "c"]))
}

async fn seek_to_a_time(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("time"), SubType::Shared).build().await?;
    send(&client, "time", &["a"]).await?;
    receive(&mut consumer, 1).await?;
    consumer.seek(None, None, Some(1), client.clone()).await?;
    same(receive(&mut consumer, 1).await?, texts(&["a"]))
}

async fn last_message_id(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("last"), SubType::Exclusive).build().await?;
    let ids = send(&client, "last", &["a", "b"]).await?;
    let found = consumer.get_last_message_id().await?;
    same(found.iter().map(|id| (id.ledger_id, id.entry_id)).collect(), vec![(ids[1].ledger_id, ids[1].entry_id)])
}

async fn consumer_statistics(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("stats"), SubType::Shared).build().await?;
    send(&client, "stats", &["a", "b"]).await?;
    next(&mut consumer).await?;
    let stats = consumer.get_stats().await?;
    same(stats.iter().map(|one| (one.msg_backlog, one.r#type.clone())).collect(), vec![(Some(2), Some("Shared".into()))])
}

async fn unsubscribe(client: Client) -> Done {
    let mut consumer: Texts = on(&client, topic("unsub"), SubType::Exclusive).build().await?;
    consumer.unsubscribe().await?;
    send(&client, "unsub", &["a"]).await?;
    let mut again: Texts = on(&client, topic("unsub"), SubType::Exclusive).build().await?;
    same(rest(&mut again).await?, texts(&[]))
}
