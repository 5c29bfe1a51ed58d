//! `$1` becomes `?1`: to SQLite, `$1` is a parameter's name, numbered by where it first appears.
//! Each text is rewritten once and kept; there are as many as the source has.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// A static text is known by where it lies, which is quicker than reading it.
pub(super) type Place = (usize, usize);

static REWRITTEN: LazyLock<RwLock<HashMap<Place, &'static str>>> = LazyLock::new(RwLock::default);

pub(super) fn place(sql: &'static str) -> Place {
    (sql.as_ptr() as usize, sql.len())
}

pub(super) fn numbered(sql: &'static str) -> &'static str {
    let known = REWRITTEN.read().unwrap_or_else(PoisonError::into_inner).get(&place(sql)).copied();
    known.unwrap_or_else(|| {
        let mut all = REWRITTEN.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(place(sql)).or_insert_with(|| Box::leak(sql.replace('$', "?").into_boxed_str()))
    })
}
