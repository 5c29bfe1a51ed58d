//! Pages that are rendered once for all streams on them, by one task each, while there is a stream.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use super::{LivePage, PagePart};
use crate::service::RemoteListener;
use crate::web::WebState;
use crate::web::event_stream::EventSource;
use crate::web::pages::execution_parts::ReaderRights;
use crate::web::pages::times::OPEN_DURATION;
use crate::web::problem::Problem;

/// Shortest time between two renderings of a page, and so between two events of a stream.
const RENDER_INTERVAL: Duration = Duration::from_millis(250);
/// A page that takes long to render rests this many times as long, so that keeping it current takes at most a
/// twentieth of a processor from those who run the steps.
const REST_FACTOR: u32 = 19;
/// Bytes a second that all streams of a page send together: many streams on a large page get it less often, so that
/// the kernel's copying too leaves the processors to those who run the steps.
const DELIVERED_BYTES_PER_S: u64 = 8 * 1024 * 1024;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(5);

/// The pages that streams are open on. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LivePages(Arc<Mutex<OpenPages>>);

/// Each page while a stream holds it.
type OpenPages = HashMap<PageKey, Weak<SharedPage>>;

/// A page, its readers' rights, and the project that they are confined to.
type PageKey = (LivePage, ReaderRights, Option<String>);

/// One page for readers with the same rights. The first stream renders it and starts the task that goes on.
#[derive(Debug, Default)]
struct SharedPage(OnceCell<watch::Receiver<Arc<PageRendering>>>);

impl LivePages {
    /// A stream on a page, for a client that has it as of position `has`. Err: the page cannot be rendered.
    pub(super) async fn join(
        &self,
        state: &WebState,
        page: LivePage,
        rights: ReaderRights,
        has: Option<u64>,
    ) -> Result<PageStream, Problem> {
        let (head, _) = state.service.journal().head().await?;
        let shared = self.find_or_insert((page.clone(), rights, state.service.owned_boundary()));
        let renderings = shared.0.get_or_try_init(|| start(state, page, rights)).await?.clone();
        let mut stream =
            PageStream { renderings, _page: shared, sent: Arc::default(), head, is_waiting: false };
        stream.skip_shown(has);
        Ok(stream)
    }

    fn find_or_insert(&self, key: PageKey) -> Arc<SharedPage> {
        let mut open = self.0.lock();
        open.retain(|_, page| page.upgrade().is_some_and(|page| !page.has_ended()));
        if let Some(page) = open.get(&key).and_then(Weak::upgrade) {
            return page;
        }
        let page = Arc::new(SharedPage::default());
        open.insert(key, Arc::downgrade(&page));
        page
    }
}

impl SharedPage {
    /// Whether its task has ended, because the page could not be rendered.
    fn has_ended(&self) -> bool {
        self.0.get().is_some_and(|renderings| renderings.has_changed().is_err())
    }
}

/// Renders the page and starts the task that renders it again.
async fn start(
    state: &WebState,
    page: LivePage,
    rights: ReaderRights,
) -> Result<watch::Receiver<Arc<PageRendering>>, Problem> {
    let (listening, journal_head) = state.service.journal().subscribe()?;
    let mut renderer =
        PageRenderer { state: state.clone(), page, rights, journal_head, _listening: listening };
    let started = Instant::now();
    let (sender, renderings) = watch::channel(Arc::new(renderer.render(None).await?));
    let rest = rest_after(started.elapsed(), 0);
    tokio::spawn(state.ending.clone().run_until_cancelled_owned(renderer.run(sender, rest)));
    Ok(renderings)
}

/// Renders one page whenever the journal has grown.
struct PageRenderer {
    state: WebState,
    page: LivePage,
    rights: ReaderRights,
    /// Changes when the tenant's journal has grown.
    journal_head: watch::Receiver<u64>,
    /// Keeps notifications from other processes coming.
    _listening: RemoteListener,
}

