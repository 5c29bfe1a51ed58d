//! Acknowledged writes survive crashes, power cuts and full disks, and `verify` detects tampering: real
//! processes and real databases.

pub mod call_stats;
mod cleanup;
mod clock;
mod concurrent_ledgers;
mod disk_full;
mod export;
pub mod fixture;
mod head;
pub mod helper_process;
mod idle_sessions;
mod power_cut;
mod rebuild;
mod request_keys;
pub mod rng;
mod tamper;
mod twenty_processes;
