//! The log: lines on stderr that never block, never kill, and never change what is shared with the application.
//!
//! A line that stderr does not take at once is dropped and counted; the next line that goes through is preceded by
//! the count. SIGPIPE is blocked with all other signals, so a broken pipe is only an error code.

use std::fmt;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use log::kv::{self, VisitSource};
use log::{Level, LevelFilter, Record};
use serde_json::{Map, Value, json};

use crate::sys;
use crate::values::milliseconds;

/// The longest line: what a pipe takes whole or not at all (PIPE_BUF, pipe(7)).
const LONGEST_LINE: usize = libc::PIPE_BUF;

/// OUTRO_LOG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// `None`: nothing is logged.
    pub format: Option<Format>,
    pub level: LevelFilter,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Text,
    Json,
}

/// As OUTRO_LOG spells it.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.as_str().to_ascii_lowercase();
        match self.format {
            Some(Format::Text) => write!(f, "text,{level}"),
            Some(Format::Json) => write!(f, "json,{level}"),
            None => f.write_str("off"),
        }
    }
}

/// Starts logging. Called once; until then nothing is logged.
///
/// A stderr that was closed at our start stays unused: its number may become that of a file of ours.
pub fn init(config: Config) {
    let Some(format) = config.format.filter(|_| sys::is_open(libc::STDERR_FILENO)) else {
        return;
    };
    let writer = Stderr { format, dropped: 0 };
    let logger = env_logger::Builder::new()
        .filter_level(config.level)
        .format(move |buffer, record| buffer.write_all(&line(format, record)))
        .target(env_logger::Target::Pipe(Box::new(writer)))
        .try_init();
    // It fails only if there is a logger already, which then logs.
    drop(logger);
}

/// One record as one line, newline included, at most `LONGEST_LINE` bytes.
fn line(format: Format, record: &Record<'_>) -> Vec<u8> {
    let text = match format {
        Format::Text => {
            let prefix = match record.level() {
                Level::Error => "error: ",
                Level::Warn => "warning: ",
                Level::Info | Level::Debug | Level::Trace => "",
            };
            // One line a record, whatever a name or a value holds.
            let message = record.args().to_string().replace(|c: char| c.is_control(), " ");
            format!("outro: {prefix}{message}")
        }
        Format::Json => json_line(record),
    };
    finish(text)
}

/// An object with stable keys: `time_ms`, `level`, `event`, `msg`, then the facts of the event.
fn json_line(record: &Record<'_>) -> String {
    let message = record.args().to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut object = Map::new();
    object.insert("time_ms".into(), json!(milliseconds(now)));
    object.insert("level".into(), json!(record.level().as_str().to_ascii_lowercase()));
    object.insert("event".into(), json!(event(record)));
    object.insert("msg".into(), json!(message));
    let mut facts = Facts(object);
    // The visitor never fails.
    let _ = record.key_values().visit(&mut facts);
    let mut object = facts.0;
    let mut text = Value::Object(object.clone()).to_string();
    // Facts first, then the end of the sentence: the line stays an object.
    if text.len() >= LONGEST_LINE {
        object.retain(|key, _| ["time_ms", "level", "event"].contains(&key.as_str()));
        let short: String = message.chars().take(LONGEST_LINE / 16).collect();
        object.insert("msg".into(), json!(short));
        text = Value::Object(object).to_string();
    }
    text
}

/// What a record is about: the target its author gave it, or just a message.
fn event<'a>(record: &'a Record<'_>) -> &'a str {
    let target = record.target();
    if target.starts_with("outro") { "message" } else { target }
}

struct Facts(Map<String, Value>);

impl<'kvs> VisitSource<'kvs> for Facts {
    fn visit_pair(&mut self, key: kv::Key<'kvs>, value: kv::Value<'kvs>) -> Result<(), kv::Error> {
        // Facts are words and whole numbers.
        let value = match (value.to_borrowed_str(), value.to_i64()) {
            (Some(word), _) => json!(word),
            (None, number) => json!(number),
        };
        self.0.insert(key.as_str().into(), value);
        Ok(())
    }
}

fn finish(mut text: String) -> Vec<u8> {
    if text.len() >= LONGEST_LINE {
        let end = text.floor_char_boundary(LONGEST_LINE - 1);
        text.truncate(end);
    }
    text.push('\n');
    text.into_bytes()
}

/// Where the lines go.
struct Stderr {
    format: Format,
    /// Lines that were not taken since the last one that was.
    dropped: u32,
}

impl Stderr {
    fn put(&mut self, line: &[u8]) -> bool {
        sys::write_nonblocking(sys::STDERR, line) == line.len()
    }
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.dropped > 0 {
            let mut notice = Record::builder();
            let notice = notice.level(Level::Warn).target("dropped");
            let dropped = self.dropped;
            let notice = self::line(
                self.format,
                &notice.args(format_args!("{dropped} lines of the log were dropped: stderr took no more")).build(),
            );
            if self.put(&notice) {
                self.dropped = 0;
            }
        }
        if self.dropped > 0 || !self.put(line) {
            self.dropped = self.dropped.saturating_add(1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
