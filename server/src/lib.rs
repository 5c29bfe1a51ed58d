//! Actbook is the book of acts for AI agents: it checks a plan of tool calls before anything happens, runs
//! it, writes every call, outcome and decision into a tamper-evident journal, stops at a failure with a brief
//! of what is done and what can still be undone, and undoes it when told to.
//!
//! This crate is the binary `actbook` and, for programs that embed it, a library. The library's entry point
//! is [`Client`]: the program registers an async function for each tool of its own, and Actbook calls it.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use actbook::{AnswerOption, Call, Client, ErrorCategory, ExecutionStatus, Executor, Fault, StepAnswer};
//! use serde_json::json;
//!
//! const ORDER: &str = r#"
//! name: order
//! inputs: { type: object, properties: { item: { type: string } }, required: [item] }
//! steps:
//!   - id: reserve
//!     tool: shop/reserve
//!     arguments: { item: "${inputs.item}" }
//!     compensation: { tool: shop/release, arguments: { reservation: "${output.reservation}" } }
//!   - id: charge
//!     tool: shop/charge
//!     arguments: { reservation: "${steps.reserve.output.reservation}" }
//! "#;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), actbook::Error> {
//! let folder = tempfile::tempdir().expect("a scratch folder");
//! let shelf = Arc::new(Mutex::new(vec!["lamp".to_owned()]));
//!
//! let (take, put_back) = (shelf.clone(), shelf.clone());
//! let client = Client::builder()
//!     .database(folder.path().join("book.db").to_string_lossy())
//!     .caller("program:shop")
//!     .tool("shop/reserve", move |call: Call| {
//!         let taken = take.lock().expect("nobody panicked").pop();
//!         async move {
//!             let item = taken.ok_or_else(|| Fault::failed(ErrorCategory::NotFound, "the shelf is empty"))?;
//!             // The key is the same for every attempt that must not take effect twice.
//!             Ok(json!({ "reservation": format!("{item}/{}", call.key) }))
//!         }
//!     })
//!     .tool("shop/release", Executor::new(move |call| {
//!         let reservation = call.arguments["reservation"].as_str().unwrap_or_default().to_owned();
//!         put_back.lock().expect("nobody panicked").extend(reservation.split('/').next().map(str::to_owned));
//!         async { Ok(json!({})) }
//!     }).idempotent())
//!     .tool("shop/charge", |_: Call| async {
//!         Err(Fault::failed(ErrorCategory::Permission, "the card was declined"))
//!     })
//!     .open()
//!     .await?;
//!
//! // The plan is checked against the tools and saved, then run to its end or its first question.
//! client.save_plan(ORDER).await?;
//! let view = client.run("order", Some(json!({ "item": "lamp" }))).await?;
//! assert_eq!(view.status, ExecutionStatus::Blocked);
//! use StepAnswer::{Abandon, Compensate, Happened, Retry, Skip};
//! let answers = [Retry, Skip, Happened, Compensate, Abandon].map(AnswerOption::Decide);
//! assert_eq!(view.waiting[0].options, answers);
//!
//! // The brief: what is done, and which calls would undo it.
//! let brief = view.brief.expect("something went wrong");
//! assert_eq!(brief.undo[0].tool.as_deref(), Some("shop/release"));
//! assert!(shelf.lock().unwrap().is_empty());
//!
//! client.undo(view.id.as_str(), Some("the customer has no other card")).await?;
//! assert_eq!(client.wait(view.id.as_str()).await?.status, ExecutionStatus::Compensated);
//! assert_eq!(*shelf.lock().unwrap(), ["lamp"]);
//!
//! // The journal is whole, and says who did what.
//! assert!(client.verify().await?.ok);
//! client.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! What a plan can say is in `docs/guide.md`, what exactly happens in `docs/semantics.md`, and more on
//! embedding in `docs/library.md`. The modules that this page does not show are internal.

mod boot_instant;
#[doc(hidden)]
pub mod caller;
#[doc(hidden)]
pub mod cli;
mod client;
mod clock;
#[doc(hidden)]
pub mod config;
mod drawing;
mod egress;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod folders;
#[doc(hidden)]
pub mod guard;
#[doc(hidden)]
pub mod ledger;
#[doc(hidden)]
pub mod mcp;
#[doc(hidden)]
pub mod notify;
mod random;
mod runner;
#[doc(hidden)]
pub mod service;
mod snapshot;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod tools;
#[doc(hidden)]
pub mod web;

pub use client::{Builder, Client, Watch};
pub use config::{Config, ConfigError};
pub use error::Error;
pub use service::view::{
    AnswerOption, EntryView, ErrorView, ExecutionSummary, ExecutionView, PlanRefView, PlanView, ProgressView,
    QuestionKind, RecordView, StepProgress, StepView, WaitingView,
};
pub use service::{
    ActionFacts, ActionRecord, AddedTask, Brief, Decision, ExecutionFilter, ExportReport, JournalFilter,
    NotUndoable, NoteFilter, NoteOwner, NoteOwnerRef, NotePage, NoteReceipt, NoteSpec, NoteValueView,
    NoteView, ReportedStatus, SavedPlan, TaskHistory, TaskHistoryEvent, TaskSpec, TaskStatus, TaskView,
    Terms, UndoItem, VerifyFailure, VerifyReport,
};
pub use tools::{Call, Executor, Fault, Origin, Purpose, ServerTools, ToolInfo};

pub use actbook_engine::analysis::PlanCheck;
pub use actbook_engine::id::{ExecutionId, PlanId, StepId};
pub use actbook_engine::plan::{Finding, Severity};
pub use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepAnswer, StepStatus};
