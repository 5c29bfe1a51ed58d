//! What a caller may do. A credential has a role, and a role has rights. Callers without a credential (the
//! command line, the embedding program, MCP over stdio) hold the database itself, so they have every right.

use actbook_engine::policy::string_enum;
use serde::{Deserialize, Serialize};

string_enum!(
    /// One thing that a caller may be allowed to do.
    Right {
        /// See executions, plans, notes and entries.
        Read = "read",
        /// Start executions, save plans, report on agent steps, write notes and tasks.
        Run = "run",
        /// Pause, resume, cancel and undo executions, and answer the questions of their steps.
        Operate = "operate",
        /// Answer approvals.
        Approve = "approve",
        /// See arguments and outputs of calls.
        Payloads = "payloads",
        /// Manage tokens and sessions, and accept changed tools.
        Admin = "admin",
    }
);

string_enum!(
    /// What a credential is for; decides its rights.
    Role {
        Viewer = "viewer",
        Agent = "agent",
        Operator = "operator",
        Approver = "approver",
        Admin = "admin",
    }
);

impl Role {
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
        Right::ALL.iter().copied().filter(move |right| self.has(*right))
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

string_enum!(
    /// The kinds of credentials.
    CredentialKind {
        /// A token of an agent or a program: `abk_…`.
        ProgramToken = "program",
        /// A token of a person: `abp_…`.
        PersonToken = "person",
        /// The session cookie of a person in a browser.
        Session = "session",
    }
);

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