impl PageRenderer {
    /// Renders until no stream is left or the page cannot be rendered, which ends its streams. `rest`: that after the
    /// first rendering.
    async fn run(mut self, sender: watch::Sender<Arc<PageRendering>>, mut rest: Duration) {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = self.rest_until_grown(rest) => {}
            }
            let started = Instant::now();
            let previous = sender.borrow().clone();
            let rendered = match self.render(Some(&previous)).await {
                Ok(rendered) => rendered,
                Err(problem) => {
                    tracing::warn!("a live page ends: {}", problem.detail);
                    return;
                }
            };
            let event_bytes = rendered.step.as_ref().map_or(0, |(_, event)| event.len());
            rest = rest_after(started.elapsed(), event_bytes as u64 * sender.receiver_count() as u64);
            sender.send_replace(Arc::new(rendered));
        }
    }

    /// Resolves after a rest, as soon as the journal has grown since the last rendering.
    async fn rest_until_grown(&mut self, rest: Duration) {
        tokio::time::sleep(rest).await;
        if self.journal_head.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn render(&mut self, previous: Option<&PageRendering>) -> Result<PageRendering, Problem> {
        // Before the read: what is appended meanwhile causes another rendering.
        self.journal_head.mark_unchanged();
        let (head, _) = self.state.service.journal().head().await?;
        let (position, parts) = self.page.render(&self.state, self.rights).await?;
        Ok(PageRendering::new(head, position, &parts, previous))
    }
}

/// The rest after a rendering that took so long and has so many bytes to send in all.
fn rest_after(took: Duration, bytes: u64) -> Duration {
    let delivery = Duration::from_millis(bytes * 1_000 / DELIVERED_BYTES_PER_S);
    (took * REST_FACTOR).max(delivery).clamp(RENDER_INTERVAL, REST_MAX)
}

/// A page at one time.
#[derive(Debug)]
struct PageRendering {
    /// The page shows at least what the journal had up to here.
    head: u64,
    /// The position that the page itself names.
    position: u64,
    parts: Vec<EncodedPart>,
    digests: PartDigests,
    /// For streams that have sent the rendering before this one: its digests, and the event that they send.
    step: Option<(PartDigests, Bytes)>,
}

/// The digest of each part, in order; none: nothing was sent.
type PartDigests = Arc<[u64]>;

/// A part as an event carries it: lines of `data:`. Without lines, the page has no such part.
#[derive(Clone, Debug)]
struct EncodedPart {
    digest: u64,
    lines: Bytes,
}

impl EncodedPart {
    /// The part; the one of the rendering before if it is the same.
    fn new((name, html): &PagePart, previous: Option<&Self>) -> Self {
        let digest = digest_without_durations(html);
        if let Some(previous) = previous.filter(|previous| previous.digest == digest) {
            return previous.clone();
        }
        let mut lines = String::new();
        if !html.is_empty() {
            let partial =
                format!("<hx-partial hx-target=\"#{name}\" hx-swap=\"outerMorph\">{html}</hx-partial>");
            for line in partial.lines() {
                // A carriage return ends a line of an event as a line feed does.
                lines.push_str("data: ");
                lines.extend(line.chars().filter(|c| *c != '\r'));
                lines.push('\n');
            }
        }
        Self { digest, lines: lines.into() }
    }
}

/// The digest of a part without how long something has been going on: the page's script counts that by itself.
fn digest_without_durations(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut rest = html;
    while let Some((before, open)) = rest.split_once(OPEN_DURATION) {
        let (since, shown) = open.split_once('>').unwrap_or((open, ""));
        (before, since).hash(&mut hasher);
        rest = shown.split_once("</time>").map_or("", |(_, rest)| rest);
    }
    rest.hash(&mut hasher);
    hasher.finish()
}

impl PageRendering {
    fn new(head: u64, position: u64, parts: &[PagePart], previous: Option<&Self>) -> Self {
        let former = |at: usize| previous.and_then(|previous| previous.parts.get(at));
        let parts: Vec<EncodedPart> =
            parts.iter().enumerate().map(|(at, part)| EncodedPart::new(part, former(at))).collect();
        let digests = parts.iter().map(|part| part.digest).collect();
        let mut page = Self { head, position, parts, digests, step: None };
        page.step = previous.map(|previous| (previous.digests.clone(), page.event_since(&previous.digests)));
        page
    }

    /// The event with the parts that differ from those that were sent. Empty: there are none.
    fn event_since(&self, sent: &PartDigests) -> Bytes {
        if let Some((_, event)) = self.step.as_ref().filter(|(before, _)| before == sent) {
            return event.clone();
        }
        let is_new = |(at, part): &(usize, &EncodedPart)| {
            sent.get(*at) != Some(&part.digest) && !part.lines.is_empty()
        };
        let changed: Vec<&EncodedPart> =
            self.parts.iter().enumerate().filter(is_new).map(|(_, part)| part).collect();
        if changed.is_empty() {
            return Bytes::new();
        }
        let mut event = format!("id: {}\n", self.position).into_bytes();
        changed.iter().for_each(|part| event.extend_from_slice(&part.lines));
        event.push(b'\n');
        event.into()
    }
}

