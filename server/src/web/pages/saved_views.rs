//! Saved views of the list of executions: a name and a query each, kept in a cookie of the browser. A view is no more
//! than its address, which can be sent to others.

use axum::Form;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::execution_filters::ListQuery;
use super::markup::url_part;
use crate::web::authentication::cookie;
use crate::web::problem::Problem;

/// The cookie with the views, each as `name=query`, both percent-encoded, with `|` between them.
const VIEWS_COOKIE: &str = "actbook-views";
const VIEWS_MAX: usize = 12;
/// Most bytes of the cookie's value; browsers keep about 4,000.
const COOKIE_BYTES_MAX: usize = 3_500;
const NAME_CHARS_MAX: usize = 40;
/// How long a browser keeps the views, in seconds.
const KEPT_S: u32 = 365 * 24 * 3600;

/// Views that every reader has.
const BUILT_IN: [(&str, &str); 3] = [
    ("Waits for a person", "status=blocked"),
    ("Failed today", "status=failed&since=24h"),
    ("Not yet ended", "status=running&status=blocked&status=paused&status=compensating"),
];

/// The views beside the list.
#[derive(Debug)]
pub struct SavedViews {
    pub views: Vec<SavedView>,
    /// The name of the view that is shown.
    pub current: Option<String>,
    /// The query that is shown, to be saved. `None`: it shows everything.
    pub query: Option<String>,
}

/// One view.
#[derive(Debug)]
pub struct SavedView {
    pub name: String,
    pub path: String,
    pub is_own: bool,
}

impl SavedViews {
    /// The views of a browser; `shown` is the query of the page.
    pub fn of(headers: &HeaderMap, shown: &ListQuery) -> Self {
        let shown = shown.text();
        let own = read(headers);
        let built_in = BUILT_IN.map(|(name, query)| (name.to_owned(), query.to_owned()));
        let current = own.iter().chain(&built_in).find(|(_, query)| *query == shown);
        let current = current.map(|(name, _)| name.clone());
        let view = |is_own: bool| {
            move |(name, query): (String, String)| SavedView { name, path: format!("/?{query}"), is_own }
        };
        let views = own.into_iter().map(view(true)).chain(built_in.into_iter().map(view(false)));
        Self { views: views.collect(), current, query: Some(shown).filter(|query| !query.is_empty()) }
    }
}

/// The views of a browser: the name and the query of each.
fn read(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = cookie(headers, VIEWS_COOKIE).unwrap_or_default();
    let view = |part: &str| {
        let (name, query) = part.split_once('=')?;
        Some((decode(name)?, decode(query)?))
    };
    text.split('|').filter_map(view).take(VIEWS_MAX).collect()
}

/// The form of a view: its name and its query; with `remove` it is forgotten.
#[derive(Debug, Deserialize)]
pub struct ViewForm {
    name: String,
    #[serde(default)]
    query: String,
    remove: Option<String>,
}

/// `POST /views`: saves or forgets a view, and leads to the list.
pub async fn change(headers: HeaderMap, Form(form): Form<ViewForm>) -> Result<Response, Problem> {
    let name: String = form.name.trim().chars().take(NAME_CHARS_MAX).collect();
    if name.is_empty() {
        return Err(Problem::bad_parameter("name", "a view needs a name"));
    }
    // Written anew from what is understood, so that a view leads nowhere but to the list.
    let query = ListQuery::of(&parse_pairs(&form.query))?;
    let mut views = read(&headers);
    views.retain(|(known, _)| *known != name);
    if form.remove.is_none() {
        views.insert(0, (name, query.text()));
        views.truncate(VIEWS_MAX);
    }
    let encode = |(name, query): &(String, String)| format!("{}={}", url_part(name), url_part(query));
    let value = views.iter().map(encode).collect::<Vec<_>>().join("|");
    if value.len() > COOKIE_BYTES_MAX {
        return Err(Problem::bad_parameter("query", "the saved views are too long; remove one"));
    }
    let mut response = Redirect::to(&query.path()).into_response();
    let set = format!("{VIEWS_COOKIE}={value}; Path=/; SameSite=Lax; HttpOnly; Max-Age={KEPT_S}");
    if let Ok(set) = HeaderValue::try_from(set) {
        response.headers_mut().insert(header::SET_COOKIE, set);
    }
    Ok(response)
}

/// The parameters of a query's text.
fn parse_pairs(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((decode(name)?, decode(&value.replace('+', " "))?))
    };
    query.split('&').filter_map(pair).collect()
}

/// A percent-encoded text. `None`: it is not one.
fn decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_read_back() {
        for text in ["", "a b/ü&=|%", "plan!=c"] {
            assert_eq!(decode(&url_part(text)).as_deref(), Some(text));
        }
        assert_eq!([decode("%"), decode("%4"), decode("%zz"), decode("%ff")], [None, None, None, None]);
        let pairs = parse_pairs("plan!=a%20b&x&status=failed");
        assert_eq!(ListQuery::of(&pairs).unwrap().text(), "plan!=a%20b&status=failed");
    }
}
