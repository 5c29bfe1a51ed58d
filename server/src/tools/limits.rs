//! What one server is asked to bear: how many calls at once, how many in a stretch of time, how large an
//! answer, and how often it may be out of reach before it is left alone for a while. Knows calls and
//! clocks; not how a call travels.

mod breaker;
pub mod bytes;
mod rate;

use std::collections::BTreeMap;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Ended;
use super::classify::{Came, OUTPUT_BYTES_MAX};
use crate::config::{COMMAND_SERVER, Config, HTTP_SERVER, ServerWords};
pub use breaker::Circuit;
use breaker::{Breaker, Ticket};
use rate::Rate;

/// Calls that may be out at one server at a time where the config does not say.
const CONCURRENCY_DEFAULT: usize = 64;

pub struct Limits {
    permits: Semaphore,
    rate: Option<Rate>,
    breakers: Breakers,
    pub output_bytes_max: usize,
}

/// What is out of reach together.
enum Breakers {
    /// A command is started afresh for each call: there is nothing to leave alone.
    None,
    Server(Breaker),
    /// A plain HTTP tool has a host of its own; where the arguments name it, each call has.
    Tools(BTreeMap<String, Breaker>),
}

impl Limits {
    pub fn of(config: &Config, server: &str) -> Self {
        let words = config.servers.get(server).cloned().unwrap_or_default();
        let breakers = match server {
            COMMAND_SERVER => Breakers::None,
            HTTP_SERVER => {
                let breaker = |tool: &String| (tool.clone(), breaker(&format!("{server}/{tool}"), &words));
                let own = config.http.iter().filter(|(_, tool)| names_its_host(&tool.url.source));
                Breakers::Tools(own.map(|(name, _)| breaker(name)).collect())
            }
            _ => Breakers::Server(breaker(server, &words)),
        };
        Self {
            permits: Semaphore::new(
                words.concurrency.unwrap_or(CONCURRENCY_DEFAULT).min(Semaphore::MAX_PERMITS),
            ),
            rate: words.rate.map(Rate::new),
            breakers,
            output_bytes_max: words.output_bytes_max.unwrap_or(OUTPUT_BYTES_MAX),
        }
    }

    /// Waits for a turn. Whether the server is left alone is asked last, when the call would leave.
    pub async fn enter(&self, tool: &str) -> Result<Turn<'_>, Came> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let ticket = match self.breaker(tool) {
            Some(breaker) => Some(breaker.admit()?),
            None => None,
        };
        if let Some(rate) = &self.rate {
            rate.turn().await;
        }
        Ok(Turn { ticket, _permit: permit })
    }

    /// Where the breaker of a server stands, or that of one tool where each has its own.
    pub fn circuit(&self, tool: &str) -> Circuit {
        self.breaker(tool).map_or(Circuit::Closed, Breaker::circuit)
    }

    fn breaker(&self, tool: &str) -> Option<&Breaker> {
        match &self.breakers {
            Breakers::None => None,
            Breakers::Server(breaker) => Some(breaker),
            Breakers::Tools(breakers) => breakers.get(tool),
        }
    }
}

/// The arguments have no say in where the url leads.
fn names_its_host(url: &str) -> bool {
    let reads = |text: &str| text.contains("${arguments");
    match url.split_once("://") {
        Some((scheme, rest)) => !reads(scheme) && !rest.split(['/', '?', '#']).next().is_some_and(reads),
        None => !reads(url),
    }
}

fn breaker(name: &str, words: &ServerWords) -> Breaker {
    Breaker::new(name, words.breaker.after, words.breaker.cool_down)
}

/// A place among the calls that are out. Given up, it says nothing of the server.
pub struct Turn<'a> {
    ticket: Option<Ticket<'a>>,
    _permit: SemaphorePermit<'a>,
}

impl Turn<'_> {
    /// What the call's end says of the server.
    pub fn over(self, ended: &Ended) {
        if let Some(ticket) = self.ticket {
            ticket.over(ended);
        }
    }
}
