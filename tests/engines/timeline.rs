//! One story, told by everybody who saw it: the engine, outro, the application and its clients.
//!
//! A test waits for what it needs to see, asserts the order, and leaves the whole story under `target/timelines/`.

use super::engine::target;
use std::fmt::{self, Write as _};
use std::fs;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nothing here takes that long. Whoever waits longer waits for something that will not come.
const WATCHDOG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The test itself, in the part of whoever stops containers.
    Platform,
    Engine,
    Outro,
    App,
    Client,
    Report,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub at: SystemTime,
    pub who: Who,
    pub text: String,
}

#[derive(Default)]
pub struct Timeline {
    entries: Mutex<Vec<Entry>>,
    grown: Condvar,
}

impl Timeline {
    pub fn note(&self, who: Who, text: &str) {
        self.note_at(SystemTime::now(), who, text);
    }

    pub fn note_at(&self, at: SystemTime, who: Who, text: &str) {
        self.entries.lock().unwrap().push(Entry { at, who, text: text.to_owned() });
        self.grown.notify_all();
    }

    /// Waits until somebody says this.
    pub fn wait_for(&self, who: Who, text: &str) -> Entry {
        self.wait_for_several(1, who, text)
    }

    /// Waits until somebody has said this that many times.
    pub fn wait_for_several(&self, times: usize, who: Who, text: &str) -> Entry {
        let patience = Instant::now() + WATCHDOG;
        let mut entries = self.entries.lock().unwrap();
        loop {
            if let Some(entry) = entries.iter().filter(|entry| entry.is(who, text)).nth(times - 1) {
                return entry.clone();
            }
            let Some(left) = patience.checked_duration_since(Instant::now()) else {
                break;
            };
            entries = self.grown.wait_timeout(entries, left).unwrap().0;
        }
        drop(entries);
        panic!("{who:?} did not say {text:?}:\n{self}");
    }

    pub fn count(&self, who: Who, text: &str) -> usize {
        self.entries.lock().unwrap().iter().filter(|entry| entry.is(who, text)).count()
    }

    /// All that one of them said, a line each.
    pub fn told_by(&self, who: Who) -> String {
        self.sorted().iter().filter(|entry| entry.who == who).map(|entry| entry.text.clone() + "\n").collect()
    }

    /// The first time somebody said this. They must have.
    #[track_caller]
    pub fn get(&self, who: Who, text: &str) -> Entry {
        let entry = self.sorted().into_iter().find(|entry| entry.is(who, text));
        entry.unwrap_or_else(|| panic!("{who:?} did not say {text:?}:\n{self}"))
    }

    /// Seconds from T0 to the first time somebody said this.
    #[track_caller]
    pub fn time_of(&self, who: Who, text: &str) -> f64 {
        seconds_between(self.t0(), self.get(who, text).at)
    }

    /// Asserts that these were said in this order; others may have spoken in between.
    #[track_caller]
    pub fn assert_order(&self, expected: &[(Who, &str)]) {
        let mut told = self.sorted().into_iter();
        for (who, text) in expected {
            assert!(
                told.any(|entry| entry.is(*who, text)),
                "{who:?}: {text:?} is missing, or not in its place:\n{self}"
            );
        }
    }

    /// Prints the story and keeps it as `target/timelines/NAME.txt`.
    pub fn publish(&self, name: &str) {
        let directory = target().join("timelines");
        fs::create_dir_all(&directory).expect("a directory below target/");
        let story = format!("{name}\n{self}");
        println!("{story}");
        fs::write(directory.join(name.replace(' ', "_") + ".txt"), story).expect("a file below target/");
    }

    /// The first stop signal, as outro or the engine noted it; if there was none, the first word.
    fn t0(&self) -> SystemTime {
        let entries = self.sorted();
        let stop = entries.iter().find(|entry| entry.is(Who::Outro, ": SIG") || entry.is(Who::Engine, "kill"));
        stop.or(entries.first()).map_or(UNIX_EPOCH, |entry| entry.at)
    }

    fn sorted(&self) -> Vec<Entry> {
        let mut entries = self.entries.lock().unwrap().clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

impl Entry {
    fn is(&self, who: Who, text: &str) -> bool {
        self.who == who && self.text.contains(text)
    }
}

impl fmt::Display for Timeline {
    /// Equal lines in a row, such as a poller's, are one line and a number.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let t0 = self.t0();
        let mut story = String::new();
        for same in self.sorted().chunk_by(|a, b| a.who == b.who && a.text == b.text) {
            let Entry { at, who, text } = &same[0];
            write!(story, "{:+9.3}  {:<7} {text}", seconds_between(t0, *at), format!("{who:?}").to_lowercase())?;
            match same {
                [_, .., last] => {
                    writeln!(story, "  ({} times, until {:+.3})", same.len(), seconds_between(t0, last.at))?;
                }
                _ => writeln!(story)?,
            }
        }
        f.write_str(&story)
    }
}

fn seconds_between(from: SystemTime, to: SystemTime) -> f64 {
    to.duration_since(from).map_or_else(|early| -early.duration().as_secs_f64(), |late| late.as_secs_f64())
}

/// `2026-11-30T10:12:14.361592169Z`, as the engine stamps log lines.
pub fn parse_stamp(stamp: &str) -> Option<SystemTime> {
    let (date, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.splitn(3, ':').map(str::parse::<f64>);
    let (hours, minutes, seconds) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    // Days since 1970-03-01 in years that begin in March, then back to January.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some(
        UNIX_EPOCH
            + Duration::from_secs(days * 86_400)
            + Duration::from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds),
    )
}

#[test]
fn a_log_stamp_is_read_to_the_millisecond() {
    let at = parse_stamp("2026-11-30T10:12:14.250000000Z").expect("a time").duration_since(UNIX_EPOCH).expect("later");
    assert_eq!(at.as_millis(), 1_796_033_534_250);
    assert_eq!(parse_stamp("2024-02-29T00:00:00Z"), Some(UNIX_EPOCH + Duration::from_secs(1_709_164_800)));
}
