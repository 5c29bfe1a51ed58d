//! Two ledgers on one database: what one appends, the other must not decide against.

use std::sync::Arc;

use actbook_engine::policy::Status;
use serde_json::json;

use super::book::{self, Book};
use super::dice::Dice;
use crate::store::for_each_database;

#[test]
fn two_ledgers_take_turns_on_one_execution() {
    for_each_database(async |scratch| {
        let books = [Book::open(&scratch.url).await, Book::open(&scratch.url).await];
        let plan = book::plan("shared", &[book::step("only", "t/ok", "word")]);
        let id = books[0].start(&plan, None, false).await.id.to_string();
        let mut dice = Dice::seeded("neighbours");
        for turn in 0..60 {
            let Book { service, caller, .. } = dice.pick(&books);
            let (_, progress) = match turn % 2 {
                0 => service.pause(caller, &id, None).await.unwrap(),
                _ => service.resume(caller, &id).await.unwrap(),
            };
            assert_eq!(progress.status == Status::Paused, turn % 2 == 0, "turn {turn}");
            let refused = match turn % 2 {
                0 => books[dice.below(2)].service.pause(caller, &id, None).await,
                _ => books[dice.below(2)].service.resume(caller, &id).await,
            };
            assert!(refused.is_err(), "a repeated word is refused by both, turn {turn}");
        }
        books[0].assert_whole().await;
    });
}

#[test]
fn plans_saved_from_two_ledgers_at_once_are_numbered_without_a_gap() {
    for_each_database(async |scratch| {
        let books = [Book::open(&scratch.url).await, Book::open(&scratch.url).await].map(Arc::new);
        let saving = (0..40).map(|number| {
            let book = books[number % 2].clone();
            let mut plan = book::plan("one name", &[book::step("only", "t/ok", "word")]);
            plan["description"] = json!(format!("version {number}"));
            tokio::spawn(async move {
                book.service.save_plan(&book.caller, &plan.to_string(), true).await.unwrap().version
            })
        });
        let mut versions = Vec::new();
        for saved in futures_util::future::join_all(saving).await {
            versions.push(saved.unwrap());
        }
        versions.sort_unstable();
        assert_eq!(versions, (1..=40).collect::<Vec<u32>>());
    });
}
