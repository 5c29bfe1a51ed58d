//! The statements that write what a round changes. They are computed from rows that only the holder of the
//! cursor changes, and must run in the transaction that moves it.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::id::TenantId;

use super::streams::RoundChanges;
use crate::store::counts::{self, CountKind, HourlyCounts};
use crate::store::facets::{self, Facet, FacetRow, MarkRow};
use crate::store::{Db, Error, IdSet, Statement, stream_rows, stretch_of};

/// All statements of a round, but those of the cursor.
pub fn statements(db: &Db, tenant: TenantId, changes: &RoundChanges) -> Result<Vec<Statement>, Error> {
    let mut statements = mark_statements(db, tenant, &changes.facets)?;
    statements.extend(counts::add_blocking(db, tenant, &changes.counts)?);
    statements.extend(total_statements(tenant, &changes.counts));
    for (stream, rows) in &changes.rows {
        let is_new = changes.new_streams.contains(stream);
        statements.extend(stream_rows::replace(tenant, *stream, rows, is_new));
    }
    let hours = changes.hours.iter();
    statements.extend(hours.map(|(hour, (first, last))| counts::widen_hour(tenant, *hour, *first, *last)));
    Ok(statements)
}

/// The statements that change the numbers of executions by status.
fn total_statements(tenant: TenantId, difference: &HourlyCounts) -> Vec<Statement> {
    let mut totals: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for ((_, key), count) in difference.iter().filter(|((_, key), _)| key.kind == CountKind::Execution) {
        *totals.entry((&key.project, &key.outcome)).or_default() += count.n;
    }
    let changed = totals.into_iter().filter(|(_, n)| *n != 0);
    let mut statements: Vec<Statement> =
        changed.map(|((project, status), n)| counts::add_total(tenant, project, status, n)).collect();
    if !statements.is_empty() {
        statements.push(counts::drop_empty_totals(tenant));
    }
    statements
}

/// The statements that add streams to facets.
fn mark_statements(
    db: &Db,
    tenant: TenantId,
    added: &BTreeMap<Facet, BTreeSet<u64>>,
) -> Result<Vec<Statement>, Error> {
    if added.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<Facet> = added.keys().cloned().collect();
    let known = facets::find_blocking(db, tenant, &names)?;
    let mut next_id = facets::highest_id(tenant).first_blocking(db)?.flatten().unwrap_or(0) as u64 + 1;
    let mut statements = Vec::new();
    for ((facet, streams), known) in added.iter().zip(known) {
        let by_stretch = group_by_stretch(streams);
        let row = known.clone().unwrap_or_else(|| {
            let latest = by_stretch.keys().next().copied().unwrap_or(0);
            let row = FacetRow { id: next_id, value: facet.value.clone(), latest, executions: 0 };
            next_id += 1;
            row
        });
        let mut chain =
            MarkChain { db, tenant, facet: row, is_new: known.is_none(), earlier: BTreeMap::new() };
        for mark in chain.extend(&by_stretch)? {
            statements.push(facets::upsert_mark(tenant, &mark));
        }
        statements.extend(chain.relinked(&by_stretch));
        statements.push(facets::upsert(tenant, facet.name, &chain.facet));
    }
    Ok(statements)
}

fn group_by_stretch(streams: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u64>> {
    let mut stretches: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for stream in streams {
        stretches.entry(stretch_of(*stream)).or_default().push(*stream);
    }
    stretches
}

/// The chain of one facet's marks while a round adds to it.
struct MarkChain<'a> {
    db: &'a Db,
    tenant: TenantId,
    facet: FacetRow,
    /// The facet has no marks in the database.
    is_new: bool,
    /// Stretches whose `earlier` this round changes.
    earlier: BTreeMap<u64, Option<u64>>,
}

impl MarkChain<'_> {
    /// Adds the streams of each stretch, from the oldest to the newest; returns the marks to write.
    fn extend(&mut self, by_stretch: &BTreeMap<u64, Vec<u64>>) -> Result<Vec<MarkRow>, Error> {
        let keys: Vec<(u64, u64)> = by_stretch.keys().map(|stretch| (*stretch, self.facet.id)).collect();
        let known = if self.is_new {
            vec![None; keys.len()]
        } else {
            facets::marks_blocking(self.db, self.tenant, &keys)?
        };
        let mut marks = Vec::new();
        for ((stretch, streams), known) in by_stretch.iter().zip(known) {
            let mut mark = match known {
                Some(mark) => mark,
                None => {
                    let earlier = self.link(*stretch)?;
                    MarkRow { stretch: *stretch, facet: self.facet.id, earlier, held: IdSet::default() }
                }
            };
            if let Some(earlier) = self.earlier.get(stretch) {
                mark.earlier = *earlier;
            }
            let fresh = streams.iter().filter(|stream| mark.held.insert(**stream)).count();
            self.facet.executions += fresh as u64;
            marks.push(mark);
        }
        Ok(marks)
    }

    /// Links a stretch that has no mark yet into the chain; returns the stretch that it leads to.
    fn link(&mut self, stretch: u64) -> Result<Option<u64>, Error> {
        let latest = self.facet.latest;
        if self.is_new && self.earlier.is_empty() {
            self.earlier.insert(stretch, None);
            return Ok(None);
        }
        if stretch > latest {
            self.facet.latest = stretch;
            self.earlier.insert(stretch, Some(latest));
            return Ok(Some(latest));
        }
        // An older execution got the value now: the stretch goes between two others.
        let chain =
            facets::chain_below(self.tenant, self.facet.id, latest, stretch).first_blocking(self.db)?;
        let Some((leader, beyond)) = chain else {
            return Err(Error::Failed("a list of executions has a gap; run `actbook rebuild`".into()));
        };
        let linked_before = self.earlier.range(..stretch).next_back().map(|(stretch, _)| *stretch);
        let earlier = beyond.max(linked_before);
        self.earlier.insert(leader, Some(stretch));
        self.earlier.insert(stretch, earlier);
        Ok(earlier)
    }

    /// The statements for stretches that lead elsewhere now and get no stream in this round.
    fn relinked(&self, by_stretch: &BTreeMap<u64, Vec<u64>>) -> Vec<Statement> {
        let others = self.earlier.iter().filter(|(stretch, _)| !by_stretch.contains_key(stretch));
        others
            .filter_map(|(stretch, earlier)| {
                Some(facets::set_earlier(self.tenant, self.facet.id, *stretch, (*earlier)?))
            })
            .collect()
    }
}
