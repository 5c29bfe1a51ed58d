//! The templates that come with the binary: the same files as the examples, each in one place.

use std::sync::{Arc, LazyLock};

use actbook_engine::plan::Plan;

#[derive(Debug)]
pub struct Shipped {
    pub name: &'static str,
    /// As it was written, with its comments.
    pub text: &'static str,
    pub plan: Arc<Plan>,
}

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../examples/", $name, ".yaml")))),+]
    };
}

const TEXTS: [(&str, &str); 7] = texts![
    "research",
    "implementation",
    "release",
    "database-migration",
    "file-pipeline",
    "travel-booking",
    "agent-steps",
];

static SHIPPED: LazyLock<Vec<Shipped>> = LazyLock::new(|| {
    let read = |(name, text): (&'static str, &'static str)| {
        let plan = Plan::parse(text).expect("a test reads every example");
        Shipped { name, text, plan: Arc::new(plan) }
    };
    TEXTS.into_iter().map(read).collect()
});

pub fn shipped() -> &'static [Shipped] {
    &SHIPPED
}
