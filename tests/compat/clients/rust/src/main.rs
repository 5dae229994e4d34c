// What the Rust client `pulsar` can do against a platform: a JSON line for each feature. The argument is a JSON object of strings,
// which tests/compat/probes/__init__.py describes.
mod consuming;
mod producing;
mod schemas;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use pulsar::consumer::{InitialPosition, Message};
use pulsar::producer::ProducerOptions;
use pulsar::proto::MessageIdData;
use pulsar::{Authentication, Consumer, ConsumerBuilder, ConsumerOptions, OperationRetryOptions, Producer, Pulsar, SubType, TokioExecutor};
use tokio::time::timeout;

pub type Client = Pulsar<TokioExecutor>;
pub type Texts = Consumer<String, TokioExecutor>;
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type Done = Result<(), Failure>;
pub type Feature = fn(Client) -> Pin<Box<dyn Future<Output = Done>>>;

#[macro_export]
macro_rules! features {
    ($($name:ident),* $(,)?) => {
        vec![$((stringify!($name), (|client| Box::pin($name(client))) as $crate::Feature)),*]
    };
}

static PLAN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

const AT_ONCE: usize = 8;
const FEATURE_S: u64 = 20;

pub fn plan(key: &str) -> &'static str {
    PLAN.get().and_then(|plan| plan.get(key)).map_or("", String::as_str)
}

pub fn topic(name: &str) -> String {
    format!("{}{name}", plan("topics"))
}

pub fn same<T: PartialEq + Debug>(found: T, wanted: T) -> Done {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{found:?} instead of {wanted:?}").into())
}

/// What an operation that must fail was refused with, of which one of `words` is a part.
pub fn refused<T, E: Debug>(result: Result<T, E>, words: &[&str]) -> Done {
    let Err(error) = result else { return Err("not refused".into()) };
    let text = format!("{error:?}");
    if words.iter().any(|word| text.contains(word)) {
        return Ok(());
    }
    Err(text.into())
}

pub fn on(client: &Client, topic: String, kind: SubType) -> ConsumerBuilder<TokioExecutor> {
    client.consumer().with_topic(topic).with_subscription("s").with_subscription_type(kind)
}

pub fn early() -> ConsumerOptions {
    ConsumerOptions::default().with_initial_position(InitialPosition::Earliest)
}

pub async fn next(consumer: &mut Texts) -> Result<Message<String>, Failure> {
    timeout(Duration::from_secs(8), consumer.try_next()).await?.map_err(Failure::from)?.ok_or("the consumer ended".into())
}

pub async fn receive(consumer: &mut Texts, count: usize) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    while found.len() < count {
        let message = next(consumer).await?;
        consumer.ack(&message).await?;
        found.push(message.deserialize()?);
    }
    Ok(found)
}

/// What else comes, acknowledged, until nothing comes.
pub async fn rest(consumer: &mut Texts) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    while let Ok(message) = timeout(Duration::from_millis(400), consumer.try_next()).await {
        let message = message?.ok_or("the consumer ended")?;
        consumer.ack(&message).await?;
        found.push(message.deserialize()?);
    }
    Ok(found)
}

pub async fn producing(client: &Client, topic: String, options: ProducerOptions) -> Result<Producer<TokioExecutor>, Failure> {
    Ok(client.producer().with_topic(topic).with_options(options).build().await?)
}

/// The ids of `texts`, sent one after the other.
pub async fn send(client: &Client, name: &str, texts: &[&str]) -> Result<Vec<MessageIdData>, Failure> {
    let mut producer = producing(client, topic(name), ProducerOptions::default()).await?;
    let mut ids = Vec::new();
    for text in texts {
        let receipt = producer.send_non_blocking(text.to_string()).await?.await?;
        ids.push(receipt.message_id.ok_or("a receipt without an id")?);
    }
    producer.close().await?;
    Ok(ids)
}

pub fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

pub fn texts(wanted: &[&str]) -> Vec<String> {
    wanted.iter().map(|text| text.to_string()).collect()
}

async fn run(name: &'static str, feature: Feature) -> String {
    let tried = async {
        let token = Authentication { name: "token".into(), data: plan("token").into() };
        let soon = OperationRetryOptions { retry_delay: Duration::from_millis(200), max_retries: Some(10), ..Default::default() };
        feature(Pulsar::builder(plan("broker"), TokioExecutor).with_auth(token).with_operation_retry_options(soon).build().await?).await
    };
    let error = match timeout(Duration::from_secs(FEATURE_S), tried).await {
        Ok(Ok(())) => return serde_json::json!({"feature": name, "ok": true}).to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it took too long".into(),
    };
    serde_json::json!({"feature": name, "ok": false, "error": error}).to_string()
}

#[tokio::main]
async fn main() {
    let argument = std::env::args().nth(1).expect("a plan");
    PLAN.get_or_init(|| serde_json::from_str(&argument).expect("a plan in JSON"));
    let all = [producing::all(), consuming::all(), schemas::all()].concat();
    let only: Vec<&str> = plan("only").split(',').filter(|name| !name.is_empty()).collect();
    let chosen = all.into_iter().filter(|(name, _)| only.is_empty() || only.contains(name));
    let mut results = futures::stream::iter(chosen.map(|(name, feature)| run(name, feature))).buffer_unordered(AT_ONCE);
    while let Some(line) = results.next().await {
        println!("{line}");
    }
    std::process::exit(0); // clients that are still open end with it
}
