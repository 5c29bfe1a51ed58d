//! Plans drawn.
use super::args::GraphFormat;
use actbook_engine::plan::Plan;
pub fn draw(_plan: &Plan, _format: GraphFormat) -> String {
    String::new()
}
