//! Appending on PostgreSQL: one statement per batch, on a connection whose runtime lives on the
//! writer's own thread, so that no answer has to change threads.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::Config;
use tokio_postgres::types::ToSql;

use super::link::{Answer, Link};
use crate::store::dialect::{append as text, begin, hold};
use crate::store::{Appended, Batch, Error, Row, journal};

/// How long to wait before each further try to settle a batch whose answer was lost: together, as
/// long as a server takes to come back from a restart.
const SETTLE_AFTER_MS: [u64; 6] = [0, 50, 200, 800, 2_000, 4_000];

/// The few texts of an append are the same each time; planning them anew would cost more than they do.
/// And who holds the head but has fallen silent must not keep the others out for long.
const SESSION: &str = "SET plan_cache_mode = force_generic_plan; \
     SET idle_in_transaction_session_timeout = '10s'";

/// Commits that tell the others take a lock that all of the server's databases share, so a driver's progress
/// is told at most so often.
const TELL_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Appender {
    config: Config,
    link: Option<Link>,
    /// A transaction is open on the link, and has locked the head.
    holds: bool,
    told: Instant,
    /// What was appended without a word: the tenant and its position.
    untold: Option<(i64, u64)>,
    /// Taken only by the drop.
    runtime: Option<Runtime>,
}

impl Drop for Appender {
    /// An ordinary drop of a runtime panics where it happens inside another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Appender {
    pub fn new(config: Config) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Failed(format!("cannot start the writer's runtime: {error}")))?;
        let told = Instant::now();
        Ok(Self { config, link: None, holds: false, told, untold: None, runtime: Some(runtime) })
    }

    pub fn hold(&mut self, tenant: i64) -> Result<Vec<Row>, Error> {
        self.release()?;
        let Self { config, link, holds, runtime, .. } = self;
        let runtime = runtime.as_ref().expect("only the drop takes it");
        let held = runtime.block_on(async {
            let open = connected(config, link).await?;
            open.run(begin::POSTGRES).await?;
            open.query(hold::POSTGRES, &[tenant.into()]).await
        });
        if held.is_err() {
            *link = None;
        }
        *holds = held.is_ok();
        held
    }

    /// Where the ROLLBACK gets no answer, dropping the connection ends its transaction too.
    pub fn release(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.holds) {
            return Ok(());
        }
        let Some(open) = self.link.take() else { return Ok(()) };
        let runtime = self.runtime.as_ref().expect("only the drop takes it");
        if runtime.block_on(open.run("ROLLBACK")).is_ok() {
            self.link = Some(open);
        }
        Ok(())
    }

    pub fn append(&mut self, batch: &Batch) -> Result<Appended, Error> {
        let holds = std::mem::take(&mut self.holds);
        let tells = batch.urgent || self.told.elapsed() >= TELL_EVERY;
        let Self { config, link, runtime, .. } = self;
        let runtime = runtime.as_ref().expect("only the drop takes it");
        let appended = runtime.block_on(async {
            match append_once(config, link, batch, How { holds, tells }).await {
                // By its entries a batch is recognised; without any, nobody can tell.
                Err(Error::Lost(_)) if !batch.entries.is_empty() => settle(config, link, batch).await,
                answered => answered,
            }
        });
        if matches!(appended, Ok(Appended::Done)) {
            self.remember(batch, tells);
        }
        appended
    }

    /// Only of what was written: a position that nobody reached would drown the word of the one who does.
    fn remember(&mut self, batch: &Batch, told: bool) {
        match told {
            true => (self.told, self.untold) = (Instant::now(), None),
            false => self.untold = Some((batch.tenant, batch.new.position)),
        }
    }

    /// How long until what was appended without a word should be told.
    pub fn owes_word_in(&self) -> Option<Duration> {
        self.untold.map(|_| TELL_EVERY.saturating_sub(self.told.elapsed()))
    }

    pub fn tell(&mut self) -> Result<(), Error> {
        let Some((tenant, position)) = self.untold.take() else { return Ok(()) };
        self.told = Instant::now();
        let Self { config, link, runtime, .. } = self;
        let runtime = runtime.as_ref().expect("only the drop takes it");
        runtime.block_on(async {
            let open = connected(config, link).await?;
            open.query(text::POSTGRES_RING, &[tenant.into(), position.into()]).await.map(drop)
        })
    }
}

/// How a batch is appended.
#[derive(Clone, Copy)]
struct How {
    /// Inside the transaction that holds the head.
    holds: bool,
    /// The other processes are told of it.
    tells: bool,
}

/// The answer was lost, and the batch may yet be on its way to its commit. Sending it again waits
/// behind it at the head's lock; then the entry at the new position says whose it is.
async fn settle(config: &Config, link: &mut Option<Link>, batch: &Batch) -> Result<Appended, Error> {
    let mut lost = Error::Lost("no answer".into());
    for pause_ms in SETTLE_AFTER_MS {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        match append_or_recognise(config, link, batch).await {
            Err(error @ Error::Lost(_)) => lost = error,
            answered => return answered,
        }
    }
    Err(lost)
}

