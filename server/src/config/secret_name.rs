//! Names under which people keep secrets: of environment variables, headers, options and parts of an address.

/// A name that holds one of these is a secret's.
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

/// Whether a value under this name is taken for a secret, in whatever case and with whatever hyphens it is written.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_uppercase().replace('-', "_");
    let last = name.rsplit('_').next().unwrap_or(&name);
    PARTS.iter().any(|part| name.contains(part)) || LAST_WORDS.contains(&last)
}
