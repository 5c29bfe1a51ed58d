//! A shop that embeds Actbook. Run it with `cargo run --example embed`, or name a file for the database.
//!
//! Each tool is a function of this program. The first order succeeds; the second fails with a declined card,
//! gets a brief and is undone; in the third the courier panics during its call, so its outcome is unknown,
//! and a person decides.
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actbook::{
    Call, Client, Error, ErrorCategory, ExecutionView, Executor, Fault, JournalFilter, StepAnswer,
};
use serde_json::{Value, json};

const ORDER: &str = r#"
name: order
inputs:
  type: object
  properties: { item: { type: string }, card: { type: string }, to: { type: string } }
  required: [item, card, to]
steps:
  - id: reserve
    tool: shop/reserve
    arguments: { item: "${inputs.item}" }
    compensation: { tool: shop/release, arguments: { item: "${arguments.item}" } }
  - id: charge
    tool: shop/charge
    arguments: { card: "${inputs.card}", cents: "${steps.reserve.output.cents}" }
    compensation: { tool: shop/refund, arguments: { card: "${arguments.card}", cents: "${arguments.cents}" } }
  - id: send
    tool: shop/send
    arguments: { to: "${inputs.to}", item: "${inputs.item}" }
"#;

/// What the shop's tools change.
#[derive(Debug, Default)]
struct Shop {
    shelf: Vec<String>,
    earned_cents: i64,
    parcels: Vec<String>,
}

type SharedShop = Arc<Mutex<Shop>>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    match std::env::args().nth(1) {
        Some(database) => run_orders(&database).await,
        None => {
            let folder = tempfile::tempdir().expect("a scratch folder");
            run_orders(&folder.path().join("shop.db").to_string_lossy()).await
        }
    }
}

