//! Lines of curl: how an operation of the API is called from a shell.

use super::api::Operation;

/// The line that calls an operation with its example. Parts of the path are in capitals, as in `executions/ID`; the
/// token comes from the variable TOKEN.
pub fn curl_line(operation: &Operation, base_url: &str) -> String {
    let path: Vec<String> = operation.path.split('/').map(path_part).collect();
    let is_implied = operation.method == "GET" || (operation.method == "POST" && operation.body.is_some());
    let method = if is_implied { String::new() } else { format!(" -X {}", operation.method) };
    let streams = if operation.id == "stream_events" { " -N" } else { "" };
    let mut line =
        format!("curl{streams}{method} -H \"Authorization: Bearer $TOKEN\" {base_url}{}", path.join("/"));
    if let Some((_, example)) = &operation.body {
        line.push_str(&format!(
            " -H 'Content-Type: application/json' -d {}",
            shell_quoted(&example.to_string())
        ));
    }
    line
}

/// A part of a path; a parameter in capitals, since curl takes braces for a set of URLs.
fn path_part(part: &str) -> String {
    match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => name.to_uppercase(),
        None => part.to_owned(),
    }
}

/// The text as one word of a POSIX shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::api::operations;
    use super::*;

    #[test]
    fn every_operation_has_a_line_that_names_its_method_and_body() {
        let base = "http://127.0.0.1:4700/api/v1";
        for operation in operations() {
            let line = curl_line(&operation, base);
            let has_body = operation.body.is_some();
            assert_eq!(line.contains(" -d '"), has_body, "{line}");
            assert!(line.contains(base) && !line.contains("/{"), "{line}");
            let names_method = line.contains(&format!(" -X {} ", operation.method));
            let is_implied = operation.method == "GET" || (operation.method == "POST" && has_body);
            assert_ne!(names_method, is_implied, "{line}");
        }
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
    }
}
