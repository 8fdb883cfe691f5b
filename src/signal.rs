//! Signals as users write them: numbers 1 to 64, names with or without SIG, `RTMIN+n`, `RTMAX-n`; sets; the map.
//!
//! No signal is sent here.

use std::fmt;
use std::str::FromStr;

use nix::sys::signal::Signal as Standard;

/// A signal, 1 to 64. Unlike nix's type it knows the real-time signals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Signal(u8);

impl Signal {
    pub const INT: Signal = Signal(libc::SIGINT as u8);
    pub const KILL: Signal = Signal(libc::SIGKILL as u8);
    pub const TERM: Signal = Signal(libc::SIGTERM as u8);
    pub const CHLD: Signal = Signal(libc::SIGCHLD as u8);
    pub const CONT: Signal = Signal(libc::SIGCONT as u8);
    pub const STOP: Signal = Signal(libc::SIGSTOP as u8);
    /// By this a child of ours tells why it could not exec. Libc keeps the number for its threads, of which there are
    /// none here, so that it is no program's signal.
    pub const EXEC_FAILED: Signal = Signal(33);

    /// The signal of this number, if there is one.
    pub fn new(number: i32) -> Option<Signal> {
        u8::try_from(number).ok().filter(|n| (1..=64).contains(n)).map(Signal)
    }

    /// The number that the kernel knows it by.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// Whether it is one of the two that libc keeps for its threads (nptl(7)): no program's signal.
    pub fn is_reserved(self) -> bool {
        (32..libc::SIGRTMIN()).contains(&self.number())
    }

    /// Whether it is a real-time signal: queued, and able to carry a value (signal(7)).
    pub fn is_real_time(self) -> bool {
        self.number() >= libc::SIGRTMIN()
    }

    /// Whether a process can take it at all: KILL and STOP never reach anybody's code.
    pub fn is_catchable(self) -> bool {
        !matches!(self, Signal::KILL | Signal::STOP)
    }

    /// Whether the kernel raises it for a fault of the running instruction or system call.
    pub fn is_fault(self) -> bool {
        use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
        matches!(self.number(), SIGBUS | SIGFPE | SIGILL | SIGSEGV | SIGSYS | SIGTRAP)
    }
}

/// The name without SIG: `TERM`, `RTMIN+3`, `RTMAX-2`; a number where there is none.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, first, last) = (self.number(), libc::SIGRTMIN(), libc::SIGRTMAX());
        if let Ok(standard) = Standard::try_from(number) {
            return f.write_str(standard.as_str().trim_start_matches("SIG"));
        }
        match number {
            n if n < first => write!(f, "{n}"),
            n if n == first => f.write_str("RTMIN"),
            n if n == last => f.write_str("RTMAX"),
            n if n - first <= last - n => write!(f, "RTMIN+{}", n - first),
            n => write!(f, "RTMAX-{}", last - n),
        }
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Signal, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let signal = if upper.bytes().all(|b| b.is_ascii_digit()) {
            upper.parse().ok().and_then(Signal::new)
        } else if let Some(offset) = name.strip_prefix("RTMIN") {
            real_time(libc::SIGRTMIN(), '+', offset)
        } else if let Some(offset) = name.strip_prefix("RTMAX") {
            real_time(libc::SIGRTMAX(), '-', offset)
        } else {
            let name = match name {
                "CLD" => "CHLD",
                "IOT" => "ABRT",
                "POLL" => "IO",
                name => name,
            };
            Standard::from_str(&format!("SIG{name}")).ok().and_then(|s| Signal::new(s as i32))
        };
        match signal {
            Some(signal) if signal.is_reserved() => Err(format!("signal {signal} belongs to the C library")),
            Some(signal) => Ok(signal),
            None => Err(format!("\"{text}\" is not a signal")),
        }
    }
}

/// `RTMIN`, `RTMIN+n`, `RTMAX`, `RTMAX-n`, within the real-time range.
fn real_time(base: i32, sign: char, offset: &str) -> Option<Signal> {
    let offset = match offset.strip_prefix(sign) {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse::<u8>().ok()?,
        None if offset.is_empty() => 0,
        _ => return None,
    };
    let number = if sign == '+' { base + i32::from(offset) } else { base - i32::from(offset) };
    Signal::new(number).filter(|s| s.is_real_time())
}

