//! The views of an execution as a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};

use crate::error::Error;
use crate::service::ExecutionWatcher;
use crate::service::view::ExecutionView;

/// A stream of an execution's views: first the current one, then one after each change, last the one at its
/// end. Changes that come faster than they are read are combined.
///
/// [`Watch::next`] reads it without the `StreamExt` trait.
pub struct Watch(BoxStream<'static, Result<ExecutionView, Error>>);

/// What the stream does before its next view.
enum WatchState {
    /// Nothing: the current view comes first.
    First(ExecutionWatcher),
    /// Wait for a change.
    AwaitChange(ExecutionWatcher),
    /// End the stream: the execution has ended, or could not be read.
    Ended,
}

impl Watch {
    pub(super) fn new(watching: ExecutionWatcher) -> Self {
        Self(unfold(WatchState::First(watching), next_view).boxed())
    }

    /// The next view; None: the execution has ended.
    pub async fn next(&mut self) -> Option<Result<ExecutionView, Error>> {
        self.0.next().await
    }
}

/// The next view and what follows it; None: the stream has ended.
async fn next_view(state: WatchState) -> Option<(Result<ExecutionView, Error>, WatchState)> {
    let watching = match state {
        WatchState::First(watching) => watching,
        WatchState::AwaitChange(mut watching) => match watching.wait_for_change().await {
            Ok(()) => watching,
            Err(error) => return Some((Err(error), WatchState::Ended)),
        },
        WatchState::Ended => return None,
    };
    let view = watching.view().await;
    let goes_on = view.as_ref().is_ok_and(|view| view.ended_at.is_none());
    Some((view, if goes_on { WatchState::AwaitChange(watching) } else { WatchState::Ended }))
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
