//! Reads the counts of a time range: whole days, hours at the edges of the range, and the rest of an hour from
//! the journal itself.

use std::collections::BTreeSet;

use actbook_engine::id::StreamId;

use super::Service;
use crate::error::Error;
use crate::ledger;
use crate::store::counts::{self, Count, CountKey, CountKind, DAY_MS, Grain, HOUR_MS};
use crate::store::figures::StatsFilter;
use crate::store::{executions, journal, plans};

/// A part of an hour with more entries than this is not read: the whole hour counts.
const EDGE_ENTRIES_MAX: u64 = 20_000;
const HOURS_PER_DAY: i64 = DAY_MS / HOUR_MS;

/// A count with the start of its period, in milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct PeriodCount {
    pub from_ms: i64,
    pub key: CountKey,
    pub count: Count,
}

/// The counts of what a filter selects.
#[derive(Debug)]
pub struct CountRange<'a> {
    service: &'a Service,
    within: Option<String>,
    /// The ids of the plans to count; None: all.
    plans: Option<BTreeSet<String>>,
    /// Periods whose rows are read.
    periods: Vec<(Grain, i64, i64)>,
    computed: Vec<PeriodCount>,
}

impl<'a> CountRange<'a> {
    /// Prepares to read the counts of a filter; `filter.project` is the boundary.
    pub async fn open(service: &'a Service, filter: &StatsFilter) -> Result<Self, Error> {
        let (db, tenant) = (&service.db, service.tenant);
        let plans = match &filter.plan {
            Some(plan) => {
                let ids = plans::ids_by_name(tenant, plan).all(db).await?;
                Some(ids.into_iter().chain([plan.clone()]).collect())
            }
            None => None,
        };
        let (periods, computed) = (Vec::new(), Vec::new());
        let mut range = Self { service, within: filter.project.clone(), plans, periods, computed };
        match &filter.task {
            Some(task) => range.compute_task(task, filter).await?,
            None => range.choose_periods(filter).await?,
        }
        Ok(range)
    }

    /// The counts of one kind; with `by_hour` no longer periods than hours.
    pub async fn read(&self, kind: CountKind, by_hour: bool) -> Result<Vec<PeriodCount>, Error> {
        let (db, tenant) = (&self.service.db, self.service.tenant);
        let computed = self.computed.iter().filter(|computed| computed.key.kind == kind);
        let mut found: Vec<PeriodCount> = computed.cloned().collect();
        for (grain, from, to) in self.periods.iter().copied() {
            let (grain, from, to) = match grain {
                Grain::Day if by_hour => (Grain::Hour, from * HOURS_PER_DAY, to * HOURS_PER_DAY),
                Grain::Day | Grain::Hour => (grain, from, to),
            };
            let rows = counts::between(tenant, kind, (grain, from, to), self.within.as_deref());
            found.extend(rows.all(db).await?.into_iter().map(|row| PeriodCount {
                from_ms: row.period * grain.length_ms(),
                key: row.key,
                count: row.count,
            }));
        }
        found.retain(|found| self.plans.as_ref().is_none_or(|plans| plans.contains(&found.key.plan)));
        Ok(found)
    }

    /// Divides the range into days, hours and parts of hours.
    async fn choose_periods(&mut self, filter: &StatsFilter) -> Result<(), Error> {
        let range = counts::hour_range(self.service.tenant).first(&self.service.db).await?.flatten();
        let Some((first_hour, last_hour)) = range else { return Ok(()) };
        let is_after_all = filter.since.is_some_and(|since| since >= (last_hour + 1) * HOUR_MS);
        let is_before_all = filter.until.is_some_and(|until| until <= first_hour * HOUR_MS);
        if is_after_all || is_before_all {
            return Ok(());
        }
        let since = filter.since.filter(|since| *since > first_hour * HOUR_MS);
        let until = filter.until.filter(|until| *until < (last_hour + 1) * HOUR_MS);
        // Beyond the first and the last entry a whole day counts as much as its hours.
        let day_start = |hour: i64| hour - hour.rem_euclid(HOURS_PER_DAY);
        let mut from = since.map_or(day_start(first_hour), |since| since.div_euclid(HOUR_MS));
        let mut to = until.map_or(day_start(last_hour) + HOURS_PER_DAY, |until| until.div_euclid(HOUR_MS));
        if let (Some(since), Some(until)) = (since, until)
            && from >= to
        {
            return self.add_part_of_hour(from, (since, until)).await;
        }
        if let Some(since) = since.filter(|since| since.rem_euclid(HOUR_MS) != 0) {
            self.add_part_of_hour(from, (since, (from + 1) * HOUR_MS)).await?;
            from += 1;
        }
        if let Some(until) = until.filter(|until| until.rem_euclid(HOUR_MS) != 0) {
            self.add_part_of_hour(to, (to * HOUR_MS, until)).await?;
        }
        to = to.max(from);
        self.add_hours(from, to);
        Ok(())
    }

    /// Adds whole hours, by days where they are complete.
    fn add_hours(&mut self, from: i64, to: i64) {
        let first_day = from.div_euclid(HOURS_PER_DAY) + i64::from(from.rem_euclid(HOURS_PER_DAY) != 0);
        let last_day = to.div_euclid(HOURS_PER_DAY);
        if first_day >= last_day {
            self.periods.push((Grain::Hour, from, to));
            return;
        }
        self.periods.push((Grain::Hour, from, first_day * HOURS_PER_DAY));
        self.periods.push((Grain::Day, first_day, last_day));
        self.periods.push((Grain::Hour, last_day * HOURS_PER_DAY, to));
    }

    /// Adds the part of an hour that lies in a range of times.
    async fn add_part_of_hour(&mut self, hour: i64, range: (i64, i64)) -> Result<(), Error> {
        let (db, tenant) = (&self.service.db, self.service.tenant);
        let positions = counts::positions_in_hours(tenant, hour, hour).first(db).await?.flatten();
        let Some((first, last)) = positions else { return Ok(()) };
        if last - first > EDGE_ENTRIES_MAX {
            self.add_hours(hour, hour + 1);
            return Ok(());
        }
        let mut streams = journal::streams_between(tenant, first - 1, last).all(db).await?;
        streams.retain(|stream| *stream != ledger::LIBRARY_STREAM);
        self.compute(streams, range).await
    }

    /// Computes the counts of a task's executions.
    async fn compute_task(&mut self, task: &str, filter: &StatsFilter) -> Result<(), Error> {
        let (db, tenant) = (&self.service.db, self.service.tenant);
        let streams = executions::ids_by_task(tenant, task).all(db).await?;
        let range = (filter.since.unwrap_or(i64::MIN), filter.until.unwrap_or(i64::MAX));
        self.compute(streams, range).await
    }

    /// Computes the counts of executions from the journal, up to the projector's position.
    async fn compute(&mut self, streams: Vec<StreamId>, range: (i64, i64)) -> Result<(), Error> {
        let projector = &self.service.projector;
        let through = projector.position().await?;
        let counts = projector.counts_of_streams(streams, through, range).await?;
        let within = self.within.clone();
        let is_visible = |key: &CountKey| {
            within.as_ref().is_none_or(|within| key.project == *within || key.project.is_empty())
        };
        let counts = counts.into_iter().filter(|((_, key), _)| is_visible(key));
        self.computed.extend(counts.map(|((hour, key), count)| PeriodCount {
            from_ms: hour * HOUR_MS,
            key,
            count,
        }));
        Ok(())
    }
}
