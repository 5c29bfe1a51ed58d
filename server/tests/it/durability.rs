//! Acknowledged writes survive crashes, power cuts and full disks, and `verify` detects tampering: real
//! processes and real databases.

pub mod book;
pub mod calls;
mod cleanup;
mod clock;
pub mod dice;
mod export;
mod full;
mod head;
mod keys;
mod neighbours;
mod power;
pub mod process;
mod rebuild;
mod tamper;
mod twenty;
