//! What a caller may do. A credential has a role, and a role has rights. Callers without a credential (the
//! command line, the embedding program, MCP over stdio) hold the database itself, so they have every right.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// One thing that a caller may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// See executions, plans, notes and entries.
    Read,
    /// Start executions, save plans, report on agent steps, write notes and tasks.
    Run,
    /// Pause, resume, cancel and undo executions, and answer the questions of their steps.
    Operate,
    /// Answer approvals.
    Approve,
    /// See arguments and outputs of calls.
    Payloads,
    /// Manage tokens and sessions, and accept changed tools.
    Admin,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Run, Self::Operate, Self::Approve, Self::Payloads, Self::Admin];

    /// The right's word, as serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Operate => "operate",
            Self::Approve => "approve",
            Self::Payloads => "payloads",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Right {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What a credential is for; decides its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Viewer,
    Agent,
    Operator,
    Approver,
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Agent, Self::Operator, Self::Approver, Self::Admin];

    /// The role's word, as stored and as `--role` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Agent => "agent",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }

    pub fn rights(self) -> Rights {
        use Right::{Approve, Operate, Payloads, Read, Run};
        match self {
            Self::Viewer => Rights::of(&[Read]),
            Self::Agent => Rights::of(&[Read, Run, Payloads]),
            Self::Operator => Rights::of(&[Read, Run, Payloads, Operate]),
            Self::Approver => Rights::of(&[Read, Payloads, Approve]),
            Self::Admin => Rights::ALL,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    /// Err: the text is no role; it names the roles.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == text);
        let known = Self::ALL.map(Self::as_str).join(", ");
        found.ok_or_else(|| format!("`{text}` is no role; the roles are {known}"))
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Every right: that of callers without a credential, who hold the database itself.
    pub const ALL: Self = Self(u8::MAX);

    /// The set of these rights.
    pub fn of(rights: &[Right]) -> Self {
        Self(rights.iter().fold(0, |set, right| set | 1 << *right as u8))
    }

    /// The set with one right more.
    pub fn with(self, right: Right) -> Self {
        Self(self.0 | 1 << right as u8)
    }

    pub fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u8) != 0
    }

    /// The rights in the set.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }
}

/// What a request proved itself with: a token, or the session of a signed-in person.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its id in `actbook token list` and `GET /api/v1/sessions`.
    pub id: String,
    pub kind: CredentialKind,
    /// The name that its entries in the journal have, without the kind before the colon.
    pub name: String,
    pub role: Role,
}

/// The kinds of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A token of an agent or a program: `abk_…`.
    ProgramToken,
    /// A token of a person: `abp_…`.
    PersonToken,
    /// The session cookie of a person in a browser.
    Session,
}

impl CredentialKind {
    /// The kind's word, as stored and serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProgramToken => "program",
            Self::PersonToken => "person",
            Self::Session => "session",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_rights_of_their_table() {
        let rights = |role: Role| role.rights().iter().map(Right::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!(rights(Role::Viewer), "read");
        assert_eq!(rights(Role::Agent), "read run payloads");
        assert_eq!(rights(Role::Operator), "read run operate payloads");
        assert_eq!(rights(Role::Approver), "read approve payloads");
        assert_eq!(rights(Role::Admin), "read run operate approve payloads admin");
    }
}
