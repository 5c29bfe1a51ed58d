//! A connection that breaks at the worst moment: between the commit and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use actbook::store::{Appended, payloads};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_postgres::config::Host;

use super::{Kind, TENANT, append, append_one, batch, bodies, entry, head, on, open};

const PASS: u8 = 0;
/// The next request reaches the server; its answer reaches nobody.
const LOSE_ANSWER: u8 = 1;
/// The next request does not even reach the server.
const LOSE_REQUEST: u8 = 2;

/// Between a client and the scratch server: all bytes pass until told otherwise, once.
struct Proxy {
    fault: Arc<AtomicU8>,
    url: String,
}

impl Proxy {
    async fn before(url: &str) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let user = config.get_user().unwrap();
        let database = config.get_dbname().unwrap();
        let password = config.get_password().map(|word| format!(":{}", String::from_utf8_lossy(word)));
        let address = listener.local_addr().unwrap();
        let url = format!("postgres://{user}{}@{address}/{database}", password.unwrap_or_default());
        let fault = Arc::new(AtomicU8::new(PASS));
        tokio::spawn(serve(listener, config, fault.clone()));
        Self { fault, url }
    }
}

async fn serve(listener: TcpListener, config: tokio_postgres::Config, fault: Arc<AtomicU8>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        client.set_nodelay(true).unwrap();
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match &config.get_hosts()[0] {
            Host::Unix(folder) => {
                let server = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await.unwrap();
                tokio::spawn(pass(client, server, fault.clone()));
            }
            Host::Tcp(name) => {
                let server = TcpStream::connect((name.as_str(), port)).await.unwrap();
                tokio::spawn(pass(client, server, fault.clone()));
            }
        }
    }
}

/// Returning closes both sides.
async fn pass(mut client: TcpStream, mut server: impl AsyncRead + AsyncWrite + Unpin, fault: Arc<AtomicU8>) {
    let (mut request, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                match fault.swap(PASS, Ordering::SeqCst) {
                    LOSE_REQUEST => return,
                    LOSE_ANSWER => {
                        server.write_all(&request[..count]).await.unwrap();
                        assert!(server.read(&mut answer).await.unwrap() > 0);
                        return;
                    }
                    _ => server.write_all(&request[..count]).await.unwrap(),
                }
            }
            read = server.read(&mut answer) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answer[..count]).await.is_err() {
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
        for fault in [LOSE_ANSWER, LOSE_REQUEST, LOSE_ANSWER] {
            assert_eq!(append_one(db, &mut appender, "calm"), Appended::Done);
            proxy.fault.store(fault, Ordering::SeqCst);
            assert_eq!(append_one(db, &mut appender, "storm"), Appended::Done);
            assert_eq!(proxy.fault.load(Ordering::SeqCst), PASS, "the fault was met");
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
        for fault in [PASS, LOSE_ANSWER, LOSE_REQUEST] {
            let old = head(db);
            let position = old.position + 1;
            let salt = payloads::insert_salt(TENANT, position, b"salt");
            proxy.fault.store(fault, Ordering::SeqCst);
            let written = batch(old, vec![entry(position, "storm")], vec![salt]);
            assert_eq!(append(&mut appender, &written), Ok(Appended::Done));
            assert_eq!(proxy.fault.load(Ordering::SeqCst), PASS, "the fault was met");
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
        proxy.fault.store(LOSE_REQUEST, Ordering::SeqCst);
        let late = batch(stale, vec![entry(stale.position + 1, "late")], vec![]);
        assert_eq!(append(&mut appender, &late), Ok(Appended::HeadMoved));
        assert_eq!(bodies(db).await, ["ours", "theirs"]);
    });
}
