//! One integration binary, real parts.

mod postgres;
mod store;
mod tidy;
mod tools;
