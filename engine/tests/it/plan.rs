//! Plans in text: what is read from a valid one, and what is said of a wrong one.

use actbook_engine::plan::{Plan, Work};

const INTERFACE: &str = r#"
name: publish-notes
description: publishes
type: deployment
task: TASK-12
reasoning: why this plan
inputs: { type: object, properties: {version: {type: string}}, required: [version] }
policy:
  concurrency: 1
  on_failure: manual
  timeout: 10m
  max_calls: 100
  approval: none
steps:
  - id: draft
    name: Write the draft
    tool: files/write_file
    arguments: { path: "notes-${inputs.version}.md", content: "…" }
    depends_on: []
    when: inputs.version != ""
    timeout: 30s
    retry: { max_attempts: 3, backoff: 500ms, factor: 2.0, max_backoff: 30s, on: [unavailable, rate_limited, timeout] }
    idempotent: false
    read_only: false
    cancellable: reversible
    compensation: { tool: files/delete_file, arguments: { path: "${arguments.path}" } }
    probe: { tool: files/stat, arguments: { path: "${arguments.path}" }, happened: "output.exists" }
    approval: required
    by: actbook
    failure_policy: { action: manual_decision, propagate_to: [] }
    priority: 0
    metadata: {}
  - id: announce
    action: Tell the team in the channel
    estimated_duration: 30m
    cancellable: irreversible
"#;

#[test]
fn the_documented_plan_is_read_and_reads_the_same_again() {
    let plan = Plan::parse(INTERFACE).expect("valid");
    assert_eq!(plan.steps.len(), 2);
    assert!(matches!(&plan.steps[1].work, Work::Action { estimated_ms: Some(1_800_000), .. }));
    let again = Plan::parse(&plan.document).expect("valid");
    assert_eq!(format!("{plan:?}"), format!("{again:?}"));
    println!("{}", serde_json::to_string(&actbook_engine::analysis::check(&plan)).unwrap());
}
