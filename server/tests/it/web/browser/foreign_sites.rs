//! What a page of another site can do in a browser that is signed in: nothing. The pages of another port of this
//! machine get the session's cookie along, because cookies ignore ports; those of another name do not.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::book::{Book, VENDOR_PAYOUT, plan};
use super::driver::{Browser, FOREIGN_HOST};

/// Tries everything that a page can do with a foreign address; what could be read, and what was at least sent.
const ATTEMPTS: &str = r"
    const [origin, execution] = given;
    const settled = (start) => new Promise((resolve) => {
      const read = () => resolve('read'), refused = () => resolve('refused');
      try { start(read, refused); } catch { refused(); }
    });
    const fetched = (path, options) => settled((read, refused) =>
      fetch(origin + path, { credentials: 'include', ...options }).then((response) => response.type === 'opaque' ? refused() : read(), refused));
    const element = (name, attributes) => settled((read, refused) => {
      const made = Object.assign(document.createElement(name), attributes);
      made.onload = read;
      made.onerror = refused;
      document.body.append(made);
    });
    const frame = (start) => new Promise((resolve) => {
      const made = Object.assign(document.createElement('iframe'), { name: 'frame' + Math.random() });
      document.body.append(made);
      made.onload = () => { let text = ''; try { text = made.contentDocument.body.textContent; } catch { /* not ours */ } resolve(text === '' ? 'refused' : 'read'); };
      start(made);
    });
    const form = (path, fields) => frame((made) => {
      const form = Object.assign(document.createElement('form'), { method: 'post', action: origin + path, target: made.name });
      for (const [name, value] of Object.entries(fields)) form.append(Object.assign(document.createElement('input'), { name, value }));
      document.body.append(form);
      form.submit();
    });
    const json = JSON.stringify({ reason: 'forged' });
    return {
      fetch: await fetched('/api/v1/executions'),
      fetchOpaque: await fetched('/api/v1/executions', { mode: 'no-cors' }),
      fetchPost: await fetched(`/api/v1/executions/${execution}/cancel`, { method: 'POST', body: json, headers: { 'Content-Type': 'application/json' } }),
      fetchPostSimple: await fetched(`/api/v1/executions/${execution}/cancel`, { method: 'POST', mode: 'no-cors', body: json }),
      form: await form(`/executions/${execution}/control`, { action: 'cancel' }),
      formLogout: await form('/logout', {}),
      events: await settled((read, refused) => Object.assign(new EventSource(origin + '/api/v1/events', { withCredentials: true }), { onopen: read, onerror: refused })),
      live: await settled((read, refused) => Object.assign(new EventSource(origin + '/live', { withCredentials: true }), { onopen: read, onerror: refused })),
      socket: await settled((read, refused) => Object.assign(new WebSocket(origin.replace('http', 'ws') + '/api/v1/events'), { onopen: read, onerror: refused })),
      script: await element('script', { src: origin + '/api/v1/executions' }),
      image: await element('img', { src: `${origin}/executions/${execution}/graph.svg` }),
      frame: await frame((made) => { made.src = origin + '/questions'; }),
    };";

/// A server that answers every request with an empty page; its port.
fn hostile_site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let page = "<!doctype html><title>hostile</title><body>";
            let length = page.len();
            // The browser may have gone.
            drop(write!(
                &stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            ));
        }
    });
    port
}

/// Everything that is tried from a page at this address; it must all be refused.
fn attack(browser: &Browser, address: &str, execution: &str) {
    browser.open_url(address);
    let came_back = browser.run_async(ATTEMPTS, vec![json!(browser.origin), json!(execution)]);
    let attempts = came_back.as_object().unwrap();
    assert_eq!(attempts.len(), 12, "{address}: {came_back}");
    let read: Vec<(&String, &Value)> =
        attempts.iter().filter(|(_, outcome)| **outcome != "refused").collect();
    assert!(read.is_empty(), "{address}: {read:?}");
}

#[test]
fn pages_of_other_sites_neither_read_nor_act_with_the_session() {
    let book = Book::empty();
    let execution = book.run(&plan(VENDOR_PAYOUT));
    let head = book.sandbox.json(&["verify"]);
    let browser = book.browser();
    let port = hostile_site();
    for host in ["127.0.0.1", FOREIGN_HOST] {
        attack(&browser, &format!("http://{host}:{port}/"), &execution);
    }
    assert_eq!(book.sandbox.json(&["verify"]), head, "nothing was written");
    browser.open("/questions");
    browser.wait_for_text("*[contains(@class, 'q-card')]", "bank/transfer");
}

#[test]
fn name_that_leads_to_this_machine_is_refused_by_its_host() {
    let book = Book::empty();
    let browser = book.browser();
    let port = book.server.process.address.rsplit(':').next().unwrap().to_owned();
    browser.open_url(&format!("http://{FOREIGN_HOST}:{port}/"));
    browser.wait_for_text("body", "Host");
    assert!(!browser.text().contains("Executions"), "{}", browser.text());
    let read = browser.run_async(
        "const response = await fetch('/api/v1/executions', { credentials: 'include' }); return response.status;",
        vec![],
    );
    assert_eq!(read, 403);
}

#[test]
fn one_time_url_that_was_used_signs_nobody_in() {
    let book = Book::empty();
    let url = book.sandbox.json(&["open"])["url"].as_str().unwrap().to_owned();
    let owner = Browser::start(&book.server);
    owner.open_url(&url);
    owner.wait_for(".nav");
    let thief = Browser::start(&book.server);
    thief.open_url(&url);
    thief.wait_for_text("body", "actbook open");
    thief.open("/");
    thief.wait_for_text("body", "actbook open");
    assert!(thief.run("return document.querySelector('.nav');", vec![]).is_null());
    owner.open("/questions");
    owner.wait_for(".nav");
}
