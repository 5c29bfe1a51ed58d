//! The clients whose hooks are understood, and what each of them can do.

use std::time::Duration;

/// A client whose hooks are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookClient {
    ClaudeCode,
    Codex,
    Cursor,
    Gemini,
    Vscode,
    Copilot,
}

impl HookClient {
    pub const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Cursor, Self::Gemini, Self::Vscode, Self::Copilot];

    /// The client's name on the command line and in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Vscode => "vscode",
            Self::Copilot => "copilot",
        }
    }

    /// The time after which the client gives a hook up, unless it is configured otherwise.
    pub fn default_limit(self) -> Duration {
        match self {
            Self::ClaudeCode | Self::Codex => Duration::from_secs(600),
            Self::Cursor | Self::Gemini => Duration::from_secs(60),
            Self::Vscode | Self::Copilot => Duration::from_secs(30),
        }
    }

    /// Whether the client can ask its own person about a call, in this mode of permissions.
    pub fn can_ask(self, mode: Option<&str>) -> bool {
        match self {
            Self::ClaudeCode => matches!(mode, Some("default" | "acceptEdits" | "plan")),
            // They document that an `ask` always needs the person, whatever else is allowed; without one they deny.
            Self::Vscode | Self::Copilot => true,
            // Codex counts an `ask` as a failed hook and makes the call; Cursor's generic hook ignores it; Gemini
            // reports no mode.
            Self::Codex | Self::Cursor | Self::Gemini => false,
        }
    }
}

impl std::fmt::Display for HookClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for HookClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|client| client.as_str() == text);
        known.ok_or_else(|| format!("`{text}` is no client whose hooks are understood"))
    }
}
