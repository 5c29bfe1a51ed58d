//! A database's address as it may be shown: in errors, by `doctor`, in a log.

/// What stands in place of what is not shown.
const HIDDEN: &str = "…";

/// The address without whatever may be a password: what stands between the user's name and the host, and options whose
/// name sounds like one. A misspelt address is no exception, for it is the one that errors repeat.
pub fn without_password(address: &str) -> String {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None if address.starts_with(['/', '.']) => return address.to_owned(),
        None => ("", address),
    };
    match (rest.find('?'), rest.rfind('@')) {
        // An unescaped `?` or `@` of a password: nobody can tell which part is which.
        (Some(options), Some(at)) if options < at => format!("{scheme}{HIDDEN}"),
        (Some(options), _) => {
            let (place, options) = rest.split_at(options);
            format!("{scheme}{}{}", without_user_info(place), hide_options(options, '&'))
        }
        (None, _) => format!("{scheme}{}", hide_options(&without_user_info(rest), ' ')),
    }
}

fn without_user_info(rest: &str) -> String {
    match rest.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            format!("{}@{host}", user.split(':').next().unwrap_or_default())
        }
        Some(_) | None => rest.to_owned(),
    }
}

/// `password=x` becomes `password=…`, whichever option it is among.
fn hide_options(options: &str, separator: char) -> String {
    let shown = |option: &str| match option.split_once('=') {
        Some((name, _)) if sounds_secret(name) => format!("{name}={HIDDEN}"),
        Some(_) | None => option.to_owned(),
    };
    options.split(separator).map(shown).collect::<Vec<_>>().join(&separator.to_string())
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token"].iter().any(|word| name.contains(word))
}
