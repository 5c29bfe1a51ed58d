//! The address of one call, filled in from its arguments. An argument may say what is asked for, never, beyond
//! what the config left open, whom it is asked of: behind the host it is percent-encoded, in the host it may
//! hold a host's characters only, and it may be the whole address only where nothing stands before it.

use reqwest::Url;
use serde_json::Value;

use super::invalid;
use crate::config::{Part, Template};
use crate::tools::classify::Came;
use crate::tools::egress::Place;
use crate::tools::secret::{Secrets, argument_text};
use crate::tools::unfilled;

pub struct Filled {
    pub url: Url,
    /// Where the config itself names the host, and not the call.
    pub own: Option<Place>,
}

pub fn fill(template: &Template, arguments: &Value, secrets: &Secrets) -> Result<Filled, Came> {
    let mut text = String::new();
    let mut own = None;
    let mut given = false;
    for part in &template.parts {
        let Part::Argument(path) = part else {
            let part = Template { source: String::new(), parts: vec![part.clone()] };
            let filled = secrets.resolve(&part, &Value::Null).map_err(|problem| unfilled(&problem))?;
            text.push_str(filled.expose());
            continue;
        };
        let value = argument_text(arguments, path).map_err(|problem| unfilled(&problem))?;
        if !given && past_host(&text) {
            own = Url::parse(&text).ok().as_ref().and_then(Place::of);
        }
        given = true;
        match (text.is_empty(), past_host(&text)) {
            (true, _) => text.push_str(value.trim()),
            (false, true) => text.push_str(&encoded(&value)),
            (false, false) if value.chars().all(is_of_a_host) => text.push_str(&value),
            (false, false) => return Err(invalid(format!("`{value}` cannot be a part of a host"))),
        }
    }
    let url = Url::parse(&text)
        .map_err(|error| invalid(format!("`{}` is no address: {error}", template.source)))?;
    if given && leads_elsewhere(&text) {
        return Err(invalid("an argument must not lead to another folder of the address".to_owned()));
    }
    match (given, own) {
        (false, _) => Ok(Filled { own: Place::of(&url), url }),
        (true, own) if own.is_none() || own == Place::of(&url) => Ok(Filled { url, own }),
        (true, _) => Err(invalid("an argument must not change whom the call is made to".to_owned())),
    }
}

fn rest(text: &str) -> Option<&str> {
    let (_, behind_scheme) = text.split_once("://")?;
    behind_scheme.find(['/', '?', '#', '\\']).map(|at| &behind_scheme[at..])
}

fn past_host(text: &str) -> bool {
    rest(text).is_some()
}

fn is_of_a_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._:[]".contains(c)
}

fn encoded(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(encode).collect()
}

/// `.` and `..` as whole parts of a path are taken away by whoever reads it, with what stands before them.
fn leads_elsewhere(text: &str) -> bool {
    let path = rest(text).unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
    let mut parts = path.split(['/', '\\']).map(|part| part.to_ascii_lowercase().replace("%2e", "."));
    parts.any(|part| part == "." || part == "..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Scope;

    fn filled(template: &str, argument: &str) -> Result<Filled, Came> {
        let template = Template::parse(template, Scope::Call).expect("a template");
        let base = |name: &str| (name == "BASE").then(|| "https://h.example/a".to_owned());
        fill(&template, &json!({ "x": argument }), &Secrets::new(base))
    }

    proptest::proptest! {
        #[test]
        fn an_argument_changes_neither_the_host_nor_the_rest_of_the_address(argument in "\\PC{0,12}|[./%?#@:\\\\a2eE]{0,8}") {
            for template in ["https://h.example/a/${arguments.x}/b?q=${arguments.x}", "${env:BASE}/${arguments.x}/b?q=${arguments.x}"] {
                if let Ok(Filled { url, own }) = filled(template, &argument) {
                    proptest::prop_assert_eq!(url.host_str(), Some("h.example"));
                    proptest::prop_assert_eq!(own, Place::of(&url));
                    proptest::prop_assert!(url.username().is_empty() && url.fragment().is_none());
                    let path: Vec<&str> = url.path().split('/').collect();
                    proptest::prop_assert_eq!((path[1], path[3], path.len()), ("a", "b", 4));
                    let query: Vec<_> = url.query_pairs().collect();
                    proptest::prop_assert_eq!(query, [("q".into(), argument.as_str().into())]);
                }
            }
        }

        #[test]
        fn a_part_of_a_host_stays_one(argument in "\\PC{0,12}|[./%?#@:a1]{0,8}") {
            if let Ok(Filled { url, own }) = filled("https://${arguments.x}.example/a", &argument) {
                proptest::prop_assert!(url.host_str().is_some_and(|host| host.ends_with(".example")), "{url}");
                proptest::prop_assert!(url.path() == "/a" && own.is_none(), "{url}");
            }
        }
    }
}
