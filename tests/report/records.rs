//! The record of each cause, to the letter.

use super::{File, POLITE, ready, record};
use crate::harness::{Running, Start, everywhere};

/// A record with `T` for what was measured, and `N` for what depends on the machine.
fn without_measures(record: &str) -> String {
    let mut text = record.to_owned();
    for key in ["uptime_s", "used_s", "s"] {
        text = replace_numbers(&text, &format!("\"{key}\":"), "T");
    }
    text = replace_numbers(&text, "\"delay_s\":0.", "T");
    text = replace_numbers(&text, "\"oom_kills\":", "N").replace("\"oom_kills\":null", "\"oom_kills\":N");
    // In the sentence tenths are measured, and whole seconds were configured.
    for words in [" after ", "drain ok ", " on its own "] {
        text = replace_numbers(&text, words, "T");
    }
    text
}

/// Puts `sign` in the place of every number that follows `before`.
fn replace_numbers(text: &str, before: &str, sign: &str) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        text + before + if rest.len() < part.len() { sign } else { "" } + rest
    })
}

/// A run that leaves this record, wherever it takes place.
fn leaves(story: impl Fn(Start) -> Running + Sync, expected: &str) {
    everywhere(|start| {
        let file = File::new();
        let finished = story(file.for_report_of(start)).finish();
        let text = file.text();
        assert_eq!(without_measures(text.trim_end_matches('\n')), expected);
        let exit = record(&text)["exit"].as_i64();
        assert_eq!(exit, Some(finished.code.into()), "the code in the record is the one we end with");
        let last = finished.stderr.lines().last().unwrap_or_default();
        let sentence = record(&text)["msg"].as_str().unwrap().to_owned();
        assert!(last.starts_with("outro: ") && last.ends_with(&sentence), "{last}");
    });
}

/// Asks main to stop when it is ready.
fn stopping(start: Start, words: &str) -> Running {
    let mut init = ready(start, words);
    init.signal(libc::SIGTERM);
    init
}

const A_SECOND: [&str; 4] = ["--grace", "11", "--margin", "10"];
const A_DAY: [&str; 2] = ["--grace", "24h"];

#[test]
fn stop() {
    leaves(
        |start| {
            let start = start.options(&["--grace", "30", "--drain", "true", "--exit-on-stop", "143"]);
            stopping(start, "name main echo 15 exit 0")
        },
        concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after Ts; drain ok Ts; app exited 0 after Ts of 28s","#,
            r#""cause":"stop","final":true,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":30,"budget_s":28,"used_s":T,"delay_s":0,"drain":{"exit":0,"s":T,"timeout":false},"#,
            r#""child":{"exit":0,"s":T},"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":143}"#
        ),
    );
}

#[test]
fn stop_without_a_grace() {
    leaves(
        |start| stopping(start, "name main echo 15 die 15"),
        concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after Ts; app was killed by SIGTERM after Ts","#,
            r#""cause":"stop","final":true,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":null,"budget_s":null,"used_s":T,"delay_s":0,"drain":null,"#,
            r#""child":{"signal":"TERM","s":T},"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":143}"#
        ),
    );
}

#[test]
fn stop_with_a_delay_that_main_cuts_short() {
    leaves(
        |start| {
            let mut init = stopping(start.options(&["--delay", "1h"]), "name main echo 10 nap 20 exit 7");
            init.wait_until_idle();
            init.signal(libc::SIGTERM);
            init.wait_until_idle();
            init.signal(libc::SIGUSR1);
            init
        },
        concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after Ts; delay 3600s cut short after Ts; "#,
            r#"app exited 7 on its own Ts after that","#,
            r#""cause":"stop","final":true,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":null,"budget_s":null,"used_s":T,"delay_s":0.T,"drain":null,"#,
            r#""child":{"exit":7,"s":T},"stragglers":[],"killed":0,"repeats":1,"oom_kills":N,"exit":7}"#
        ),
    );
}

