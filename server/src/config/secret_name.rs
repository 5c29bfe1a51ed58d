//! Names that usually hold secrets: of environment variables, headers, options and URL parameters.

/// A name that contains one of these is a secret's.
const PARTS: [&str; 15] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "API_KEY",
    "APIKEY",
    "ACCESSKEY",
    "AUTHORIZATION",
    "CREDENTIAL",
    "COOKIE",
    "BEARER",
    "SIGNATURE",
    "DATABASE_URL",
    "CONNECTION_STRING",
];
/// A name whose last word is one of these is a secret's.
const LAST_WORDS: [&str; 8] = ["KEY", "PAT", "PASS", "PWD", "PIN", "DSN", "AUTH", "SIG"];

/// Whether a value under this name counts as a secret. Case does not matter, and `-` counts as `_`.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_uppercase().replace('-', "_");
    let last = name.rsplit('_').next().unwrap_or(&name);
    PARTS.iter().any(|part| name.contains(part)) || LAST_WORDS.contains(&last)
}