/// A set of signals, laid out as the kernel's sigset: bit n-1 stands for signal n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// All 64, those of libc included.
    pub const ALL: SignalSet = SignalSet(u64::MAX);

    pub fn contains(self, signal: Signal) -> bool {
        self.0 & SignalSet::from(signal).0 != 0
    }

    pub fn insert(&mut self, signal: Signal) {
        self.0 |= SignalSet::from(signal).0;
    }

    /// Its members, in order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        (1..=64).filter_map(Signal::new).filter(move |&s| self.contains(s))
    }
}

impl From<Signal> for SignalSet {
    fn from(signal: Signal) -> SignalSet {
        SignalSet(1 << (signal.number() - 1))
    }
}

impl FromIterator<Signal> for SignalSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> SignalSet {
        let mut set = SignalSet::default();
        signals.into_iter().for_each(|s| set.insert(s));
        set
    }
}

impl fmt::Display for SignalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|s| s.to_string()).collect();
        f.write_str(&names.join(","))
    }
}

/// What main gets in place of a signal that reached us: another one, or (`None`) nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SignalMap(Vec<(Signal, Option<Signal>)>);

impl SignalMap {
    /// What to deliver for `signal`; `None` where the map drops it.
    pub fn apply(&self, signal: Signal) -> Option<Signal> {
        self.0.iter().find(|(from, _)| *from == signal).map_or(Some(signal), |(_, to)| *to)
    }
}

impl FromStr for SignalMap {
    type Err = String;

    /// `TERM=QUIT,HUP=`. One entry a signal.
    fn from_str(text: &str) -> Result<SignalMap, String> {
        let mut map = SignalMap::default();
        for entry in text.split(',') {
            let (from, to) = entry.split_once('=').ok_or_else(|| format!("\"{entry}\" has no \"=\""))?;
            let from: Signal = from.trim().parse()?;
            let to = match to.trim() {
                "" => None,
                to => Some(to.parse()?),
            };
            if !from.is_catchable() || from == Signal::CHLD {
                return Err(format!("{from} is never forwarded"));
            }
            if map.0.iter().any(|(earlier, _)| *earlier == from) {
                return Err(format!("{from} is mapped twice"));
            }
            map.0.push((from, to));
        }
        Ok(map)
    }
}

impl fmt::Display for SignalMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self
            .0
            .iter()
            .map(|(from, to)| format!("{from}={}", to.map(|s| s.to_string()).unwrap_or_default()))
            .collect();
        f.write_str(&entries.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_name_that_reads_back_as_itself() {
        for number in (1..=64).filter(|n| !(32..34).contains(n)) {
            let signal = Signal::new(number).expect("1 to 64");
            for text in
                [signal.to_string(), format!("SIG{signal}"), signal.to_string().to_lowercase(), number.to_string()]
            {
                assert_eq!(text.parse(), Ok(signal), "{text}");
            }
        }
    }

    #[test]
    fn names_stand_for_the_numbers_of_libc() {
        let known = [
            ("HUP", libc::SIGHUP),
            ("sigterm", libc::SIGTERM),
            ("Winch", libc::SIGWINCH),
            ("STKFLT", libc::SIGSTKFLT),
            ("PWR", libc::SIGPWR),
            ("POLL", libc::SIGPOLL),
            ("RTMIN", libc::SIGRTMIN()),
            ("RTMIN+3", libc::SIGRTMIN() + 3),
            ("SIGRTMAX-1", libc::SIGRTMAX() - 1),
            ("64", 64),
        ];
        for (name, number) in known {
            assert_eq!(name.parse::<Signal>().map(Signal::number), Ok(number), "{name}");
        }
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in [
            "",
            "0",
            "65",
            "-1",
            "32",
            "33",
            "TERMM",
            "SIGSIGTERM",
            "RTMIN+31",
            "RTMIN-1",
            "RTMAX-31",
            "RTMIN+",
            "+1",
            "9 ",
        ] {
            assert!(text.parse::<Signal>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_map_replaces_and_drops() {
        let map: SignalMap = "TERM=QUIT, hup=,RTMIN+1=10".parse().expect("valid");
        assert_eq!(map.apply(Signal::TERM), Signal::new(libc::SIGQUIT));
        assert_eq!(map.apply(Signal(1)), None);
        assert_eq!(map.apply(Signal::INT), Some(Signal::INT));
        assert_eq!(map.to_string(), "TERM=QUIT,HUP=,RTMIN+1=USR1");
        for text in ["TERM", "TERM=NOPE", "=TERM", "KILL=TERM", "CHLD=", "HUP=USR1,HUP=", ""] {
            assert!(text.parse::<SignalMap>().is_err(), "{text:?}");
        }
    }
}