async fn append_or_recognise(
    config: &Config,
    link: &mut Option<Link>,
    batch: &Batch,
) -> Result<Appended, Error> {
    match append_once(config, link, batch, How { holds: false, tells: true }).await? {
        Appended::Done => Ok(Appended::Done),
        Appended::HeadMoved if is_written(config, link, batch).await? => Ok(Appended::Done),
        Appended::HeadMoved => Ok(Appended::HeadMoved),
    }
}

/// The chain's hash covers all that came before: equal here means that this very batch is there.
async fn is_written(config: &Config, link: &mut Option<Link>, batch: &Batch) -> Result<bool, Error> {
    let link = connected(config, link).await?;
    let rows = link.query(journal::HASH_AT, &[batch.tenant.into(), batch.new.position.into()]).await?;
    match rows.first() {
        Some(row) => Ok(row.hash(0)? == batch.new.hash),
        None => Ok(false),
    }
}

async fn connected<'a>(config: &Config, link: &'a mut Option<Link>) -> Result<&'a Link, Error> {
    let open = match link.take() {
        Some(open) if !open.is_closed() => open,
        Some(_) | None => {
            let fresh = Link::connect(config).await?;
            fresh.run(SESSION).await?;
            fresh
        }
    };
    Ok(link.insert(open))
}

async fn append_once(
    config: &Config,
    link: &mut Option<Link>,
    batch: &Batch,
    how: How,
) -> Result<Appended, Error> {
    let open = match link {
        // Another connection would not be inside the transaction that holds the head.
        Some(open) if how.holds => open,
        Some(_) | None => connected(config, link).await?,
    };
    let answer = if batch.others.is_empty() && !how.holds {
        insert(open, batch, false, how.tells).await.and_then(|rows| appended(&rows))
    } else {
        transact(open, batch, how).await
    };
    // A connection that failed while holding may still be inside its transaction.
    if matches!(answer, Err(Error::Lost(_))) || (how.holds && answer.is_err()) {
        *link = None;
    }
    match answer {
        Err(Error::HeadMoved) => Ok(Appended::HeadMoved),
        answer => answer,
    }
}

/// One flight from BEGIN, unless the transaction has begun, to COMMIT.
async fn transact(link: &Link, batch: &Batch, how: How) -> Result<Appended, Error> {
    let prepared = link.prepared_each(&batch.others).await?;
    // Once everything is prepared, sending waits for nothing.
    link.prepared(text::POSTGRES).await?;
    let mut work: Vec<Answer<'_>> = Vec::with_capacity(batch.others.len() + 2);
    if !how.holds {
        work.push(link.begin());
    }
    work.push(Box::pin(insert(link, batch, true, how.tells)));
    work.extend(link.ask_each(&batch.others, &prepared));
    link.commit_after(work).await.map(|_| Appended::Done)
}

/// With `strict`, a moved head is an error that ends the transaction around it.
async fn insert(link: &Link, batch: &Batch, strict: bool, tells: bool) -> Result<Vec<Row>, Error> {
    let columns = Columns::of(batch);
    let prepared = link.prepared(text::POSTGRES).await?;
    link.ask_raw(&prepared, &columns.params(batch, &strict, &tells)).await
}

fn appended(rows: &[Row]) -> Result<Appended, Error> {
    match rows.first().map(|row| row.int(0)).transpose()? {
        Some(1) => Ok(Appended::Done),
        Some(_) | None => Ok(Appended::HeadMoved),
    }
}

/// The batch turned on its side: one array per column.
#[derive(Default)]
struct Columns<'a> {
    heads: [(i64, &'a [u8]); 2],
    numbers: [Vec<i64>; 4],
    texts: [Vec<&'a str>; 3],
    hashes: Vec<&'a [u8]>,
    owners: Vec<i64>,
    payloads: Vec<&'a [u8]>,
    /// Streams that turn a page, and where.
    turns: [Vec<i64>; 2],
}

impl<'a> Columns<'a> {
    fn of(batch: &'a Batch) -> Self {
        let heads = [&batch.old, &batch.new].map(|head| (head.position as i64, head.hash.as_slice()));
        let mut all = Self { heads, ..Self::default() };
        for entry in &batch.entries {
            let numbers = [entry.position as i64, entry.stream as i64, entry.version as i64, entry.at];
            for (column, number) in all.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
            for (column, text) in all.texts.iter_mut().zip([&*entry.actor, &*entry.kind, &*entry.body]) {
                column.push(text);
            }
            all.hashes.push(&entry.hash);
            if let Some(payload) = &entry.payload {
                all.owners.push(entry.position as i64);
                all.payloads.push(payload);
            }
            if entry.turns_page {
                all.turns[0].push(entry.stream as i64);
                all.turns[1].push(entry.position as i64);
            }
        }
        all
    }

    fn params<'b>(
        &'b self,
        batch: &'b Batch,
        strict: &'b bool,
        tells: &'b bool,
    ) -> [&'b (dyn ToSql + Sync); 19] {
        let [positions, streams, versions, ats] = &self.numbers;
        let [actors, kinds, bodies] = &self.texts;
        let [(old, old_hash), (new, new_hash)] = &self.heads;
        [
            &batch.tenant,
            old,
            old_hash,
            new,
            new_hash,
            positions,
            streams,
            versions,
            ats,
            actors,
            kinds,
            bodies,
            &self.hashes,
            &self.owners,
            &self.payloads,
            strict,
            tells,
            &self.turns[0],
            &self.turns[1],
        ]
    }
}
