//! An execution's changes as a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};

use crate::error::Error;
use crate::service::Watching;
use crate::service::view::ExecutionView;

/// An execution as it changes: first as it is, then after each change, at last as it ended. Changes that
/// come faster than they are taken are shown together.
///
/// It is a `Stream`; [`Watch::next`] is there for those who have no other use for one.
pub struct Watch(BoxStream<'static, Result<ExecutionView, Error>>);

/// What to wait for before the next look.
enum Next {
    Nothing(Watching),
    Change(Watching),
    /// It has ended, or could not be read.
    Over,
}

impl Watch {
    pub(super) fn new(watching: Watching) -> Self {
        Self(unfold(Next::Nothing(watching), look).boxed())
    }

    /// None: it has ended.
    pub async fn next(&mut self) -> Option<Result<ExecutionView, Error>> {
        self.0.next().await
    }
}

async fn look(next: Next) -> Option<(Result<ExecutionView, Error>, Next)> {
    let watching = match next {
        Next::Nothing(watching) => watching,
        Next::Change(mut watching) => match watching.moved().await {
            Ok(()) => watching,
            Err(error) => return Some((Err(error), Next::Over)),
        },
        Next::Over => return None,
    };
    let view = watching.view().await;
    let goes_on = view.as_ref().is_ok_and(|view| view.ended_at.is_none());
    Some((view, if goes_on { Next::Change(watching) } else { Next::Over }))
}

impl Stream for Watch {
    type Item = Result<ExecutionView, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
