//! A proxy before PostgreSQL that loses a request, or the reply after a commit, or cuts all connections.

use std::sync::{Arc, Mutex};

use actbook_engine::id::StreamId;

use actbook::store::{Appended, payloads};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_postgres::config::Host;

use super::{Kind, TENANT, append, append_one, batch, bodies, entry, head, open, run_on};

/// What the proxy does to the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyFault {
    None,
    /// Drops the request and the connection.
    LoseRequest,
    /// Forwards the request; drops all replies up to the one with this tag, then the connection.
    LoseReplies(&'static [u8]),
}

const APPENDED_TAG: &[u8] = b"SELECT 1\0";
const COMMITTED_TAG: &[u8] = b"COMMIT\0";

/// A TCP proxy before the scratch server; it forwards all bytes unless a fault is set or it is cut.
pub struct Proxy {
    fault: Arc<Mutex<ProxyFault>>,
    is_cut: watch::Sender<bool>,
    /// The number of connections that forward bytes.
    open_connections: watch::Sender<usize>,
    pub url: String,
}

/// Counts one connection while it may forward bytes.
struct ConnectionCount(watch::Sender<usize>);

impl ConnectionCount {
    fn new(open: &watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open.clone())
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Proxy {
    fn set_fault(&self, fault: ProxyFault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// Cuts every connection, and accepts none until `restore`. After this returns, no byte is forwarded.
    pub async fn cut(&self) {
        self.is_cut.send_replace(true);
        self.open_connections.subscribe().wait_for(|count| *count == 0).await.unwrap();
    }

    pub fn restore(&self) {
        self.is_cut.send_replace(false);
    }

    fn assert_fault_triggered(&self) {
        assert_eq!(*self.fault.lock().unwrap(), ProxyFault::None, "the fault was not triggered");
    }

    pub async fn in_front_of(url: &str) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let user = config.get_user().unwrap();
        let database = config.get_dbname().unwrap();
        let password = config.get_password().map(|word| format!(":{}", String::from_utf8_lossy(word)));
        let address = listener.local_addr().unwrap();
        let url = format!("postgres://{user}{}@{address}/{database}", password.unwrap_or_default());
        let fault = Arc::new(Mutex::new(ProxyFault::None));
        let (is_away, away) = watch::channel(false);
        let (open, _) = watch::channel(0);
        tokio::spawn(serve(listener, config, fault.clone(), away, open.clone()));
        Self { fault, is_cut: is_away, open_connections: open, url }
    }
}

async fn serve(
    listener: TcpListener,
    config: tokio_postgres::Config,
    fault: Arc<Mutex<ProxyFault>>,
    away: watch::Receiver<bool>,
    open: watch::Sender<usize>,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        // Counted before `away` is read: `cut` either waits for this connection or is seen by it.
        let counted = ConnectionCount::new(&open);
        if *away.borrow() {
            continue;
        }
        client.set_nodelay(true).unwrap();
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match &config.get_hosts()[0] {
            Host::Unix(folder) => {
                let server = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await.unwrap();
                tokio::spawn(forward(client, server, fault.clone(), away.clone(), counted));
            }
            Host::Tcp(name) => {
                let server = TcpStream::connect((name.as_str(), port)).await.unwrap();
                tokio::spawn(forward(client, server, fault.clone(), away.clone(), counted));
            }
        }
    }
}

/// Forwards bytes between both sides; returning closes both.
async fn forward(
    mut client: TcpStream,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    fault: Arc<Mutex<ProxyFault>>,
    mut away: watch::Receiver<bool>,
    _counted: ConnectionCount,
) {
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    let mut dropped_replies = None;
    loop {
        tokio::select! {
            biased;
            () = async { drop(away.wait_for(|away| *away).await) } => return,
            read = client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                match std::mem::replace(&mut *fault.lock().unwrap(), ProxyFault::None) {
                    ProxyFault::None => {}
                    ProxyFault::LoseRequest => return,
                    ProxyFault::LoseReplies(tag) => dropped_replies = Some((tag, Vec::new())),
                }
                server.write_all(&request[..count]).await.unwrap();
            }
            read = server.read(&mut answer) => {
                let Ok(count @ 1..) = read else { return };
                if let Some((tag, bytes)) = &mut dropped_replies {
                    bytes.extend_from_slice(&answer[..count]);
                    if bytes.windows(tag.len()).any(|window| window == *tag) {
                        return;
                    }
                } else if client.write_all(&answer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[test]
fn append_with_a_lost_reply_is_committed_once() {
    run_on(Kind::Postgres, async |scratch| {
        let proxy = Proxy::in_front_of(&scratch.url).await;
        let through = open(&proxy.url).await;
        let mut appender = through.appender().unwrap();
        let db = &scratch.db;
        for fault in [
            ProxyFault::LoseReplies(APPENDED_TAG),
            ProxyFault::LoseRequest,
            ProxyFault::LoseReplies(APPENDED_TAG),
        ] {
            assert_eq!(append_one(db, &mut appender, "calm"), Appended::Done);
            proxy.set_fault(fault);
            assert_eq!(append_one(db, &mut appender, "storm"), Appended::Done);
            proxy.assert_fault_triggered();
        }
        assert_eq!(bodies(db).await, ["calm", "storm"].repeat(3));
    });
}

#[test]
fn transaction_with_a_lost_reply_is_committed_once() {
    run_on(Kind::Postgres, async |scratch| {
        let proxy = Proxy::in_front_of(&scratch.url).await;
        let through = open(&proxy.url).await;
        let mut appender = through.appender().unwrap();
        let db = &scratch.db;
        for fault in [ProxyFault::None, ProxyFault::LoseReplies(COMMITTED_TAG), ProxyFault::LoseRequest] {
            let old = head(db);
            let position = old.position + 1;
            let salt = payloads::insert_salt(TENANT, StreamId(position), b"salt");
            proxy.set_fault(fault);
            let written = batch(old, vec![entry(position, "storm")], vec![salt]);
            assert_eq!(append(&mut appender, &written), Ok(Appended::Done));
            proxy.assert_fault_triggered();
        }
        assert_eq!(bodies(db).await, ["storm"; 3]);
        assert_eq!(payloads::salts_between(TENANT, 0, u64::MAX).all(db).await.unwrap().len(), 3);
    });
}

#[test]
fn append_by_another_after_a_lost_request_is_a_moved_head() {
    run_on(Kind::Postgres, async |scratch| {
        let proxy = Proxy::in_front_of(&scratch.url).await;
        let through = open(&proxy.url).await;
        let mut appender = through.appender().unwrap();
        let db = &scratch.db;
        assert_eq!(append_one(db, &mut appender, "ours"), Appended::Done);
        let stale = head(db);
        assert_eq!(append_one(db, &mut db.appender().unwrap(), "theirs"), Appended::Done);
        proxy.set_fault(ProxyFault::LoseRequest);
        let late = batch(stale, vec![entry(stale.position + 1, "late")], vec![]);
        assert_eq!(append(&mut appender, &late), Ok(Appended::HeadMoved));
        assert_eq!(bodies(db).await, ["ours", "theirs"]);
    });
}
