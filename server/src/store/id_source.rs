//! Where a list finds ids of executions: a facet's sets, an index of the database, or ids that are known.

use std::collections::BTreeSet;

use actbook_engine::id::TenantId;
use actbook_engine::policy::ExecutionStatus;

use super::executions::WAITS_AFTER_END;
use super::facets::{self, FacetRow, MarkRow};
use super::id_set::{first_id, stretch_of};
use super::{Db, Error, Select, SqlValue};

/// A set of executions that is read stretch by stretch.
#[derive(Debug)]
pub enum IdSource {
    /// A facet's sets. `read`: the stretch that was read last and the stretch that its row leads to.
    Facet {
        facet: FacetRow,
        read: Option<(u64, Option<u64>)>,
    },
    /// Executions of a task.
    Task(String),
    /// Executions with a status; not for `succeeded`, which has no index.
    Status(ExecutionStatus),
    /// Ended executions whose undo waits for a yes.
    WaitsAfterEnd,
    Ids(BTreeSet<u64>),
    /// Stands for a value that no execution has, so that its group is not empty.
    NoExecution,
}

/// The text of a read by an index of `executions`.
macro_rules! by_index {
    ($what:literal, $condition:literal, $rest:literal) => {
        concat!("SELECT ", $what, " FROM executions WHERE tenant = $1 AND ", $condition, " AND ", $rest)
    };
}

/// The texts that read the ids of a range, and the highest id below one.
macro_rules! index_texts {
    ($condition:literal) => {
        [by_index!("id", $condition, "id >= $3 AND id < $4"), by_index!("MAX(id)", $condition, "id < $3")]
    };
}

impl IdSource {
    pub fn facet(facet: FacetRow) -> Self {
        Self::Facet { facet, read: None }
    }

    /// Whether the source is as old as the projector's position.
    pub fn is_projected(&self) -> bool {
        match self {
            IdSource::Facet { .. } | IdSource::NoExecution => true,
            IdSource::Task(_) | IdSource::Status(_) | IdSource::WaitsAfterEnd | IdSource::Ids(_) => false,
        }
    }

    /// The facet's id if it may occur in the stretch. None: it does not, or the source is no facet.
    pub fn facet_id(&self, stretch: u64) -> Option<u64> {
        match self {
            IdSource::Facet { facet, .. } => (facet.latest >= stretch).then_some(facet.id),
            IdSource::Task(_)
            | IdSource::Status(_)
            | IdSource::WaitsAfterEnd
            | IdSource::Ids(_)
            | IdSource::NoExecution => None,
        }
    }

    /// Remembers where a row of this facet leads.
    pub fn remember(&mut self, mark: &MarkRow) {
        if let IdSource::Facet { facet, read } = self
            && facet.id == mark.facet
        {
            *read = Some((mark.stretch, mark.earlier));
        }
    }

    /// The newest stretch below `below` in which the source has an execution. None: there is none.
    pub async fn newest_below(
        &mut self,
        db: &Db,
        tenant: TenantId,
        below: u64,
    ) -> Result<Option<u64>, Error> {
        if let IdSource::Facet { facet, read } = self {
            if facet.latest < below {
                return Ok(Some(facet.latest));
            }
            // Several questions about the same place are answered by the row that leads over it.
            let (leader, mut earlier) = read.unwrap_or((facet.latest, Some(facet.latest)));
            if earlier.is_some_and(|earlier| earlier >= below) || leader < below {
                // A value of a long list occurs in most stretches: one look is shorter than its chain from the newest.
                let next = below.saturating_sub(1);
                let found = facets::chain_below(tenant, facet.id, next, below).look_up(db).await?;
                if let Some(row) = found.first().filter(|_| next < below) {
                    *read = Some(*row);
                    return Ok(Some(next));
                }
                let from = if leader < below { facet.latest } else { leader };
                let chain = facets::chain_below(tenant, facet.id, from, below).look_up(db).await?;
                *read = chain.first().copied();
                earlier = read.and_then(|(_, earlier)| earlier);
            }
            return Ok(earlier);
        }
        if let IdSource::Ids(ids) = self {
            return Ok(ids.range(..first_id(below)).next_back().map(|id| stretch_of(*id)));
        }
        let Some(([_, highest], value)) = self.index() else { return Ok(None) };
        let params = vec![tenant.into(), value, first_id(below).into()];
        let found = Select::new(highest, params, |row| row.optional_int(0)).look_up(db).await?;
        let highest = found.first().copied().flatten().and_then(|id| u64::try_from(id).ok());
        Ok(highest.map(stretch_of))
    }

    /// The ids in a range, of a source that is not a facet.
    pub async fn indexed_ids(
        &self,
        db: &Db,
        tenant: TenantId,
        (from, before): (u64, u64),
    ) -> Result<Vec<u64>, Error> {
        if let IdSource::Ids(ids) = self {
            return Ok(ids.range(from..before).copied().collect());
        }
        let Some(([ids, _], value)) = self.index() else { return Ok(Vec::new()) };
        let params = vec![tenant.into(), value, from.into(), before.into()];
        Select::new(ids, params, |row| row.uint(0)).look_up(db).await
    }

    /// The texts and the parameter of the database's index. None: the source has none.
    fn index(&self) -> Option<([&'static str; 2], SqlValue)> {
        match self {
            IdSource::Task(task) => Some((index_texts!("task = $2"), task.as_str().into())),
            IdSource::Status(ExecutionStatus::Running) => {
                Some((index_texts!("look_again_at = 0 AND status = $2"), "running".into()))
            }
            IdSource::Status(status) => {
                let texts = index_texts!("status = $2 AND status <> 'running' AND status <> 'succeeded'");
                Some((texts, status.as_str().into()))
            }
            IdSource::WaitsAfterEnd => Some((index_texts!("look_again_at = $2"), WAITS_AFTER_END.into())),
            IdSource::Facet { .. } | IdSource::Ids(_) | IdSource::NoExecution => None,
        }
    }
}