async fn run_orders(database: &str) -> Result<(), Error> {
    let shop = SharedShop::default();
    lock(&shop).shelf = ["lamp", "chair", "table"].map(str::to_owned).to_vec();

    let client = open(database, &shop).await?;
    let saved = client.save_plan(ORDER).await?;
    println!(
        "The plan `{}` is saved as version {}; the tools were held against it.",
        saved.name, saved.version
    );
    if let Some(step) = &saved.check.point_of_no_return {
        println!("Once `{step}` has begun it cannot be taken back in full.");
    }

    println!("\nThe first order.");
    let order = json!({ "item": "lamp", "card": "good", "to": "Ada" });
    print_view(&client.run("order", Some(order)).await?);

    println!("\nThe second order, with a card that is declined.");
    let order = json!({ "item": "chair", "card": "declined", "to": "Bob" });
    let view = client.run("order", Some(order)).await?;
    print_view(&view);
    println!("Undo.");
    client.undo(view.id.as_str(), Some("the customer has no other card")).await?;
    print_view(&client.wait(view.id.as_str()).await?);

    println!("\nThe third order, with a courier that falls over half-way.");
    let order = json!({ "item": "table", "card": "good", "to": "nowhere" });
    let view = client.run("order", Some(order)).await?;
    print_view(&view);
    println!("Mia calls the courier: the parcel is on its way.");
    let mia = client.acting_as("person:mia");
    mia.decide(view.id.as_str(), "send", StepAnswer::Happened, Some("the courier has it"), None).await?;
    print_view(&client.wait(view.id.as_str()).await?);

    println!("\nThe shop: {:?}", lock(&shop));
    print_journal(&client).await?;
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

async fn open(database: &str, shop: &SharedShop) -> Result<Client, Error> {
    let card = json!({
        "type": "object", "required": ["card", "cents"],
        "properties": { "card": { "type": "string" }, "cents": { "type": "integer" } },
    });
    Client::builder()
        .database(database)
        .caller("program:shop")
        .tool("shop/reserve", shop_executor(shop, reserve))
        .tool("shop/release", shop_executor(shop, release))
        .tool("shop/charge", shop_executor(shop, charge).input_schema(card.clone()))
        .tool("shop/refund", shop_executor(shop, refund).input_schema(card))
        .tool("shop/send", shop_executor(shop, send).description("Hands a parcel to the courier"))
        .open()
        .await
}

/// An executor that runs `act` on the shop. An executor may await; this one does not.
fn shop_executor(shop: &SharedShop, act: fn(&mut Shop, &Call) -> Result<Value, Fault>) -> Executor {
    let shop = shop.clone();
    Executor::new(move |call| {
        let shop = shop.clone();
        async move { act(&mut lock(&shop), &call) }
    })
}

fn reserve(shop: &mut Shop, call: &Call) -> Result<Value, Fault> {
    let item = call.arguments["item"].as_str().unwrap_or_default();
    let found = shop.shelf.iter().position(|on_shelf| on_shelf == item);
    let at =
        found.ok_or_else(|| Fault::failed(ErrorCategory::NotFound, format!("no {item} on the shelf")))?;
    shop.shelf.remove(at);
    Ok(json!({ "cents": 4_900 }))
}

fn release(shop: &mut Shop, call: &Call) -> Result<Value, Fault> {
    shop.shelf.extend(call.arguments["item"].as_str().map(str::to_owned));
    Ok(json!({}))
}

/// A real shop would pass `call.key` to the bank: two attempts with one key are one payment.
fn charge(shop: &mut Shop, call: &Call) -> Result<Value, Fault> {
    if call.arguments["card"] == "declined" {
        return Err(Fault::failed(ErrorCategory::Permission, "the card was declined"));
    }
    shop.earned_cents += call.arguments["cents"].as_i64().unwrap_or_default();
    Ok(json!({ "payment": call.key }))
}

fn refund(shop: &mut Shop, call: &Call) -> Result<Value, Fault> {
    shop.earned_cents -= call.arguments["cents"].as_i64().unwrap_or_default();
    Ok(json!({}))
}

fn send(shop: &mut Shop, call: &Call) -> Result<Value, Fault> {
    let to = call.arguments["to"].as_str().unwrap_or_default();
    shop.parcels.push(format!("{} for {to}", call.arguments["item"].as_str().unwrap_or_default()));
    assert!(to != "nowhere", "the courier fell over");
    Ok(json!({ "parcel": shop.parcels.len() }))
}

/// Locks the shop, also after an executor panicked while it held the lock.
fn lock(shop: &SharedShop) -> std::sync::MutexGuard<'_, Shop> {
    shop.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn print_view(view: &ExecutionView) {
    println!("  It is {}.", view.status);
    for step in &view.steps {
        let why = step.error.as_ref().map(|error| format!(": {} ({})", error.message, error.category));
        println!("    {} is {}{}", step.id, step.status, why.unwrap_or_default());
    }
    for waiting in &view.waiting {
        let options: Vec<&str> = waiting.options.iter().map(|option| option.as_str()).collect();
        println!("  It asks: {} [{}]", waiting.question, options.join(", "));
    }
    for stays in view.brief.iter().flat_map(|brief| &brief.cannot_undo) {
        println!("  Undo would leave `{}`: {}", stays.step, stays.why);
    }
    for undo in view.brief.iter().flat_map(|brief| &brief.undo) {
        let what = undo.tool.as_ref().or(undo.action.as_ref()).map(String::as_str).unwrap_or_default();
        println!("  Undo would take `{}` back: {what}", undo.step);
    }
}

async fn print_journal(client: &Client) -> Result<(), Error> {
    let decided = JournalFilter { actor: Some("person:mia".into()), ..JournalFilter::default() };
    for entry in client.journal(&decided, 10).await? {
        println!("Position {} of the journal, by {}: {}", entry.position, entry.actor, entry.kind);
    }
    let verified = client.verify().await?;
    println!(
        "The journal's {} entries are whole: {}. Its head is {}.",
        verified.entries, verified.ok, verified.hash
    );
    Ok(())
}

#[tokio::test]
async fn all_orders_run_without_an_error() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    run_orders(&folder.path().join("shop.db").to_string_lossy()).await.expect("nothing is refused");
}
