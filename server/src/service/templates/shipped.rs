//! The templates that are part of the binary, included from the files in `examples/`.

use std::sync::{Arc, LazyLock};

use actbook_engine::plan::Plan;

/// A template that is part of the binary.
#[derive(Debug)]
pub struct ShippedTemplate {
    pub name: &'static str,
    /// The YAML text with its comments.
    pub text: &'static str,
    pub plan: Arc<Plan>,
}

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../examples/", $name, ".yaml")))),+]
    };
}

/// Names and YAML texts.
const TEXTS: [(&str, &str); 7] = texts![
    "research",
    "implementation",
    "release",
    "database-migration",
    "file-pipeline",
    "travel-booking",
    "agent-steps",
];

static SHIPPED: LazyLock<Vec<ShippedTemplate>> = LazyLock::new(|| {
    let parse = |(name, text): (&'static str, &'static str)| {
        let plan = Plan::parse(text).expect("a test parses every example");
        ShippedTemplate { name, text, plan: Arc::new(plan) }
    };
    TEXTS.into_iter().map(parse).collect()
});

/// All templates that are part of the binary.
pub fn shipped_templates() -> &'static [ShippedTemplate] {
    &SHIPPED
}
