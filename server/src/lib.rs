pub mod config;
pub mod tools;
