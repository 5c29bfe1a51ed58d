//! `http/<name>`: one HTTP request, filled in from the call's arguments and sent once. Knows how to write the
//! request and read the answer within limits; what the answer means is the table's business.

mod address;

use std::pin::pin;

use actbook_engine::policy::Category;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use serde_json::{Value, json};

use super::classify::Came;
use super::egress::{self, Egress, Place};
use super::process::ChildProcess;
use super::secret::Secrets;
use super::{Call, IDEMPOTENCY_HEADER, TRACE_HEADER, traceparent, unfilled, withheld};
use crate::config::HttpTool;

/// One tool, with what it takes to call it.
pub struct Exchange<'a> {
    pub tool: &'a HttpTool,
    pub secrets: &'a Secrets,
    pub egress: &'a Egress,
    pub output_bytes_max: usize,
}

/// A request that is ready to leave, and the place that the config names for it.
struct Ready {
    request: Request,
    own: Option<Place>,
}

impl Exchange<'_> {
    /// Sends the request and reads the answer. Nothing can be asked to stop over plain HTTP, so a stop is only
    /// noted: the answer is worth more than a closed connection. Also says whether there was one.
    pub async fn call(
        &self,
        call: &Call,
        sending: impl Fn(Option<ChildProcess>) -> bool + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> (Came, bool) {
        let mut stop = pin!(stop);
        let ready = match self.prepare(call) {
            Ok(ready) => ready,
            Err(came) => return (came, false),
        };
        if !sending(None) {
            return (withheld(), false);
        }
        let timeout = self.tool.timeout.map_or(call.timeout, |limit| limit.min(call.timeout));
        let mut deadline = pin!(tokio::time::sleep(timeout));
        let mut answer = pin!(self.exchange(ready));
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                came = &mut answer => return (came, stopped),
                () = &mut deadline => return (Came::TimedOut { after: timeout }, stopped),
                () = &mut stop, if !stopped => stopped = true,
            }
        }
    }

    fn prepare(&self, call: &Call) -> Result<Ready, Came> {
        let nothing = json!({});
        let arguments = if call.arguments.is_null() { &nothing } else { &call.arguments };
        if let Some(schema) = &self.tool.input_schema {
            schema.check(arguments).map_err(invalid)?;
        }
        let address::Filled { url, own } = address::fill(&self.tool.url, arguments, self.secrets)?;
        let method =
            Method::from_bytes(self.tool.method.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        let mut request = Request::new(method, url);
        *request.headers_mut() = self.headers(call, arguments)?;
        if let Some(shape) = &self.tool.body {
            let body = self.secrets.resolve_shape(shape, arguments).map_err(|problem| unfilled(&problem))?;
            put_body(&mut request, &body);
        }
        Ok(Ready { request, own })
    }

    fn headers(&self, call: &Call, arguments: &Value) -> Result<HeaderMap, Came> {
        let mut headers = HeaderMap::new();
        for (name, template) in &self.tool.headers {
            let value = self.secrets.resolve(template, arguments).map_err(|problem| unfilled(&problem))?;
            let value = HeaderValue::from_bytes(value.expose().as_bytes());
            let mut value =
                value.map_err(|_| invalid(format!("the header `{name}` holds what none may hold")))?;
            let name = HeaderName::from_bytes(name.as_bytes());
            // So that it is not handed on to wherever a redirect points.
            value.set_sensitive(true);
            headers.insert(name.map_err(|error| invalid(error.to_string()))?, value);
        }
        let own = [(IDEMPOTENCY_HEADER, call.key.clone()), (TRACE_HEADER, traceparent())];
        for (name, value) in own {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.entry(name).or_insert(value);
            }
        }
        Ok(headers)
    }

    async fn exchange(&self, Ready { request, own }: Ready) -> Came {
        match self.egress.follow(request, own.as_ref()).await {
            Ok(response) if response.status().is_success() => page(response, self.output_bytes_max).await,
            Ok(response) => egress::refusal(response).await.0,
            Err(came) => came,
        }
    }
}

/// JSON, unless the config says that it is something else: then a text is sent as it is.
fn put_body(request: &mut Request, body: &Value) {
    let named = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    let json = named.is_none_or(|kind| kind.windows(4).any(|word| word == b"json"));
    let bytes = match body {
        Value::String(text) if !json => text.clone(),
        body => body.to_string(),
    };
    request.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    *request.body_mut() = Some(bytes.into());
}

async fn page(mut response: Response, bytes_max: usize) -> Came {
    let code = response.status().as_u16();
    match egress::read(&mut response, bytes_max).await {
        Ok((body, cut)) => Came::Page { code, body, cut },
        Err(why) => Came::Broken { why: format!("HTTP {code}, and then the answer broke off: {why}") },
    }
}

fn invalid(why: String) -> Came {
    Came::NotSent { category: Category::InvalidArguments, why }
}
