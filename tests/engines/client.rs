//! The other side of the wire: clients of a server in a container, and a web hook for what a container sends.

use super::timeline::{Timeline, Who};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// A port of the loopback interface that nobody uses now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// One request, whose outcome goes to the time line.
pub struct Request {
    sent: SystemTime,
    outcome: JoinHandle<bool>,
}

impl Request {
    pub fn send(timeline: &Arc<Timeline>, port: u16, path: &'static str) -> Request {
        let (timeline, sent) = (Arc::clone(timeline), SystemTime::now());
        let outcome = thread::spawn(move || {
            let answer = get(port, path);
            let outcome = answer.as_ref().map_or_else(ToString::to_string, |length| format!("{length} bytes"));
            timeline.note(Who::Client, &format!("GET {path}: {outcome}"));
            answer.is_ok()
        });
        Request { sent, outcome }
    }

    pub fn succeeds(self) -> bool {
        self.outcome.join().expect("a client")
    }
}

/// The length of a complete answer. An answer that ends early is an error.
fn get(port: u16, path: &str) -> io::Result<usize> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let headers = read_headers(&mut reader)?;
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    let complete = content_length(&headers).is_none_or(|length| length == body.len());
    if !headers.starts_with("HTTP/1.1 200") || !complete {
        return Err(io::Error::other(format!("cut off after {} bytes", body.len())));
    }
    Ok(body.len())
}

fn read_headers(reader: &mut impl BufRead) -> io::Result<String> {
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        if reader.read_line(&mut headers)? == 0 {
            return Err(io::Error::other("no answer"));
        }
    }
    Ok(headers)
}

fn content_length(headers: &str) -> Option<usize> {
    let header = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse());
    headers.lines().find_map(header)?.ok()
}

/// A client that asks again every tenth of a second, each time with a new connection.
pub struct Poller {
    stop: Sender<()>,
    requests: JoinHandle<Vec<Request>>,
}

/// Who asked when, and whether there was an answer.
pub struct Polled(Vec<(SystemTime, bool)>);

impl Poller {
    pub fn start(timeline: &Arc<Timeline>, port: u16) -> Poller {
        let (stop, stopped) = channel();
        let timeline = Arc::clone(timeline);
        let requests = thread::spawn(move || {
            let mut requests = Vec::new();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(Duration::from_millis(100)) {
                requests.push(Request::send(&timeline, port, "/"));
            }
            requests
        });
        Poller { stop, requests }
    }

    pub fn stop(self) -> Polled {
        drop(self.stop);
        let requests = self.requests.join().expect("a poller");
        Polled(requests.into_iter().map(|request| (request.sent, request.succeeds())).collect())
    }
}

impl Polled {
    /// How many of the requests sent between these two had no answer, and how many there were.
    pub fn failed_between(&self, from: SystemTime, to: SystemTime) -> (usize, usize) {
        let sent: Vec<_> = self.0.iter().filter(|(sent, _)| (from..to).contains(sent)).collect();
        (sent.iter().filter(|(_, ok)| !ok).count(), sent.len())
    }
}

/// Notes whatever is posted to it.
pub struct WebHook {
    pub port: u16,
}

impl WebHook {
    pub fn listen(timeline: &Arc<Timeline>) -> WebHook {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let timeline = Arc::clone(timeline);
        // The thread waits for as long as the tests run; it costs nothing.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                match receive(stream) {
                    Ok(body) => timeline.note(Who::Client, &format!("was told: {body}")),
                    Err(error) => timeline.note(Who::Client, &format!("was told badly: {error}")),
                }
            }
        });
        WebHook { port }
    }
}

fn receive(mut stream: TcpStream) -> io::Result<String> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let headers = read_headers(&mut reader)?;
    let mut body = vec![0; content_length(&headers).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}
