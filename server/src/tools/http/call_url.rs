//! The URL of one call, filled in from its arguments. An argument may choose the resource, but the host only
//! as far as the config leaves it open: after the host an argument is percent-encoded, inside the host it may
//! hold host characters only, and it may be the whole URL only where the template begins with it.

use reqwest::Url;
use serde_json::Value;

use super::invalid_arguments;
use crate::config::{ConfigTemplate, TemplatePart};
use crate::egress::HostPattern;
use crate::tools::classify::RawOutcome;
use crate::tools::secret::{Secrets, argument_text};
use crate::tools::template_not_filled;

/// A URL template of the config with a call's arguments filled in, and whether an argument chose the host.
pub struct FilledUrl {
    pub url: Url,
    /// The host, where the config names it. None: an argument chose it.
    pub configured_host: Option<HostPattern>,
}

/// Fills in a URL template. Err, not sent: a reference cannot be resolved, an argument would change the host
/// or folder, or the result is not a URL.
pub fn fill_url(
    template: &ConfigTemplate,
    arguments: &Value,
    secrets: &Secrets,
) -> Result<FilledUrl, RawOutcome> {
    let mut text = String::new();
    let mut configured_host = None;
    let mut has_argument = false;
    for part in &template.parts {
        let TemplatePart::Argument(path) = part else {
            let part = ConfigTemplate { source: String::new(), parts: vec![part.clone()] };
            let filled =
                secrets.resolve(&part, &Value::Null).map_err(|problem| template_not_filled(&problem))?;
            text.push_str(filled.expose());
            continue;
        };
        let value = argument_text(arguments, path).map_err(|problem| template_not_filled(&problem))?;
        if !has_argument && has_complete_host(&text) {
            configured_host = Url::parse(&text).ok().as_ref().and_then(HostPattern::from_url);
        }
        has_argument = true;
        match (text.is_empty(), has_complete_host(&text)) {
            (true, _) => text.push_str(value.trim()),
            (false, true) => text.push_str(&percent_encode(&value)),
            (false, false) if value.chars().all(is_host_character) => text.push_str(&value),
            (false, false) => return Err(invalid_arguments(format!("`{value}` cannot be a part of a host"))),
        }
    }
    let url = Url::parse(&text)
        .map_err(|error| invalid_arguments(format!("`{}` is not a URL: {error}", template.source)))?;
    if has_argument && has_dot_segment(&text) {
        return Err(invalid_arguments("an argument must not lead to another folder of the URL".to_owned()));
    }
    match (has_argument, configured_host) {
        (false, _) => Ok(FilledUrl { configured_host: HostPattern::from_url(&url), url }),
        (true, configured_host)
            if configured_host.is_none() || configured_host == HostPattern::from_url(&url) =>
        {
            Ok(FilledUrl { url, configured_host })
        }
        (true, _) => Err(invalid_arguments("an argument must not change the host of the call".to_owned())),
    }
}

/// The part of a URL after scheme and host, with its `/`, `?` or `#`. None: the host is not complete yet.
fn after_host(text: &str) -> Option<&str> {
    let (_, after_scheme) = text.split_once("://")?;
    after_scheme.find(['/', '?', '#', '\\']).map(|at| &after_scheme[at..])
}

/// Whether the text so far contains the whole host.
fn has_complete_host(text: &str) -> bool {
    after_host(text).is_some()
}

/// Whether an argument inside the host may hold the character.
fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._:[]".contains(c)
}

/// Percent-encodes all bytes but those of unreserved characters.
fn percent_encode(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(encode).collect()
}

/// Whether the path has a `.` or `..` segment: the server would remove it together with the segment before
/// it.
fn has_dot_segment(text: &str) -> bool {
    let path = after_host(text).unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
    let mut parts = path.split(['/', '\\']).map(|part| part.to_ascii_lowercase().replace("%2e", "."));
    parts.any(|part| part == "." || part == "..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::ReferenceScope;

    fn filled(template: &str, argument: &str) -> Result<FilledUrl, RawOutcome> {
        let template = ConfigTemplate::parse(template, ReferenceScope::Call).expect("a template");
        let base = |name: &str| (name == "BASE").then(|| "https://h.example/a".to_owned());
        fill_url(&template, &json!({ "x": argument }), &Secrets::new(base))
    }

    proptest::proptest! {
        #[test]
        fn argument_cannot_change_host_or_other_url_parts(argument in "\\PC{0,12}|[./%?#@:\\\\a2eE]{0,8}") {
            for template in ["https://h.example/a/${arguments.x}/b?q=${arguments.x}", "${env:BASE}/${arguments.x}/b?q=${arguments.x}"] {
                if let Ok(FilledUrl { url, configured_host }) = filled(template, &argument) {
                    proptest::prop_assert_eq!(url.host_str(), Some("h.example"));
                    proptest::prop_assert_eq!(configured_host, HostPattern::from_url(&url));
                    proptest::prop_assert!(url.username().is_empty() && url.fragment().is_none());
                    let path: Vec<&str> = url.path().split('/').collect();
                    proptest::prop_assert_eq!((path[1], path[3], path.len()), ("a", "b", 4));
                    let query: Vec<_> = url.query_pairs().collect();
                    proptest::prop_assert_eq!(query, [("q".into(), argument.as_str().into())]);
                }
            }
        }

        #[test]
        fn host_argument_stays_one_host_part(argument in "\\PC{0,12}|[./%?#@:a1]{0,8}") {
            if let Ok(FilledUrl { url, configured_host }) = filled("https://${arguments.x}.example/a", &argument) {
                proptest::prop_assert!(url.host_str().is_some_and(|host| host.ends_with(".example")), "{url}");
                proptest::prop_assert!(url.path() == "/a" && configured_host.is_none(), "{url}");
            }
        }
    }
}
