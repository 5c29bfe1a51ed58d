//! An open stream of Server-Sent Events, of the API or of a page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::WebServer;

/// How long a test waits for the end of a stream.
const END_LIMIT: Duration = Duration::from_secs(60);

/// A stream on a connection of its own. Dropping it cuts the connection.
pub struct OpenStream(BufReader<TcpStream>);

impl OpenStream {
    /// The stream of the API.
    pub fn open(server: &WebServer, token: &str, query: &str, headers: &str) -> Self {
        let headers = format!("Authorization: Bearer {token}\r\n{headers}");
        Self::get(server, &format!("/api/v1/events{query}"), &headers)
    }

    /// The stream at a path; `headers`: whole lines. Returns when the response's head has arrived.
    pub fn get(server: &WebServer, path: &str, headers: &str) -> Self {
        let mut stream = server.process.connect();
        let host = &server.process.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{path}: {line}");
        while !line.trim().is_empty() {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self(reader)
    }

    /// The next event's id and data.
    pub fn next(&mut self) -> (u64, Value) {
        let (id, data) = self.next_text();
        (id, serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}")))
    }

    /// The next event's id, and its data as text.
    pub fn next_text(&mut self) -> (u64, String) {
        let (mut id, mut data, mut line) = (0, String::new(), String::new());
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            if let Some(given) = line.strip_prefix("id: ") {
                id = given.trim().parse().unwrap();
            }
            if let Some(more) = line.strip_prefix("data: ") {
                data.push_str(more);
            } else if line.trim().is_empty() && !data.is_empty() {
                return (id, data);
            }
        }
    }

    /// Reads up to the event whose data has this text.
    pub fn wait_for(&mut self, text: &str) {
        while !self.next_text().1.contains(text) {}
    }

    /// Reads up to so many bytes, at least one unless none are asked for.
    pub fn read_bytes(&mut self, count: usize) {
        let mut bytes = vec![0; count];
        assert!(count == 0 || self.0.read(&mut bytes).unwrap() > 0, "the stream ended");
    }

    /// Reads until the server ends the stream. A stream that goes on sends a comment now and then, so that every
    /// read returns and the limit is reached.
    pub fn wait_for_end(&mut self) {
        let deadline = Instant::now() + END_LIMIT;
        self.0.get_ref().set_read_timeout(Some(END_LIMIT)).unwrap();
        let mut line = String::new();
        while self.0.read_line(&mut line).expect("the stream neither ends nor sends anything") > 0 {
            assert!(Instant::now() < deadline, "the stream goes on: {line}");
            line.clear();
        }
    }
}
