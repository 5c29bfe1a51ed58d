//! `/settings`: how pages look, which keys work, and signing out. Kept in a cookie of the browser.

use askama::Template;
use axum::Form;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::frame::{Area, DISPLAY_COOKIE, DisplaySettings, Frame, Theme, TimeStyle};
use super::render;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::problem::Problem;

/// How long a browser keeps the settings, in seconds.
const KEPT_S: u32 = 365 * 24 * 3600;

#[derive(Debug, Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    themes: [(&'static str, &'static str); 3],
    times: [(&'static str, &'static str); 3],
    database: String,
    base_url: String,
}

/// `GET /settings`.
pub async fn show(state: WebState, signed_in: SignedIn, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let frame = Frame::load(&state, &signed_in, &headers, Area::Settings, "Settings").await?;
    render(&SettingsPage {
        frame: frame.at("/settings"),
        themes: [("system", "As the system"), ("light", "Light"), ("dark", "Dark")],
        times: [("local", "Local"), ("utc", "UTC"), ("relative", "Relative")],
        database: state.service.describe_database(),
        base_url: state.access.base_url.clone(),
    })
}

/// The form of the settings. What it leaves out stays as it is, but a form with `all` says that no box is ticked.
#[derive(Debug, Deserialize)]
pub struct DisplayForm {
    theme: Option<String>,
    times: Option<String>,
    keys: Option<String>,
    all: Option<String>,
    /// The path to go back to.
    back: Option<String>,
}

/// `POST /settings/display`.
pub async fn set_display(headers: HeaderMap, Form(form): Form<DisplayForm>) -> Response {
    let mut display = DisplaySettings::from_headers(&headers);
    if let Some(theme) = &form.theme {
        display.theme = Theme::parse(theme);
    }
    if let Some(times) = &form.times {
        display.times = TimeStyle::parse(times);
    }
    if form.all.is_some() || form.keys.is_some() {
        display.letter_keys = form.keys.as_deref() == Some("on");
    }
    // Only a path of this server: a link must not lead elsewhere by way of this form.
    let is_own = |path: &&str| path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    let back = form.back.as_deref().filter(is_own).unwrap_or("/settings");
    let mut response = Redirect::to(back).into_response();
    let cookie = format!("{DISPLAY_COOKIE}={}; Path=/; SameSite=Lax; Max-Age={KEPT_S}", display.to_cookie());
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
