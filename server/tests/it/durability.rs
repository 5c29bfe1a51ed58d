//! What was acknowledged stays, whatever happens to the process, the disk, or the file: real
//! processes, real databases, and a journal that says when it was touched.

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
