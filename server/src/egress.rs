//! The egress client: every outgoing HTTP request goes through it. It resolves a host name once, checks every
//! address found, connects to exactly those, follows no redirect unless asked to and never sends a request
//! twice. What a response means is for the caller to decide.

mod public_address;
mod response_body;

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actbook_engine::policy::ErrorCategory;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderValue, LOCATION};
use reqwest::{Client, Method, Request, Response, Url};

pub use response_body::{HttpFailure, read_body, read_failure};

/// The limit for resolving a name and connecting, TLS included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Redirects followed for one request.
const REDIRECTS_MAX: usize = 3;
/// How long an idle connection is kept for reuse.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Most idle connections that are kept for reuse, per host.
const IDLE_PER_HOST_MAX: usize = 16;

/// Resolves a host name to its addresses.
pub type DnsLookup = Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>;

/// A lookup that asks the operating system's resolver.
pub fn system_dns_lookup() -> DnsLookup {
    Arc::new(|name| {
        async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    })
}

/// An HTTP client built on first use: reading the machine's certificates takes longer than the rest of
/// start-up.
type LazyClient = Arc<LazyLock<Client, Box<dyn FnOnce() -> Client + Send>>>;

/// Sends HTTP requests, and refuses private addresses that the config does not allow.
#[derive(Clone, Debug)]
pub struct EgressClient {
    /// For hosts that the config does not name: connects to public addresses only.
    public_only: LazyClient,
    /// For hosts that the config names: connects to any address.
    unrestricted: LazyClient,
    /// The hosts in `egress.allow`.
    allowed: Arc<Vec<HostPattern>>,
}

/// A host that the config names. `port` None: any port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: String,
    port: Option<u16>,
}

impl HostPattern {
    /// The host and port of a URL. None: the URL has no host or no known port.
    pub fn from_url(url: &Url) -> Option<Self> {
        Some(Self { host: url.host_str()?.to_owned(), port: Some(url.port_or_known_default()?) })
    }

    /// Parses `host` or `host:port` from `egress.allow`, normalised as in a URL. None: malformed.
    fn parse(text: &str) -> Option<Self> {
        let url = |scheme| Url::parse(&format!("{scheme}://{text}/")).ok();
        // `port()` is None for the scheme's default port, so both schemes are tried.
        let (http, https) = (url("http")?, url("https")?);
        Some(Self { host: http.host_str()?.to_owned(), port: http.port().or(https.port()) })
    }

    /// Whether the URL has this host, and this port where one is given.
    fn matches(&self, url: &Url) -> bool {
        url.host_str() == Some(&self.host)
            && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

/// Why a request brought no response.
#[derive(Clone, Debug)]
pub enum EgressError {
    /// No byte was sent: the policy denies the host, or no connection came up.
    NotSent { category: ErrorCategory, why: String },
    /// The first request was answered by a redirect that was refused or could not be followed.
    RedirectFailed { category: ErrorCategory, why: String },
    /// The connection ended after the request may have been sent.
    ConnectionLost { why: String },
}

/// The egress policy denied the request; nothing was sent.
#[derive(Debug)]
struct EgressDenied(String);

impl fmt::Display for EgressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for EgressDenied {}

/// A DNS resolver that fails with `EgressDenied` on a private address, unless `allow_private`.
struct CheckedResolver {
    lookup: DnsLookup,
    allow_private: bool,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, allow_private) = (self.lookup.clone(), self.allow_private);
        Box::pin(async move {
            let host = name.as_str();
            let found = lookup(host.to_owned()).await?;
            let is_denied = |address: &&IpAddr| !allow_private && !public_address::is_public(**address);
            if let Some(denied) = found.iter().find(is_denied) {
                return Err(EgressDenied(private_address_message(host, *denied)).into());
            }
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

fn private_address_message(host: &str, address: IpAddr) -> String {
    format!(
        "`{host}` is at {address}, which is not a public address; the config's `egress.allow` can name it"
    )
}

impl EgressClient {
    /// `allow`: hosts that may have private addresses, whichever tool calls them.
    pub fn new(lookup: DnsLookup, allow: &[String]) -> Self {
        let lazy_client = |allow_private| -> LazyClient {
            let resolver = CheckedResolver { lookup: lookup.clone(), allow_private };
            Arc::new(LazyLock::new(Box::new(|| build_client(resolver))))
        };
        let allowed = Arc::new(allow.iter().filter_map(|text| HostPattern::parse(text)).collect());
        Self { public_only: lazy_client(false), unrestricted: lazy_client(true), allowed }
    }

    /// Sends the request once and follows no redirect. `configured_host`: the host that the config names for
    /// this tool or server.
    pub async fn send(
        &self,
        request: Request,
        configured_host: Option<&HostPattern>,
    ) -> Result<Response, EgressError> {
        let client = self.client_for(request.url(), configured_host);
        let client = client.map_err(|denied| not_sent(ErrorCategory::Policy, denied.0))?;
        client.execute(request).await.map_err(transport_error)
    }

    /// The same, and follows redirects of GET and HEAD, each checked like the first request. Other methods
    /// may have effects, so they are not sent a second time.
    pub async fn send_following_redirects(
        &self,
        request: Request,
        configured_host: Option<&HostPattern>,
    ) -> Result<Response, EgressError> {
        let safe = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut next = clone_without_body(&request);
        let mut response = self.send(request, configured_host).await?;
        for _ in 0..REDIRECTS_MAX {
            let Some(to) = safe.then(|| redirect_target(&response)).flatten() else { return Ok(response) };
            apply_redirect(&mut next, to)
                .map_err(|why| EgressError::RedirectFailed { category: ErrorCategory::Policy, why })?;
            let request = clone_without_body(&next);
            response = self.send(request, configured_host).await.map_err(redirect_failed)?;
        }
        if safe && redirect_target(&response).is_some() {
            let why = format!("more than {REDIRECTS_MAX} redirects");
            return Err(EgressError::RedirectFailed { category: ErrorCategory::Protocol, why });
        }
        Ok(response)
    }

    /// The client that may connect to this URL's host.
    fn client_for(&self, url: &Url, configured_host: Option<&HostPattern>) -> Result<&Client, EgressDenied> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressDenied(format!("`{}` is neither http nor https", url.scheme())));
        }
        if configured_host.into_iter().chain(self.allowed.iter()).any(|pattern| pattern.matches(url)) {
            return Ok(&self.unrestricted);
        }
        // An IP literal is never resolved, so it is checked here. `Url` has normalised its spelling.
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(literal) if !public_address::is_public(literal) => {
                Err(EgressDenied(private_address_message(host, literal)))
            }
            Ok(_) | Err(_) => Ok(&self.public_only),
        }
    }
}