/// One client's stream on a shared page. It holds no rendering, only what it has sent.
#[derive(Debug)]
pub struct PageStream {
    renderings: watch::Receiver<Arc<PageRendering>>,
    _page: Arc<SharedPage>,
    sent: PartDigests,
    /// The head when the stream was opened: an older rendering would show the client an older page than it has.
    head: u64,
    /// The newest rendering was looked at.
    is_waiting: bool,
}

impl PageStream {
    /// Takes the newest rendering as sent if the client has the page as of that position.
    fn skip_shown(&mut self, has: Option<u64>) {
        let rendered = self.renderings.borrow_and_update();
        if rendered.head >= self.head && has == Some(rendered.position) {
            self.sent = rendered.digests.clone();
            self.is_waiting = true;
        }
    }
}

impl EventSource for PageStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.is_waiting {
                self.renderings.changed().await.ok()?;
            }
            self.is_waiting = true;
            let rendered = self.renderings.borrow_and_update().clone();
            if rendered.head < self.head {
                continue;
            }
            let event = rendered.event_since(&self.sent);
            self.sent = rendered.digests.clone();
            if !event.is_empty() {
                return Some(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_rests_by_its_cost_and_by_what_its_streams_send() {
        let rest = |took_ms, kilobytes: u64| rest_after(Duration::from_millis(took_ms), kilobytes * 1024);
        assert_eq!(rest(1, 100), RENDER_INTERVAL);
        assert_eq!(rest(20, 100), Duration::from_millis(380));
        // 200 streams on a page of 50 KB.
        assert_eq!(rest(1, 200 * 50), Duration::from_millis(1_220));
        assert_eq!(rest(1_000, 0), REST_MAX);
    }

    fn page(parts: &[(&'static str, &str)], previous: Option<&PageRendering>) -> PageRendering {
        let parts: Vec<PagePart> = parts.iter().map(|(name, html)| (*name, (*html).to_owned())).collect();
        PageRendering::new(7, 7, &parts, previous)
    }

    fn text(event: &Bytes) -> String {
        String::from_utf8(event.to_vec()).unwrap()
    }

    #[test]
    fn passing_time_alone_is_no_change() {
        let head = |since: u64, shown: &str| {
            format!("<p>Elapsed <time data-since=\"{since}\">{shown}</time>, 1 done</p>")
        };
        let first = page(&[("head", &head(1_000, "820ms"))], None);
        let later = page(&[("head", &head(1_000, "1.2s"))], Some(&first));
        assert!(later.event_since(&first.digests).is_empty(), "only the time has passed");
        let other = page(&[("head", &head(2_000, "820ms"))], Some(&later));
        assert!(text(&other.event_since(&later.digests)).contains("820ms"), "it began anew");
    }

    #[test]
    fn event_has_the_parts_that_the_stream_has_not_sent() {
        let first = page(&[("head", "<p>1\r\n2</p>"), ("panel", ""), ("view", "v")], None);
        let everything = text(&first.event_since(&Arc::default()));
        assert_eq!(
            everything,
            "id: 7\ndata: <hx-partial hx-target=\"#head\" hx-swap=\"outerMorph\"><p>1\ndata: 2</p></hx-partial>\n\
             data: <hx-partial hx-target=\"#view\" hx-swap=\"outerMorph\">v</hx-partial>\n\n"
        );
        let second = page(&[("head", "3"), ("panel", ""), ("view", "v")], Some(&first));
        let step = second.event_since(&first.digests);
        assert!(text(&step).contains("#head") && !text(&step).contains("#view"), "{}", text(&step));
        // Streams that have sent the same share the bytes.
        assert_eq!(step.as_ptr(), second.event_since(&first.digests).as_ptr());
        assert!(second.event_since(&second.digests).is_empty());
        let third = page(&[("head", "3"), ("panel", ""), ("view", "w")], Some(&second));
        let skipped = text(&third.event_since(&first.digests));
        assert!(skipped.contains("#head") && skipped.contains("#view"), "{skipped}");
    }
}
