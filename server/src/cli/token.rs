//! `token`: creates, lists, rotates and revokes the tokens that callers of `serve` need.

use std::time::Duration;

use super::args::{CreateTokenArgs, TokenSubcommand};
use super::session::Session;
use super::table::{Table, cell};
use super::{CommandResult, Exit};
use crate::service::{NewToken, TokenSpec, TokenView};

/// Runs `actbook token …`.
pub async fn token(session: &Session, subcommand: TokenSubcommand) -> CommandResult {
    match subcommand {
        TokenSubcommand::Create(args) => create(session, args).await,
        TokenSubcommand::List => list(session).await,
        TokenSubcommand::Rotate { token } => rotate(session, &token).await,
        TokenSubcommand::Revoke { token } => revoke(session, &token).await,
    }
}

/// Creates a token. The token alone goes to stdout, so that a script can take it; the rest to stderr.
async fn create(session: &Session, args: CreateTokenArgs) -> CommandResult {
    let spec = TokenSpec {
        name: args.name.unwrap_or_else(|| args.role.to_string()),
        role: args.role,
        is_person: args.person,
        lifetime: Duration::from_millis(args.expires.max(0).unsigned_abs()),
    };
    print_new(session, &session.service.access().create_token(&session.caller, spec).await?)
}

/// Replaces a token, which stays good for a day; prints the new one like `create`.
async fn rotate(session: &Session, given: &str) -> CommandResult {
    let exit = print_new(session, &session.service.access().rotate_token(&session.caller, given).await?)?;
    session.output.notice("the old one is good for another 24 hours; `actbook token revoke ID` ends it now");
    Ok(exit)
}

/// Prints a token that was just made.
fn print_new(session: &Session, created: &NewToken) -> CommandResult {
    if session.output.json {
        session.output.document(created);
        return Ok(Exit::Done);
    }
    if let Some(token) = &created.token {
        session.output.line(token);
    }
    let TokenView { name, role, expires_at, .. } = &created.view;
    session.output.notice(format_args!("{name}: {role}, until {expires_at}; it is not shown again"));
    Ok(Exit::Done)
}

async fn list(session: &Session) -> CommandResult {
    let tokens = session.service.access().list_tokens(&session.caller).await?;
    if session.output.json {
        session.output.document(&tokens);
        return Ok(Exit::Done);
    }
    if tokens.is_empty() {
        session.output.line("there are no tokens; `actbook token create --role ROLE` makes one");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(0, &["id", "name", "role", "status", "token", "expires", "last used"]);
    for token in tokens {
        let last_used = token.last_used_at.unwrap_or_else(|| "never".to_owned());
        let shown = format!("{}…", token.prefix);
        let cells = [token.id, token.name, token.role, token.status.to_owned(), shown, token.expires_at];
        table.push_row(cells.into_iter().chain([last_used]).map(cell).collect());
    }
    table.print(&session.output);
    Ok(Exit::Done)
}

async fn revoke(session: &Session, given: &str) -> CommandResult {
    let revoked = session.service.access().revoke_token(&session.caller, given).await?;
    if session.output.json {
        session.output.document(&revoked);
    } else {
        session.output.line(format_args!("{} ({}…) is revoked", revoked.name, revoked.prefix));
    }
    Ok(Exit::Done)
}