#[test]
fn stop_after_mains_end() {
    leaves(
        |start| {
            let words = "orphan [ session name orphan echo 15 echo 10 ] name main echo 10 exit 0";
            let mut init = ready(start.options(&A_DAY), words);
            init.wait_for_stdout("orphan: ready\n");
            init.signal(libc::SIGUSR1);
            init.wait_for_stdout("orphan: got 15");
            init.signal(libc::SIGTERM);
            init.wait_for_stderr("SIGTERM from outside");
            init.init().children()[0].signal(libc::SIGUSR1);
            init
        },
        concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after Ts; app exited 0 before that, after Ts","#,
            r#""cause":"stop","final":true,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":86400,"budget_s":86398,"used_s":T,"delay_s":0,"drain":null,"#,
            r#""child":{"exit":0,"s":T},"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":0}"#
        ),
    );
}

#[test]
fn deadline() {
    leaves(
        |start| stopping(start.options(&A_SECOND), "name main echo 0"),
        concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after Ts; "#,
            r#"app did not end within 1s and was killed, before the platform would have done so at 11s","#,
            r#""cause":"deadline","final":true,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":11,"budget_s":1,"used_s":T,"delay_s":0,"drain":null,"#,
            r#""child":{"signal":"KILL","s":T},"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":124}"#
        ),
    );
}

#[test]
fn user_kill() {
    leaves(
        |start| {
            let mut init = ready(start.options(&A_DAY), "name main echo 0");
            for times in 1..=3 {
                init.signal(libc::SIGINT);
                init.wait_until("an echo or the end", |init| {
                    init.has_ended() || init.stdout().matches("got 2 ").count() >= times
                });
            }
            init
        },
        concat!(
            r#"{"outro":1,"msg":"SIGINT from outside the container after Ts; "#,
            r#"everything left was killed at once, at the third SIGINT","#,
            r#""cause":"user-kill","final":true,"signal":"INT","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":86400,"budget_s":86398,"used_s":T,"delay_s":0,"drain":null,"#,
            r#""child":{"signal":"KILL","s":T},"stragglers":[],"killed":0,"repeats":2,"oom_kills":N,"exit":130}"#
        ),
    );
}

#[test]
fn child_exit_with_stragglers() {
    leaves(
        |start| {
            let words = "orphan [ session name main echo 0 ] name main echo 10 exit 7";
            let mut init = start.options(&["--linger", "100ms"]).main(words).spawn();
            init.wait_until("both to be ready", |init| init.stdout().matches("main: ready\n").count() == 2);
            init.signal(libc::SIGUSR1);
            init
        },
        concat!(
            r#"{"outro":1,"msg":"app exited 7 after Ts; 1 other process did not end and had to be killed (actor)","#,
            r#""cause":"child-exit","final":true,"signal":null,"from":null,"uptime_s":T,"#,
            r#""grace_s":null,"budget_s":null,"used_s":null,"delay_s":0,"drain":null,"#,
            r#""child":{"exit":7,"s":T},"stragglers":["actor"],"killed":1,"repeats":0,"oom_kills":N,"exit":7}"#
        ),
    );
}

#[test]
fn child_signal() {
    leaves(
        |start| start.options(&A_DAY).main("die 11").spawn(),
        concat!(
            r#"{"outro":1,"msg":"app was killed by SIGSEGV after Ts","#,
            r#""cause":"child-signal","final":true,"signal":null,"from":null,"uptime_s":T,"#,
            r#""grace_s":86400,"budget_s":86398,"used_s":null,"delay_s":0,"drain":null,"#,
            r#""child":{"signal":"SEGV","s":T},"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":139}"#
        ),
    );
}

#[test]
fn child_signal_from_a_killer() {
    leaves(
        |start| {
            let mut init = ready(start, POLITE);
            init.main().signal(libc::SIGKILL);
            init
        },
        concat!(
            r#"{"outro":1,"msg":"app was killed by SIGKILL after Ts (outro did not send it)","#,
            r#""cause":"child-signal","final":true,"signal":null,"from":null,"uptime_s":T,"#,
            r#""grace_s":null,"budget_s":null,"used_s":null,"delay_s":0,"drain":null,"#,
            r#""child":{"signal":"KILL","s":T},"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":137}"#
        ),
    );
}

