//! The command line's words, one file per family.

pub mod demo_tools;
