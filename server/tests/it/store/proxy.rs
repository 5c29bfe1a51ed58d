//! A proxy before PostgreSQL that loses a request, or the reply after a commit, or cuts all connections.

use std::sync::{Arc, Mutex};

use actbook_engine::id::StreamId;

use actbook::store::{Appended, payloads};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_postgres::config::Host;

use super::{Kind, TENANT, append, append_one, batch, bodies, entry, head, on, open};

/// What the proxy does to the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Drops the request and the connection.
    LoseRequest,
    /// Forwards the request; drops all replies up to the one with this tag, then the connection.
    LoseAnswers(&'static [u8]),
}

const APPENDED: &[u8] = b"SELECT 1\0";
const COMMITTED: &[u8] = b"COMMIT\0";

/// A TCP proxy before the scratch server; it forwards all bytes unless a fault is set or it is cut.
pub struct Proxy {
    fault: Arc<Mutex<Fault>>,
    is_away: watch::Sender<bool>,
    /// The number of connections that forward bytes.
    open: watch::Sender<usize>,
    pub url: String,
}

/// Counts one connection while it may forward bytes.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(open: &watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Proxy {
    fn plan(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// Cuts every connection, and accepts none until `restore`. After this returns, no byte is forwarded.
    pub async fn cut(&self) {
        self.is_away.send_replace(true);
        self.open.subscribe().wait_for(|count| *count == 0).await.unwrap();
    }

    pub fn restore(&self) {
        self.is_away.send_replace(false);
    }

    fn assert_met(&self) {
        assert_eq!(*self.fault.lock().unwrap(), Fault::None, "the fault was not triggered");
    }

    pub async fn before(url: &str) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let user = config.get_user().unwrap();
        let database = config.get_dbname().unwrap();
        let password = config.get_password().map(|word| format!(":{}", String::from_utf8_lossy(word)));
        let address = listener.local_addr().unwrap();
        let url = format!("postgres://{user}{}@{address}/{database}", password.unwrap_or_default());
        let fault = Arc::new(Mutex::new(Fault::None));
        let (is_away, away) = watch::channel(false);
        let (open, _) = watch::channel(0);
        tokio::spawn(serve(listener, config, fault.clone(), away, open.clone()));
        Self { fault, is_away, open, url }
    }
}

async fn serve(
    listener: TcpListener,
    config: tokio_postgres::Config,
    fault: Arc<Mutex<Fault>>,
    away: watch::Receiver<bool>,
    open: watch::Sender<usize>,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        // Counted before `away` is read: `cut` either waits for this connection or is seen by it.
        let counted = Counted::new(&open);
        if *away.borrow() {
            continue;
        }
        client.set_nodelay(true).unwrap();
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match &config.get_hosts()[0] {
            Host::Unix(folder) => {
                let server = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await.unwrap();
                tokio::spawn(pass(client, server, fault.clone(), away.clone(), counted));
            }
            Host::Tcp(name) => {
                let server = TcpStream::connect((name.as_str(), port)).await.unwrap();
                tokio::spawn(pass(client, server, fault.clone(), away.clone(), counted));
            }
        }
    }
}

/// Forwards bytes between both sides; returning closes both.
async fn pass(
    mut client: TcpStream,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    fault: Arc<Mutex<Fault>>,
    mut away: watch::Receiver<bool>,
    _counted: Counted,
) {
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    let mut dropped_replies = None;
    loop {
        tokio::select! {
            biased;
            () = async { drop(away.wait_for(|away| *away).await) } => return,
            read = client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                match std::mem::replace(&mut *fault.lock().unwrap(), Fault::None) {
                    Fault::None => {}
                    Fault::LoseRequest => return,
                    Fault::LoseAnswers(tag) => dropped_replies = Some((tag, Vec::new())),
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
fn an_append_whose_answer_was_lost_is_there_exactly_once() {
    on(Kind::Postgres, async |scratch| {
        let proxy = Proxy::before(&scratch.url).await;
        let through = open(&proxy.url).await;
        let mut appender = through.appender().unwrap();
        let db = &scratch.db;
        for fault in [Fault::LoseAnswers(APPENDED), Fault::LoseRequest, Fault::LoseAnswers(APPENDED)] {
            assert_eq!(append_one(db, &mut appender, "calm"), Appended::Done);
            proxy.plan(fault);
            assert_eq!(append_one(db, &mut appender, "storm"), Appended::Done);
            proxy.assert_met();
        }
        assert_eq!(bodies(db).await, ["calm", "storm"].repeat(3));
    });
}

#[test]
fn a_transaction_whose_answer_was_lost_is_there_exactly_once() {
    on(Kind::Postgres, async |scratch| {
        let proxy = Proxy::before(&scratch.url).await;
        let through = open(&proxy.url).await;
        let mut appender = through.appender().unwrap();
        let db = &scratch.db;
        for fault in [Fault::None, Fault::LoseAnswers(COMMITTED), Fault::LoseRequest] {
            let old = head(db);
            let position = old.position + 1;
            let salt = payloads::insert_salt(TENANT, StreamId(position), b"salt");
            proxy.plan(fault);
            let written = batch(old, vec![entry(position, "storm")], vec![salt]);
            assert_eq!(append(&mut appender, &written), Ok(Appended::Done));
            proxy.assert_met();
        }
        assert_eq!(bodies(db).await, ["storm"; 3]);
        assert_eq!(payloads::salts_between(TENANT, 0, u64::MAX).all(db).await.unwrap().len(), 3);
    });
}

#[test]
fn a_lost_answer_is_not_mistaken_for_anothers_append() {
    on(Kind::Postgres, async |scratch| {
        let proxy = Proxy::before(&scratch.url).await;
        let through = open(&proxy.url).await;
        let mut appender = through.appender().unwrap();
        let db = &scratch.db;
        assert_eq!(append_one(db, &mut appender, "ours"), Appended::Done);
        let stale = head(db);
        assert_eq!(append_one(db, &mut db.appender().unwrap(), "theirs"), Appended::Done);
        proxy.plan(Fault::LoseRequest);
        let late = batch(stale, vec![entry(stale.position + 1, "late")], vec![]);
        assert_eq!(append(&mut appender, &late), Ok(Appended::HeadMoved));
        assert_eq!(bodies(db).await, ["ours", "theirs"]);
    });
}
