//! Many streams of Server-Sent Events, read by one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::web::WebProcess;

/// A cut stream reads at least one and fewer than this many entries before it is cut.
const ENTRIES_BEFORE_CUT: u64 = 800;

/// Streams on one page, which are read until each has shown the page's last state.
pub struct PageWatch {
    reading: JoinHandle<anyhow::Result<()>>,
    /// The position that every stream has to show.
    end: watch::Sender<u64>,
}

impl PageWatch {
    /// Waits until every stream has shown the page as of this position, and cuts it then.
    pub fn stop_when_all_have(self, end: u64) -> anyhow::Result<()> {
        self.end.send_replace(end);
        self.reading.join().map_err(|_| anyhow::anyhow!("the readers panicked"))?
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Opens a stream; `headers`: whole lines.
async fn open(address: &str, token: &str, path: &str, headers: &str) -> anyhow::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    anyhow::ensure!(line.contains(" 200 "), "{path}: {line}");
    Ok(stream)
}

/// Reads the first event, the whole page.
async fn skip_event(stream: &mut BufReader<TcpStream>) -> anyhow::Result<()> {
    let (mut line, mut has_begun) = (String::new(), false);
    while !(has_begun && line.trim().is_empty()) {
        line.clear();
        anyhow::ensure!(stream.read_line(&mut line).await? > 0, "a stream ended");
        has_begun |= line.starts_with("id: ");
    }
    Ok(())
}

/// Opens streams on a page, in a thread that reads them; returns when all have shown the page.
pub fn watch_page(server: &WebProcess, path: &str, streams: usize) -> anyhow::Result<PageWatch> {
    let (address, token, path) = (server.address.clone(), server.token.clone(), path.to_owned());
    let (end, end_seen) = watch::channel(u64::MAX);
    let (opened, all_open) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        runtime()?.block_on(async move {
            let mut readers = JoinSet::new();
            for _ in 0..streams {
                let mut stream = open(&address, &token, &path, "").await?;
                skip_event(&mut stream).await?;
                readers.spawn(read_until(stream, end_seen.clone()));
            }
            opened.send(())?;
            while let Some(read) = readers.join_next().await {
                read??;
            }
            Ok(())
        })
    });
    if all_open.recv().is_err() {
        reading.join().map_err(|_| anyhow::anyhow!("the readers panicked"))??;
        anyhow::bail!("the streams were not opened");
    }
    Ok(PageWatch { reading, end })
}

/// Reads a stream until it has shown the page as of position `end`, which becomes known while it is read.
async fn read_until(stream: BufReader<TcpStream>, mut end: watch::Receiver<u64>) -> anyhow::Result<()> {
    let (mut lines, mut shown) = (stream.lines(), 0);
    while shown < *end.borrow_and_update() {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { anyhow::bail!("a live stream ended") };
                if let Some(position) = line.strip_prefix("id: ") {
                    shown = position.trim().parse()?;
                }
            }
            changed = end.changed() => changed?,
        }
    }
    Ok(())
}

/// Follows the journal after `head` by streams that are cut at random, each until an execution ends; the thread
/// returns the number of cuts. Err: an entry was missing or came twice.
pub fn follow_with_cuts(
    server: &WebProcess,
    streams: usize,
    head: u64,
) -> anyhow::Result<JoinHandle<anyhow::Result<usize>>> {
    let (address, token) = (server.address.clone(), server.token.clone());
    Ok(std::thread::spawn(move || {
        runtime()?.block_on(async move {
            let cuts = Arc::new(AtomicUsize::new(0));
            let mut readers = JoinSet::new();
            for number in 0..streams {
                let (address, token, cuts) = (address.clone(), token.clone(), cuts.clone());
                readers.spawn(async move {
                    let mut last = head;
                    let mut random = number as u64 + 1;
                    while !follow_until_cut(&address, &token, &mut last, &mut random).await? {
                        cuts.fetch_add(1, Ordering::Relaxed);
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(read) = readers.join_next().await {
                read??;
            }
            Ok(cuts.load(Ordering::Relaxed))
        })
    }))
}

/// Reads some entries after `last` and cuts the connection. True: an execution has ended.
async fn follow_until_cut(
    address: &str,
    token: &str,
    last: &mut u64,
    random: &mut u64,
) -> anyhow::Result<bool> {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let mut left = 1 + (*random >> 33) % ENTRIES_BEFORE_CUT;
    let headers = format!("Last-Event-ID: {last}\r\n");
    let mut lines = open(address, token, "/api/v1/events", &headers).await?.lines();
    while left > 0 {
        let Some(line) = lines.next_line().await? else { anyhow::bail!("a stream ended") };
        if let Some(id) = line.strip_prefix("id: ") {
            let id: u64 = id.trim().parse()?;
            anyhow::ensure!(id == *last + 1, "entry {id} came after {last}");
            *last = id;
            left -= 1;
        }
        if line.trim_end() == "event: execution_ended" {
            return Ok(true);
        }
    }
    Ok(false)
}
