//! Sessions in which nothing happens end by themselves.

use std::time::Duration;

use actbook::service::{GUARDED_IDLE_MAX, SessionKey};
use actbook_engine::event::SessionStart;
use actbook_engine::policy::ExecutionStatus;

use super::fixture::ServiceFixture;
use crate::store::for_each_database;

#[test]
fn session_in_which_nothing_happens_is_closed() {
    for_each_database(async |scratch| {
        let ServiceFixture { service, caller, .. } = ServiceFixture::open(&scratch.url).await;
        let key = SessionKey { client: "claude-code".to_owned(), key: "one".to_owned() };
        let start = SessionStart { client: key.client.clone(), ..SessionStart::default() };
        let part = service.sessions().start(&caller, &key, start).await.unwrap();
        let view = async || service.executions().view(part.id()).await.unwrap();
        service.sessions().close_idle(GUARDED_IDLE_MAX).await.unwrap();
        assert_eq!(view().await.status, ExecutionStatus::Running);
        let started_ms = service.sessions().now_ms();
        while service.sessions().now_ms() <= started_ms + 1 {
            tokio::task::yield_now().await;
        }
        service.sessions().close_idle(Duration::ZERO).await.unwrap();
        assert_eq!(view().await.status, ExecutionStatus::Succeeded);
        let next = service.sessions().current(&key).await.unwrap().unwrap();
        assert!(!next.is_open(), "the next call starts another part");
    });
}
