//! The demo.
use super::output::Output;
use super::{Ended, Exit};
pub async fn demo(_output: &Output, _keep: Option<std::path::PathBuf>) -> Ended {
    Ok(Exit::Done)
}
