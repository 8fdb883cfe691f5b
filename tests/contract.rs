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
const KNOWN_FAILURES: &[(&[&str], &str, &str)] = &[
    (TINI, "a_signal_that_may_not_be_forwarded_is_not_the_end", "ends when a forward fails"),
    (TINI, "an_idle_init_does_not_wake_up", "wakes up every second"),
    (TINI, "closed_standard_descriptors_stay_closed_and_do_not_hinder", "a closed stdin is fatal"),
    (TINI, "no_dev_is_needed", "a closed stdin is fatal"),
    (TINI, "main_finds_every_signal_as_the_init_found_it", "takes 32 and 33 out of the mask"),
    (TINI, "any_other_reason_not_to_execute_gives_126", "gives 1 but for ENOENT and EACCES"),
    (TINI, "every_signal_reaches_main_exactly_once", KEEPS_FAULTS),
    (TINI, "every_signal_reaches_main_exactly_once_below_an_ordinary_process", KEEPS_FAULTS),
    (TINI, "every_signal_reaches_the_group_exactly_once", KEEPS_FAULTS),
    (TINI, "the_init_keeps_no_descriptor_that_it_inherited", KEEPS_DESCRIPTORS),
    (DUMB_INIT, "the_init_keeps_no_descriptor_that_it_inherited", KEEPS_DESCRIPTORS),
    (DUMB_INIT, "main_finds_every_signal_as_the_init_found_it", "resets masks and dispositions"),
    (DUMB_INIT, "main_finds_sigchld_ignored_if_the_init_found_it_so", "resets masks and dispositions"),
    (DUMB_INIT, "main_leads_a_group_of_its_own_in_the_inits_session", "makes no group with -c"),
    (DUMB_INIT, "an_orphan_that_lives_on_is_adopted", "is no subreaper"),
    (DUMB_INIT, "a_signal_that_is_pending_at_entry_reaches_main", "loses what is pending at entry"),
    (DUMB_INIT, "every_signal_reaches_main_exactly_once_below_an_ordinary_process", STOPS_ITSELF),
    (DUMB_INIT, "every_signal_reaches_the_group_exactly_once", STOPS_ITSELF),
    (CATATONIT, "main_finds_every_signal_as_the_init_found_it", "leaves job control signals blocked"),
    (CATATONIT, "every_signal_reaches_main_exactly_once", KEEPS_FAULTS),
    (CATATONIT, "every_signal_reaches_main_exactly_once_below_an_ordinary_process", KEEPS_FAULTS),
    (CATATONIT, "every_signal_reaches_the_group_exactly_once", KEEPS_FAULTS),
    (CATATONIT, "listen_pid_of_another_process_is_left_alone", "reads a number with letters behind it"),
    (TINI_AND_CATATONIT, "options_of_the_command_are_not_the_inits", "looks for options behind the command"),
    (TINI_AND_CATATONIT, "the_code_arrives_when_sigchld_was_ignored_at_entry", "waits for ever for SIGCHLD"),
    (TINI_AND_CATATONIT, "main_finds_sigchld_ignored_if_the_init_found_it_so", "waits for ever for SIGCHLD"),
    (TINI_AND_CATATONIT, "a_signal_before_the_group_exists_is_not_lost", "the child alone makes its group"),
    (TINI_AND_CATATONIT, "the_init_leaves_the_directory_and_main_stays_in_it", "stays in its directory"),
    (TINI_AND_DUMB_INIT, "listen_pid_follows_the_program_it_is_meant_for", "does not know LISTEN_PID"),
    (DUMB_INIT_AND_CATATONIT, "a_program_that_is_not_found_gives_127", HAS_ONE_CODE),
    (DUMB_INIT_AND_CATATONIT, "a_program_without_its_interpreter_gives_127", HAS_ONE_CODE),
    (DUMB_INIT_AND_CATATONIT, "a_file_that_may_not_be_executed_gives_126", HAS_ONE_CODE),
    (DUMB_INIT_AND_CATATONIT, "a_file_without_permission_does_not_end_the_search_in_path", HAS_ONE_CODE),
    (DUMB_INIT_AND_CATATONIT, "any_other_reason_not_to_execute_gives_126", HAS_ONE_CODE),
    (ALL_PEERS, "a_real_time_signal_keeps_its_value", "forwards with kill, which has no value"),
    (ALL_PEERS, "every_signal_is_blocked_within_the_first_instructions", "blocks signals in main"),
];

const TINI: &[&str] = &["tini", "tini-static"];
const DUMB_INIT: &[&str] = &["dumb-init"];
const CATATONIT: &[&str] = &["catatonit"];
const TINI_AND_CATATONIT: &[&str] = &["tini", "tini-static", "catatonit"];
const TINI_AND_DUMB_INIT: &[&str] = &["tini", "tini-static", "dumb-init"];
const DUMB_INIT_AND_CATATONIT: &[&str] = &["dumb-init", "catatonit"];
const ALL_PEERS: &[&str] = &["tini", "tini-static", "dumb-init", "catatonit"];

const KEEPS_FAULTS: &str = "does not forward signals that can be faults";
const KEEPS_DESCRIPTORS: &str = "keeps every descriptor open";
const STOPS_ITSELF: &str = "stops itself at job control signals";
const HAS_ONE_CODE: &str = "has one exit code for every failure";

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
    init().bare().not_as_pid1().options(init().as_subreaper)
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