/// Copies method, URL and headers; only requests without a body are sent again.
fn clone_without_body(request: &Request) -> Request {
    let mut copy = Request::new(request.method().clone(), request.url().clone());
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// The target of a redirect; an error where it is not a URL. None: the response is no redirect.
fn redirect_target(response: &Response) -> Option<Result<Url, String>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    let to = location.to_str().ok().and_then(|to| response.url().join(to).ok());
    Some(to.ok_or_else(|| "a redirect to an invalid address".to_owned()))
}

/// Points `request` to `to`; drops sensitive headers on a change of origin, refuses to leave https.
fn apply_redirect(request: &mut Request, to: Result<Url, String>) -> Result<(), String> {
    let (from, to) = (request.url().clone(), to?);
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(format!("a redirect from https to {}", to.scheme()));
    }
    if from.origin() != to.origin() {
        let headers = std::mem::take(request.headers_mut());
        let may_leave_origin = |value: &HeaderValue| !value.is_sensitive();
        let kept = headers.iter().filter(|(_, value)| may_leave_origin(value));
        *request.headers_mut() = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    *request.url_mut() = to;
    Ok(())
}

/// Not sent becomes a failed redirect: the first request did arrive.
fn redirect_failed(error: EgressError) -> EgressError {
    match error {
        EgressError::NotSent { category, why } => {
            EgressError::RedirectFailed { category, why: format!("redirected: {why}") }
        }
        EgressError::RedirectFailed { .. } | EgressError::ConnectionLost { .. } => error,
    }
}

/// A client without proxy, redirects and retries. Without usable certificates it still works for http.
fn build_client(resolver: CheckedResolver) -> Client {
    // Fails only if a provider is installed already; that one is used then.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::trace!("a TLS provider is installed already");
    }
    let resolver = Arc::new(resolver);
    let builder = || {
        Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(resolver.clone())
    };
    builder().build().unwrap_or_else(|error| {
        tracing::warn!(
            "no certificates of this machine can be used, https will fail: {}",
            error_text(&error)
        );
        builder().tls_certs_only([]).build().expect("a client that trusts nobody needs nothing")
    })
}

fn not_sent(category: ErrorCategory, why: String) -> EgressError {
    EgressError::NotSent { category, why }
}

/// Whether a failed request was sent. Before the connection is up nothing is sent, and a request that hyper
/// reports as cancelled was never written.
fn transport_error(error: reqwest::Error) -> EgressError {
    let error = error.without_url();
    if let Some(denied) = find_cause::<EgressDenied>(&error) {
        return not_sent(ErrorCategory::Policy, denied.0.clone());
    }
    let never_written = find_cause::<hyper::Error>(&error).is_some_and(hyper::Error::is_canceled);
    if error.is_builder() || error.is_connect() || never_written {
        not_sent(ErrorCategory::Unavailable, error_text(&error))
    } else {
        EgressError::ConnectionLost { why: error_text(&error) }
    }
}

/// The error and its sources, outermost first.
fn error_chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| Error::source(*error))
}

/// The first error of type `T` in the chain.
fn find_cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    error_chain(error).find_map(|cause| cause.downcast_ref())
}

/// The error and its sources as text, without repetitions.
fn error_text(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in error_chain(error).map(ToString::to_string) {
        if !texts.iter().any(|text| text.contains(&cause)) {
            texts.push(cause);
        }
    }
    texts.join(": ")
}
