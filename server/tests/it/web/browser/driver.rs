//! A Chromium of its own for each test, driven through chromedriver. Every wait ends with an event or fails at
//! `WAIT_MAX`; nothing leaves the machine, because no name but the hosts of a test is resolved.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::Url;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::web::server::WebServer;

/// Time limit of every wait: a loaded machine is slow, a hanging page is a failure.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Time between two looks for an element.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A name that leads to this machine, for pages of another site.
pub const FOREIGN_HOST: &str = "evil.example";

pub const TAB: char = '\u{e004}';
pub const ENTER: char = '\u{e007}';
pub const ESCAPE: char = '\u{e00c}';
pub const SPACE: char = ' ';
pub const ARROW_RIGHT: char = '\u{e014}';

/// How a page is looked at: a size and a colour scheme.
#[derive(Clone, Copy, Debug)]
pub struct Viewport {
    pub name: &'static str,
    pub width: u32,
    pub height: u32,
    pub is_dark: bool,
}

pub const DESKTOP: Viewport = Viewport { name: "1280-light", width: 1280, height: 900, is_dark: false };
pub const DESKTOP_DARK: Viewport = Viewport { name: "1280-dark", is_dark: true, ..DESKTOP };
pub const PHONE: Viewport = Viewport { name: "390-light", width: 390, height: 844, is_dark: false };
pub const PHONE_DARK: Viewport = Viewport { name: "390-dark", is_dark: true, ..PHONE };
pub const VIEWPORTS: [Viewport; 4] = [DESKTOP, DESKTOP_DARK, PHONE, PHONE_DARK];

/// A running Chromium with an empty profile; it ends with its driver on drop.
pub struct Browser {
    runtime: Runtime,
    /// `None` only while the browser is being closed.
    client: Option<Client>,
    driver: Child,
    /// Kept open, since chromedriver writes to it.
    _driver_output: BufReader<ChildStdout>,
    /// Holds the profile and everything temporary.
    _folder: TempDir,
    /// Scheme, host and port of the server under test.
    pub origin: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // Ends Chromium; without it, killing the driver would leave the browser behind.
            drop(self.runtime.block_on(async { tokio::time::timeout(WAIT_MAX, client.close()).await }));
        }
        self.driver.kill().unwrap();
        self.driver.wait().unwrap();
    }
}

