//! Twenty processes on one database: each drives its own executions, and all append to one chain.

use std::collections::BTreeMap;

use actbook::store::{executions, journal};
use actbook_engine::policy::ExecutionStatus;

use super::fixture::{self, ServiceFixture};
use super::helper_process;
use crate::counts::times;
use crate::store::{TENANT, for_each_database};

const PROCESSES: usize = 20;
const STEPS: usize = 3;
/// How many executions one process drives at once.
const CONCURRENT_EXECUTIONS: usize = 3;

/// How many executions each process runs.
fn executions_per_process() -> usize {
    times("ACTBOOK_EXECUTIONS", 15)
}

/// Runs in each of the twenty helper processes.
pub async fn run_in_helper(url: &str) {
    let fixture = ServiceFixture::open_observed(url, |call| {
        helper_process::emit(&format!("called {}", call.arguments["word"]))
    })
    .await;
    let name = format!("{}", std::process::id());
    let drive = async |worker: usize| {
        for number in (worker..executions_per_process()).step_by(CONCURRENT_EXECUTIONS) {
            let word = format!("{name}-{number}");
            let steps: Vec<_> =
                (0..STEPS).map(|no| fixture::step(&format!("s{no}"), "t/ok", &word)).collect();
            let (id, status) = fixture.run(&fixture::plan(&format!("p{number}"), &steps), None).await;
            let position = fixture.executions().view(&id).await.unwrap().position;
            helper_process::emit(&format!("ended {id} {position} {status}"));
        }
    };
    futures_util::future::join_all((0..CONCURRENT_EXECUTIONS).map(drive)).await;
    fixture.service.close().await;
}

#[test]
fn twenty_processes_share_one_chain_and_lose_nothing() {
    for_each_database(async |scratch| {
        let begun = std::time::Instant::now();
        let processes: Vec<_> =
            (0..PROCESSES).map(|_| helper_process::start("executions", &scratch.url)).collect();
        let lines: Vec<String> =
            processes.into_iter().flat_map(helper_process::HelperProcess::emitted_lines).collect();
        eprintln!("{:?} took {:?}", scratch.kind, begun.elapsed());

        let mut calls = BTreeMap::<&str, usize>::new();
        for call in lines.iter().filter_map(|line| line.strip_prefix("called ")) {
            *calls.entry(call).or_default() += 1;
        }
        assert_eq!(calls.len(), PROCESSES * executions_per_process() * STEPS);
        assert!(calls.values().all(|times| *times == 1), "a call was made twice: {calls:?}");

        let entries = journal::between(TENANT, 0, u64::MAX).all(&scratch.db).await.unwrap();
        let positions: Vec<u64> = entries.iter().map(|entry| entry.position).collect();
        assert_eq!(positions, (1..=entries.len() as u64).collect::<Vec<_>>(), "positions have no gap");
        let ended: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("ended ")).collect();
        assert_eq!(ended.len(), PROCESSES * executions_per_process());
        for line in ended {
            let [id, position, status] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert_eq!(status, ExecutionStatus::Succeeded.as_str(), "{line}");
            let last = &entries[position.parse::<usize>().unwrap() - 1];
            let row = executions::by_id(TENANT, last.stream).first(&scratch.db).await.unwrap().unwrap();
            assert_eq!((row.public_id.as_str(), row.status.as_str()), (id, status));
            assert_eq!(last.kind, "execution_ended.1", "{line}");
        }
        let verified = ServiceFixture::open(&scratch.url).await.assert_verifies().await;
        assert_eq!(verified.position, entries.len() as u64);
    });
}
