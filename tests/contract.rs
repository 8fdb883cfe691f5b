//! What any init owes to the program it starts. Runs against outro, or with `INIT_UNDER_TEST` against tini,
//! tini-static, dumb-init or catatonit, whose known failures are listed in [`KNOWN_FAILURES`].

mod entry;
mod exit_code;
mod inheritance;
mod reaping;
mod signals;

use std::any::type_name;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::harness::{Start, expecting_failure};

/// An init under test: how it is called, and which flags choose who gets the signals.
struct Init {
    name: &'static str,
    to_main_alone: &'static [&'static str],
    to_the_group: &'static [&'static str],
    as_subreaper: &'static [&'static str],
}

const INITS: [Init; 5] = [
    Init { name: "outro", to_main_alone: &[], to_the_group: &["-g"], as_subreaper: &[] },
    Init { name: "tini", to_main_alone: &[], to_the_group: &["-g"], as_subreaper: &["-s"] },
    Init { name: "tini-static", to_main_alone: &[], to_the_group: &["-g"], as_subreaper: &["-s"] },
    Init { name: "dumb-init", to_main_alone: &["-c"], to_the_group: &[], as_subreaper: &["-c"] },
    Init { name: "catatonit", to_main_alone: &[], to_the_group: &["-g"], as_subreaper: &[] },
];

/// Inits, a test that they fail, and the reason. A peer that passes one of these fails the test: the list must be true.
const KNOWN_FAILURES: &[(&[&str], &str, &str)] = &[];

fn init() -> &'static Init {
    let wanted = env::var("INIT_UNDER_TEST").unwrap_or_else(|_| "outro".into());
    INITS.iter().find(|init| init.name == wanted).unwrap_or_else(|| panic!("INIT_UNDER_TEST={wanted} is unknown"))
}

impl Init {
    fn bare(&self) -> Start {
        if self.name == "outro" { Start::outro() } else { Start::of(format!("/usr/bin/{}", self.name)) }
    }
}

/// The init under test as process 1, signalling main alone.
fn pid1() -> Start {
    init().bare().options(init().to_main_alone)
}

/// The init under test as an ordinary process.
fn ordinary() -> Start {
    init().bare().as_ordinary_process().options(init().as_subreaper)
}

fn signalling_the_group() -> Start {
    init().bare().options(init().to_the_group)
}

/// Judges one promise of the contract, known by the name of the test function that calls this.
fn promise<F: FnOnce()>(body: F) {
    let init = init().name;
    let test = type_name::<F>().trim_end_matches("::{{closure}}").rsplit("::").next().unwrap();
    let known = KNOWN_FAILURES.iter().find(|(inits, name, _)| inits.contains(&init) && *name == test);
    match known {
        None => body(),
        Some((_, _, reason)) => {
            let outcome = expecting_failure(|| catch_unwind(AssertUnwindSafe(body)));
            assert!(outcome.is_err(), "{init} unexpectedly passes; it was listed because: {reason}");
        }
    }
}
