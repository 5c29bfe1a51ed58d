//! `http/<name>`: one HTTP request, filled in from the call's arguments and sent once. Builds the request and
//! reads the response within limits; what the response means is decided in `classify`.

mod call_url;

use std::pin::pin;

use actbook_engine::policy::ErrorCategory;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use serde_json::{Value, json};

use super::classify::RawOutcome;
use super::process::ProcessIdentity;
use super::secret::Secrets;
use super::{
    Call, IDEMPOTENCY_HEADER, TRACE_HEADER, new_traceparent, template_not_filled, withheld_before_send,
};
use crate::config::HttpTool;
use crate::egress::{self, EgressClient, HostPattern};

/// The means to call one HTTP tool.
pub struct HttpCall<'a> {
    pub tool: &'a HttpTool,
    pub secrets: &'a Secrets,
    pub egress: &'a EgressClient,
    pub output_bytes_max: usize,
}

/// A request that is ready to send. `configured_host`: the host, where the config names it rather than an
/// argument.
struct PreparedRequest {
    request: Request,
    configured_host: Option<HostPattern>,
}

impl HttpCall<'_> {
    /// Sends the request and reads the response. Also returns whether the call was asked to stop; plain HTTP
    /// cannot cancel a request, so the response is still awaited.
    pub async fn call(
        &self,
        call: &Call,
        sending: impl Fn(Option<ProcessIdentity>) -> bool + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> (RawOutcome, bool) {
        let mut stop = pin!(stop);
        let ready = match self.prepare(call) {
            Ok(ready) => ready,
            Err(raw) => return (raw, false),
        };
        if !sending(None) {
            return (withheld_before_send(), false);
        }
        let timeout = self.tool.timeout.map_or(call.timeout, |limit| limit.min(call.timeout));
        let mut deadline = pin!(tokio::time::sleep(timeout));
        let mut answer = pin!(self.send_and_read(ready));
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                raw = &mut answer => return (raw, stopped),
                () = &mut deadline => return (RawOutcome::TimedOut { after: timeout }, stopped),
                () = &mut stop, if !stopped => stopped = true,
            }
        }
    }

    /// Checks the arguments and builds the request; the error means: not sent.
    fn prepare(&self, call: &Call) -> Result<PreparedRequest, RawOutcome> {
        let empty = json!({});
        let arguments = if call.arguments.is_null() { &empty } else { &call.arguments };
        if let Some(schema) = &self.tool.input_schema {
            schema.check(arguments).map_err(invalid_arguments)?;
        }
        let call_url::FilledUrl { url, configured_host } =
            call_url::fill_url(&self.tool.url, arguments, self.secrets)?;
        let method = Method::from_bytes(self.tool.method.as_bytes())
            .map_err(|error| invalid_arguments(error.to_string()))?;
        let mut request = Request::new(method, url);
        *request.headers_mut() = self.build_headers(call, arguments)?;
        if let Some(shape) = &self.tool.body {
            let body = self
                .secrets
                .resolve_value(shape, arguments)
                .map_err(|problem| template_not_filled(&problem))?;
            set_body(&mut request, &body);
        }
        Ok(PreparedRequest { request, configured_host })
    }

    /// The configured headers, and idempotency key and trace context unless the config sets them.
    fn build_headers(&self, call: &Call, arguments: &Value) -> Result<HeaderMap, RawOutcome> {
        let mut headers = HeaderMap::new();
        for (name, template) in &self.tool.headers {
            let value =
                self.secrets.resolve(template, arguments).map_err(|problem| template_not_filled(&problem))?;
            let value = HeaderValue::from_bytes(value.expose().as_bytes());
            let mut value = value.map_err(|_| {
                invalid_arguments(format!("the header `{name}` has a value that headers cannot have"))
            })?;
            let name = HeaderName::from_bytes(name.as_bytes());
            // Sensitive headers are not sent to another origin after a redirect.
            value.set_sensitive(true);
            headers.insert(name.map_err(|error| invalid_arguments(error.to_string()))?, value);
        }
        let added = [(IDEMPOTENCY_HEADER, call.key.clone()), (TRACE_HEADER, new_traceparent())];
        for (name, value) in added {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.entry(name).or_insert(value);
            }
        }
        Ok(headers)
    }

    /// Sends the request, following redirects, and reads the response.
    async fn send_and_read(
        &self,
        PreparedRequest { request, configured_host }: PreparedRequest,
    ) -> RawOutcome {
        match self.egress.send_following_redirects(request, configured_host.as_ref()).await {
            Ok(response) if response.status().is_success() => {
                read_success(response, self.output_bytes_max).await
            }
            Ok(response) => egress::read_failure(response).await.into(),
            Err(error) => error.into(),
        }
    }
}

/// Sets the body as JSON, and the content type unless the config sets it; a string is sent as it is if the
/// configured content type is not JSON.
fn set_body(request: &mut Request, body: &Value) {
    let content_type = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    let is_json = content_type.is_none_or(|kind| kind.windows(4).any(|word| word == b"json"));
    let bytes = match body {
        Value::String(text) if !is_json => text.clone(),
        body => body.to_string(),
    };
    request.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    *request.body_mut() = Some(bytes.into());
}

/// Reads the body of a 2xx response, at most `bytes_max` bytes. `ConnectionLost` if it ends early.
async fn read_success(mut response: Response, bytes_max: usize) -> RawOutcome {
    let code = response.status().as_u16();
    match egress::read_body(&mut response, bytes_max).await {
        Ok((body, cut)) => RawOutcome::HttpSuccess { code, body, cut },
        Err(why) => RawOutcome::ConnectionLost {
            why: format!("HTTP {code}, and then the response ended early: {why}"),
        },
    }
}

/// The outcome of a call whose arguments do not make a valid request.
fn invalid_arguments(why: String) -> RawOutcome {
    RawOutcome::NotSent { category: ErrorCategory::InvalidArguments, why }
}
