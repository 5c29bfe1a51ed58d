//! The one HTTP client: everything that leaves this house over HTTP leaves through here. It resolves a name
//! once, checks every address it got, connects to exactly those, follows no redirect by itself and sends
//! nothing twice. It knows addresses and bytes; what an answer means is the table's business.

mod address;
mod answer;

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actbook_engine::policy::Category;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderValue, LOCATION};
use reqwest::{Client, Method, Request, Response, Url};

use super::classify::Came;
pub use answer::{read, refusal};

/// From the name to a connection that can be written to, TLS included.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const REDIRECTS_MAX: usize = 3;
const IDLE_LIMIT: Duration = Duration::from_secs(30);
const IDLE_PER_HOST: usize = 16;

/// Where the addresses of a name come from.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The machine's own resolver.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    })
}

/// Made when it is first needed: reading the machine's certificates takes longer than the rest of a start.
type OnceNeeded = Arc<LazyLock<Client, Box<dyn FnOnce() -> Client + Send>>>;

#[derive(Clone, Debug)]
pub struct Egress {
    /// For every host that the config does not name: its addresses are checked.
    public: OnceNeeded,
    /// For those that it names: the operator knows best.
    named: OnceNeeded,
    allowed: Arc<Vec<Place>>,
}

/// A host that the config names; without a port, on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    host: String,
    port: Option<u16>,
}

impl Place {
    /// Of a whole URL: its host on its port.
    pub fn of(url: &Url) -> Option<Self> {
        Some(Self { host: url.host_str()?.to_owned(), port: Some(url.port_or_known_default()?) })
    }

    /// `host` or `host:port`, as written in `egress.allow`; spelled as a URL would spell it.
    fn written(text: &str) -> Option<Self> {
        let url = |scheme| Url::parse(&format!("{scheme}://{text}/")).ok();
        // Each scheme hides its own default port.
        let (http, https) = (url("http")?, url("https")?);
        Some(Self { host: http.host_str()?.to_owned(), port: http.port().or(https.port()) })
    }

    fn holds(&self, url: &Url) -> bool {
        url.host_str() == Some(&self.host)
            && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

/// Our own no: nothing was sent.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refused {}

struct Checked {
    lookup: Lookup,
    private_too: bool,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, private_too) = (self.lookup.clone(), self.private_too);
        Box::pin(async move {
            let host = name.as_str();
            let found = lookup(host.to_owned()).await?;
            if let Some(denied) = found.iter().find(|address| !private_too && !address::is_public(**address))
            {
                return Err(Refused(inside(host, *denied)).into());
            }
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

fn inside(host: &str, address: IpAddr) -> String {
    format!("`{host}` is at {address}, which is no public address; the config's `egress.allow` can name it")
}

impl Egress {
    /// `allow` lists hosts that may be private for whoever asks.
    pub fn new(lookup: Lookup, allow: &[String]) -> Self {
        let client = |private_too| -> OnceNeeded {
            let names = Checked { lookup: lookup.clone(), private_too };
            Arc::new(LazyLock::new(Box::new(|| client(names))))
        };
        let allowed = Arc::new(allow.iter().filter_map(|text| Place::written(text)).collect());
        Self { public: client(false), named: client(true), allowed }
    }

    /// Sends once and follows nothing. `own` is the place that the config names for this tool or server.
    pub async fn send(&self, request: Request, own: Option<&Place>) -> Result<Response, Came> {
        let client =
            self.client(request.url(), own).map_err(|refused| unsent(Category::Policy, refused.0))?;
        client.execute(request).await.map_err(lost)
    }

    /// The same, and where a GET or HEAD is answered with a redirect, goes after it, each step checked like the
    /// first. Anything else may have an effect, and is not sent a second time unasked.
    pub async fn follow(&self, request: Request, own: Option<&Place>) -> Result<Response, Came> {
        let safe = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut next = again(&request);
        let mut response = self.send(request, own).await?;
        for _ in 0..REDIRECTS_MAX {
            let Some(to) = safe.then(|| redirected(&response)).flatten() else { return Ok(response) };
            redirect(&mut next, to).map_err(|why| Came::NotFollowed { category: Category::Policy, why })?;
            let request = again(&next);
            response = self.send(request, own).await.map_err(not_followed)?;
        }
        match safe && redirected(&response).is_some() {
            false => Ok(response),
            true => {
                let why = format!("more than {REDIRECTS_MAX} redirects");
                Err(Came::NotFollowed { category: Category::Protocol, why })
            }
        }
    }

    fn client(&self, url: &Url, own: Option<&Place>) -> Result<&Client, Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused(format!("`{}` is neither http nor https", url.scheme())));
        }
        if own.into_iter().chain(self.allowed.iter()).any(|place| place.holds(url)) {
            return Ok(&self.named);
        }
        // A literal address is never looked up, so it is checked here. The URL spells it one way only.
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(literal) if !address::is_public(literal) => Err(Refused(inside(host, literal))),
            Ok(_) | Err(_) => Ok(&self.public),
        }
    }
}

/// The same request without its body, which none that is sent again has.
fn again(request: &Request) -> Request {
    let mut copy = Request::new(request.method().clone(), request.url().clone());
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// Where an answer points, if it is a redirect.
fn redirected(response: &Response) -> Option<Result<Url, String>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    let to = location.to_str().ok().and_then(|to| response.url().join(to).ok());
    Some(to.ok_or_else(|| "a redirect to what is no address".to_owned()))
}

fn redirect(request: &mut Request, to: Result<Url, String>) -> Result<(), String> {
    let (from, to) = (request.url().clone(), to?);
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(format!("a redirect from https to {}", to.scheme()));
    }
    if from.origin() != to.origin() {
        let headers = std::mem::take(request.headers_mut());
        let harmless = |value: &HeaderValue| !value.is_sensitive();
        let kept = headers.iter().filter(|(_, value)| harmless(value));
        *request.headers_mut() = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    *request.url_mut() = to;
    Ok(())
}

/// What was asked first did arrive, and its answer led nowhere.
fn not_followed(came: Came) -> Came {
    match came {
        Came::NotSent { category, why } => Came::NotFollowed { category, why: format!("redirected: {why}") },
        came => came,
    }
}

fn client(names: Checked) -> Client {
    // Fails only where somebody installed one before: then that one serves.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::trace!("a TLS provider is installed already");
    }
    let names = Arc::new(names);
    let builder = || {
        Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(CONNECT_LIMIT)
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(names.clone())
    };
    builder().build().unwrap_or_else(|error| {
        tracing::warn!("no certificates of this machine can be used, https will fail: {}", told(&error));
        builder().tls_certs_only([]).build().expect("a client that trusts nobody needs nothing")
    })
}

fn unsent(category: Category, why: String) -> Came {
    Came::NotSent { category, why }
}

/// Up to the connection nothing has left; what hyper calls cancelled was never taken up for writing.
fn lost(error: reqwest::Error) -> Came {
    let error = error.without_url();
    if let Some(refused) = find::<Refused>(&error) {
        return unsent(Category::Policy, refused.0.clone());
    }
    let never_written = find::<hyper::Error>(&error).is_some_and(hyper::Error::is_canceled);
    match error.is_builder() || error.is_connect() || never_written {
        true => unsent(Category::Unavailable, told(&error)),
        false => Came::Broken { why: told(&error) },
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| Error::source(*error))
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// The error with its causes, each said once.
fn told(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in causes(error).map(ToString::to_string) {
        if !said.iter().any(|before| before.contains(&cause)) {
            said.push(cause);
        }
    }
    said.join(": ")
}