/// A command of chromedriver that fantoccini does not know.
#[derive(Debug)]
struct ChromeCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for ChromeCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as std::str::FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// A browser for the pages of this server.
    pub fn start(server: &WebServer) -> Self {
        Self::start_with(server, json!({}))
    }

    /// A browser in which no page runs a script.
    pub fn start_without_script(server: &WebServer) -> Self {
        Self::start_with(server, json!({ "profile.managed_default_content_settings.javascript": 2 }))
    }

    fn start_with(server: &WebServer, preferences: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (driver, output, port) = start_driver(&folder);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let capabilities = capabilities(&folder, preferences);
        let url = format!("http://127.0.0.1:{port}");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities.as_object().unwrap().clone());
        let client = runtime.block_on(builder.connect(&url)).unwrap();
        let origin = format!("http://{}", server.process.address);
        let browser =
            Self { runtime, client: Some(client), driver, _driver_output: output, _folder: folder, origin };
        browser.show_as(DESKTOP);
        browser
    }

    /// Signs in with the one-time URL that the server printed.
    pub fn sign_in(&self, server: &WebServer) {
        self.open(&server.login_path());
        self.wait_for(".nav");
    }

    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    /// Opens a path of the server under test, and waits until it is loaded.
    #[track_caller]
    pub fn open(&self, path: &str) {
        self.open_url(&format!("{}{path}", self.origin));
    }

    #[track_caller]
    pub fn open_url(&self, url: &str) {
        let opened = self.runtime.block_on(self.client().goto(url));
        opened.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    /// Path, query and fragment of the page that is shown.
    #[track_caller]
    pub fn path(&self) -> String {
        let url = self.runtime.block_on(self.client().current_url()).unwrap().to_string();
        url.strip_prefix(&self.origin).map_or(url.clone(), str::to_owned)
    }

    /// The first element that the selector matches, as soon as there is one.
    #[track_caller]
    pub fn wait_for(&self, css: &str) -> Element {
        self.wait_for_any(Locator::Css(css))
    }

    /// Waits until an element that the selector matches contains this text.
    #[track_caller]
    pub fn wait_for_text(&self, element: &str, text: &str) -> Element {
        self.wait_for_any(Locator::XPath(&xpath(element, text)))
    }

    #[track_caller]
    fn wait_for_any(&self, locator: Locator<'_>) -> Element {
        let wait = self.client().wait().at_most(WAIT_MAX).every(LOOK_INTERVAL);
        let found = self.runtime.block_on(wait.for_element(locator));
        found.unwrap_or_else(|error| {
            panic!("{locator:?} on {}: {error}\n{}\n{:?}", self.path(), self.text(), self.problems())
        })
    }

    /// Clicks the first element that the selector matches, as soon as that can be clicked.
    #[track_caller]
    pub fn click(&self, css: &str) {
        self.click_at(Locator::Css(css));
    }

    /// Clicks the first such element that contains this text.
    #[track_caller]
    pub fn click_text(&self, element: &str, text: &str) {
        self.click_at(Locator::XPath(&xpath(element, text)));
    }

    #[track_caller]
    fn click_at(&self, locator: Locator<'_>) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let element = self.wait_for_any(locator);
            match self.runtime.block_on(element.click()) {
                Ok(()) => return,
                // A live part was replaced between the two commands.
                Err(error) if is_passing(&error) && Instant::now() < deadline => {}
                Err(error) => panic!("{locator:?} on {}: {error}", self.path()),
            }
        }
    }

    /// Types into a field, in place of what it holds.
    #[track_caller]
    pub fn fill(&self, css: &str, text: &str) {
        let field = self.wait_for(css);
        self.runtime
            .block_on(async {
                field.clear().await?;
                field.send_keys(text).await
            })
            .unwrap_or_else(|error| panic!("{css} on {}: {error}", self.path()));
    }

    /// Presses and releases these keys one after the other, wherever the focus is.
    #[track_caller]
    pub fn press(&self, keys: impl IntoIterator<Item = char>) {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for value in keys {
            actions = actions.then(KeyAction::Down { value }).then(KeyAction::Up { value });
        }
        self.runtime.block_on(self.client().perform_actions(actions)).unwrap();
    }

    /// Runs the body of a function in the page and returns what it returns.
    #[track_caller]
    pub fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        let ran = self.runtime.block_on(self.client().execute(script, arguments));
        ran.unwrap_or_else(|error| panic!("{script:.200} on {}: {error}", self.path()))
    }

    /// Runs the body of an async function in the page and returns what it resolves to.
    #[track_caller]
    pub fn run_async(&self, script: &str, arguments: Vec<Value>) -> Value {
        let ran = self.try_async(script, arguments);
        ran.unwrap_or_else(|error| panic!("{script:.200} on {}: {error}", self.path()))
    }

    /// Like `run_async`; fails if the page is left meanwhile.
    fn try_async(&self, script: &str, arguments: Vec<Value>) -> Result<Value, CmdError> {
        let whole = format!(
            "const done = arguments[arguments.length - 1]; \
             (async (...given) => {{ {script} }})(...arguments).then(done, (error) => done({{ error: String(error) }}));"
        );
        self.runtime.block_on(self.client().execute_async(&whole, arguments))
    }

    /// Waits until a JavaScript expression holds in the page.
    #[track_caller]
    pub fn wait_until(&self, condition: &str) {
        let script = format!(
            "const holds = () => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }}; \
             const end = performance.now() + 1000; \
             while (!holds() && performance.now() < end) await new Promise(requestAnimationFrame); \
             return holds();"
        );
        let deadline = Instant::now() + WAIT_MAX;
        while !self.try_async(&script, vec![]).is_ok_and(|holds| holds == true) {
            assert!(Instant::now() < deadline, "{condition} on {}:\n{}", self.path(), self.text());
        }
    }

    /// A property of an element, as a text.
    pub fn property(&self, element: &Element, name: &str) -> String {
        self.runtime.block_on(element.prop(name)).unwrap().unwrap_or_default()
    }

    pub fn title(&self) -> String {
        self.runtime.block_on(self.client().title()).unwrap()
    }

    /// The text that the page shows.
    pub fn text(&self) -> String {
        let body =
            self.runtime.block_on(async { self.client().find(Locator::Css("body")).await?.text().await });
        body.unwrap_or_default()
    }

    /// A command of the DevTools protocol.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.issue("goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }

    /// Size and colours, from here on.
    pub fn show_as(&self, viewport: Viewport) {
        let Viewport { width, height, is_dark, .. } = viewport;
        let is_phone = width < 600;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// The page as it looks, down to `height_max`, as a picture in this format (`png`, `webp`), `scale` pixels for each
    /// of CSS.
    pub fn picture(&self, format: &str, scale: f64, height_max: f64) -> Vec<u8> {
        let size = self.devtools("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let height = size["height"].as_f64().unwrap().min(height_max);
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": height, "scale": scale });
        let mut wanted = json!({ "format": format, "captureBeyondViewport": true, "clip": clip });
        if format == "webp" {
            wanted["quality"] = json!(60);
        }
        let taken = self.devtools("Page.captureScreenshot", wanted);
        BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    /// Everything that went wrong since the last call: errors and warnings of the console, which include what the
    /// Content-Security-Policy blocked, and requests to anything but the server under test.
    pub fn problems(&self) -> Vec<String> {
        let console =
            self.log("browser").into_iter().map(|entry| format!("{}: {}", entry["level"], entry["message"]));
        let requested = self.log("performance").into_iter().filter_map(|entry| requested_url(&entry));
        let own = [self.origin.as_str(), "data:", "about:", "chrome:", "chrome-error:"];
        let foreign = requested.filter(|url| !own.iter().any(|start| url.starts_with(start)));
        console.chain(foreign.map(|url| format!("request to {url}"))).collect()
    }

    #[track_caller]
    pub fn assert_no_problems(&self) {
        let problems = self.problems();
        assert!(problems.is_empty(), "{}: {problems:#?}", self.path());
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.issue("se/log", json!({ "type": kind })).as_array().cloned().unwrap_or_default()
    }

    #[track_caller]
    fn issue(&self, path: &'static str, body: Value) -> Value {
        let issued = self.runtime.block_on(self.client().issue_cmd(ChromeCommand { path, body }));
        issued.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

/// The XPath of an element with this name (`*`: any) that contains this text.
fn xpath(element: &str, text: &str) -> String {
    assert!(!text.contains('"'), "XPath has no escape for a quote");
    format!("//{element}[contains(normalize-space(.), \"{text}\")]")
}

/// True for an element that was replaced, or is covered or hidden for a moment.
fn is_passing(error: &CmdError) -> bool {
    let is_covered = error.to_string().contains("element click intercepted");
    is_covered || error.is_stale_element_reference() || error.is_element_not_interactable()
}

/// The URL of an entry of the performance log that says that a request is sent.
fn requested_url(entry: &Value) -> Option<String> {
    let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
    let message = &event["message"];
    let is_request = ["Network.requestWillBeSent", "Network.webSocketCreated"]
        .iter()
        .any(|kind| message["method"] == *kind);
    let parameters = &message["params"];
    let url = parameters["request"]["url"].as_str().or(parameters["url"].as_str())?;
    is_request.then(|| url.to_owned())
}

/// Starts a chromedriver on a free port; the process, its output and the port.
fn start_driver(folder: &TempDir) -> (Child, BufReader<ChildStdout>, u16) {
    let mut command = Command::new("chromedriver");
    let command = command.arg("--port=0").env("TMPDIR", folder.path()).env("TZ", "UTC");
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut driver = spawned.expect("chromedriver is installed by `cargo xtask test`");
    let mut output = BufReader::new(driver.stdout.take().unwrap());
    let port = (&mut output).lines().map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    (driver, output, port.expect("chromedriver says its port"))
}

fn capabilities(folder: &TempDir, preferences: Value) -> Value {
    let profile = folder.path().join("profile");
    let arguments = [
        "--headless=new".to_owned(),
        // Tests also run as root and in containers, where neither the sandbox nor a large /dev/shm exists.
        "--no-sandbox".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--hide-scrollbars".to_owned(),
        "--window-size=1280,900".to_owned(),
        "--lang=en-US".to_owned(),
        format!("--host-resolver-rules=MAP {FOREIGN_HOST} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
        format!("--user-data-dir={}", profile.display()),
    ];
    let limit = WAIT_MAX.as_millis() as u64;
    json!({
        "browserName": "chrome",
        // A dialog that a page opens stays open, and the next command fails.
        "unhandledPromptBehavior": "ignore",
        "timeouts": { "script": limit, "pageLoad": limit },
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        "goog:chromeOptions": { "args": arguments, "prefs": preferences },
    })
}
