//! The log of a stop: the order of its lines, and their keys in JSON.

use std::fs;

use serde_json::Value;

use super::{File, POLITE, stopped};
use crate::harness::{Start, everywhere, lacks};

#[test]
fn the_first_line_comes_before_anything_the_drain_says() {
    everywhere(|start| {
        let start = start.options(&["--grace", "20"]).env("OUTRO_DRAIN", "sh -c 'echo drained >&2'");
        let said = stopped(start, POLITE).stderr;
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("outro: SIGTERM from outside the container (pid 0) after "), "{said}");
        assert!(lines[0].contains("18s budget"), "{said}");
        assert_eq!(lines[1], "drained");
        assert!(lines[2].contains("the drain command exited 0"), "{said}");
        assert_eq!(lines[3], "outro: SIGTERM to the app");
        assert!(lines[4].contains("the app exited 7"), "{said}");
        assert!(lines[5].contains("app exited 7 after ") && lines.len() == 6, "{said}");
    });
}

#[test]
fn events_in_json_have_stable_keys() {
    everywhere(|start| {
        let said = stopped(start.options(&["--grace", "20", "--log", "json"]), POLITE).stderr;
        let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let event = |name: &str| lines.iter().find(|line| line["event"] == name).unwrap_or_else(|| panic!("{said}"));
        let keys = |name: &str| event(name).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("stop"), ["time_ms", "level", "event", "msg", "signal", "from", "pid", "uid", "uptime_ms"]);
        assert_eq!(keys("end"), ["time_ms", "level", "event", "msg", "cause", "exit"]);
        let stop = event("stop");
        assert_eq!((&stop["signal"], &stop["from"]), (&"TERM".into(), &"outside".into()));
        let end = event("end");
        assert_eq!((&end["cause"], &end["exit"]), (&"stop".into(), &7.into()));
        assert_eq!((lines.first(), lines.last()), (Some(stop), Some(end)));
    });
}

/// All that follows the first line may never happen if the platform gives less time than it said. So the order is the
/// one of importance: log, drain, drain file, main's signal, report.
#[test]
fn at_the_stop_things_are_done_in_their_order() {
    if lacks("strace") {
        return;
    }
    let orders: [(&[&str], &[&str]); 2] = [
        (&["--drain", "sleep 1000", "--drain-timeout", "100ms"], &["clone", "/draining\"", "/report\""]),
        (&[], &["/draining\"", "kill(", "/report\""]),
    ];
    for (options, order) in orders {
        let file = File::new();
        let (trace, marker) = (file.scratch.join("trace"), file.scratch.join("draining"));
        let calls = "-etrace=write,pwritev2,clone,clone3,vfork,fork,open,openat,kill";
        let strace = ["strace", "-o", trace.to_str().unwrap(), calls];
        let start = file.for_report_of(Start::outro().below(&strace, 1)).env("OUTRO_DRAIN_FILE", &marker);
        assert_eq!(stopped(start.options(options), POLITE).code, 7);
        let trace = fs::read_to_string(trace).unwrap();
        let (_, after_the_log) = trace.split_once("SIGTERM from outside").unwrap_or_else(|| panic!("{trace}"));
        let positions: Vec<_> = order.iter().map(|words| after_the_log.find(words)).collect();
        assert!(positions[0].is_some() && positions.is_sorted(), "{order:?}:\n{after_the_log}");
    }
}