#[test]
fn exec_error() {
    leaves(
        |start| start.command(&["/nonexistent/app", "now"]).spawn(),
        concat!(
            r#"{"outro":1,"msg":"cannot run /nonexistent/app: No such file or directory","#,
            r#""cause":"exec-error","final":true,"signal":null,"from":null,"uptime_s":T,"#,
            r#""grace_s":null,"budget_s":null,"used_s":null,"delay_s":0,"drain":null,"#,
            r#""child":null,"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":127}"#
        ),
    );
}

/// Each fault has its own line in the log, so the record is not compared with the last.
#[test]
fn config_error() {
    everywhere(|start| {
        let file = File::new();
        let start = file.for_report_of(start.options(&["--grace", "soon", "--delay", "1d"]));
        assert_eq!(start.main("say started").run().code, 125);
        let expected = concat!(
            r#"{"outro":1,"msg":"the app was not started: --grace=soon: not a duration (example: --grace=30); "#,
            r#"--delay=1d: not a duration (example: --delay=10s)","#,
            r#""cause":"config-error","final":true,"signal":null,"from":null,"uptime_s":T,"#,
            r#""grace_s":null,"budget_s":null,"used_s":null,"delay_s":0,"drain":null,"#,
            r#""child":null,"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":125}"#,
            "\n"
        );
        assert_eq!(without_measures(&file.text()), expected);
    });
}

#[test]
fn stop_before_start() {
    let file = File::new();
    let start = file.for_report_of(Start::outro().options(&A_SECOND)).main("say started");
    // Its first instructions have blocked every signal.
    let init = start.spawn_after_instructions(40, |init| init.signal(libc::SIGTERM));
    assert_eq!(init.finish().code, 143);
    let expected = concat!(
        r#"{"outro":1,"msg":"SIGTERM from outside the container before the app was started; it was not started","#,
        r#""cause":"stop-before-start","final":true,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"#,
        r#""uptime_s":T,"grace_s":11,"budget_s":1,"used_s":null,"delay_s":0,"drain":null,"#,
        r#""child":null,"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":143}"#,
        "\n"
    );
    assert_eq!(without_measures(&file.text()), expected);
}

#[test]
fn an_early_death_leaves_the_provisional_record() {
    everywhere(|start| {
        let file = File::new();
        let start = file.for_report_of(start.options(&["--grace", "24h", "--delay", "1h"]));
        let mut init = stopping(start, POLITE);
        file.wait_for_provisional(&mut init);
        init.signal(libc::SIGKILL);
        let finished = init.finish();
        assert_ne!(finished.code, 0);
        let expected = concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after Ts; stopping, own deadline in 86398s "#,
            r#"(if this is the last record, the platform killed us earlier than OUTRO_GRACE says)","#,
            r#""cause":"stop","final":false,"signal":"TERM","from":{"where":"outside","pid":0,"uid":0},"uptime_s":T,"#,
            r#""grace_s":86400,"budget_s":86398,"used_s":T,"delay_s":3600,"drain":null,"#,
            r#""child":null,"stragglers":[],"killed":0,"repeats":0,"oom_kills":N,"exit":null}"#
        );
        assert_eq!(without_measures(file.text().trim_end_matches('\n')), expected);
        record(&file.text());
    });
}

#[test]
fn a_drain_is_told_of_as_it_went() {
    let drains = [
        ("sh -c 'exit 3'", "10s", r#""drain":{"exit":3,"s":T,"timeout":false}"#),
        ("sh -c 'kill -9 $$'", "10s", r#""drain":{"signal":"KILL","s":T,"timeout":false}"#),
        ("sleep 1000", "300ms", r#""timeout":true}"#),
        (
            "/nonexistent",
            "10s",
            r#""drain":{"error":"cannot run /nonexistent: No such file or directory","s":T,"timeout":false}"#,
        ),
    ];
    for (drain, limit, expected) in drains {
        let file = File::new();
        let start = file.for_report_of(Start::outro().options(&["--drain", drain, "--drain-timeout", limit]));
        super::stopped(start, POLITE);
        let text = without_measures(&file.text());
        assert!(text.contains(expected), "{drain}: {text}");
        record(&file.text());
    }
}
