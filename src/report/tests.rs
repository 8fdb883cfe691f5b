//! The sentences of all causes, and records of every size.

use super::*;

fn stop(origin: Origin) -> Stop {
    let signal = Signal::TERM;
    Stop { signal, from: Sender { origin, pid: 0, uid: 0, name: None } }
}

fn seconds_of(tenths: u64) -> Duration {
    Duration::from_millis(tenths * 100)
}

/// The example of the specification: a job that was stopped, drained, and ended by itself.
fn stopped() -> Facts {
    Facts {
        stop: Some(stop(Origin::Outside)),
        grace: Some(Grace { total: seconds_of(300), margin: seconds_of(20) }),
        used: Some(seconds_of(35)),
        drain: Some(Drain {
            result: DrainResult::Ended(ExitStatus::from_raw(0)),
            took: seconds_of(4),
            timed_out: false,
        }),
        main: Some(Main {
            status: Some(ExitStatus::from_raw(0)),
            took: seconds_of(31),
            unasked: false,
            killed_by_us: false,
            before_stop: false,
        }),
        oom_kills: Some(0),
        exit: 143,
        ..Facts::new(Cause::Stop, seconds_of(112))
    }
}

#[test]
fn a_record_has_the_sentence_in_front_and_all_keys_in_their_order() {
    assert_eq!(
        stopped().record(true),
        concat!(
            r#"{"outro":1,"msg":"SIGTERM from outside the container after 11.2s; drain ok 0.4s; "#,
            r#"app exited 0 after 3.1s of 28s","cause":"stop","final":true,"signal":"TERM","#,
            r#""from":{"where":"outside","pid":0,"uid":0},"uptime_s":11.2,"grace_s":30,"budget_s":28,"used_s":3.5,"#,
            r#""delay_s":0,"drain":{"exit":0,"s":0.4,"timeout":false},"child":{"exit":0,"s":3.1},"stragglers":[],"#,
            r#""killed":0,"repeats":0,"oom_kills":0,"exit":143}"#
        )
    );
}

#[test]
fn the_provisional_record_says_what_it_means_if_it_is_the_last() {
    let record: Value = serde_json::from_str(&stopped().record(false)).expect("JSON");
    assert_eq!((&record["final"], &record["exit"]), (&json!(false), &Value::Null));
    assert_eq!(
        record["msg"],
        "SIGTERM from outside the container after 11.2s; stopping, own deadline in 28s (if this is the last record, the \
         platform killed us earlier than OUTRO_GRACE says)"
    );
    let without = Facts { grace: None, ..stopped() };
    assert!(without.provisional_sentence().contains("no own deadline"));
}

#[test]
fn every_cause_has_a_sentence() {
    let main = |status| {
        let status = Some(ExitStatus::from_raw(status));
        Some(Main { status, took: seconds_of(120), unasked: true, killed_by_us: false, before_stop: false })
    };
    let no_stop = |cause| Facts { stop: None, drain: None, ..Facts { cause, ..stopped() } };
    let cases = [
        (
            Facts { cause: Cause::Deadline, ..stopped() },
            "SIGTERM from outside the container after 11.2s; drain ok 0.4s; app did not end within 28s and was killed, \
             before the platform would have done so at 30s",
        ),
        (
            Facts { cause: Cause::UserKill, drain: None, stop: Some(stop(Origin::Terminal)), ..stopped() },
            "SIGTERM from the terminal after 11.2s; everything left was killed at once, at the third SIGINT",
        ),
        (
            Facts { cause: Cause::StopBeforeStart, ..stopped() },
            "SIGTERM from outside the container before the app was started; it was not started",
        ),
        (
            Facts { main: main(3 << 8), killed: 2, stragglers: vec!["a".into()], ..no_stop(Cause::ChildExit) },
            "app exited 3 after 12.0s; 2 other processes did not end and had to be killed (a, …)",
        ),
        (
            Facts { main: main(11 | 0x80), ..no_stop(Cause::ChildSignal) },
            "app was killed by SIGSEGV (core dumped) after 12.0s",
        ),
        (
            Facts { main: main(9), oom_kills: Some(1), ..no_stop(Cause::ChildSignal) },
            "app was killed by SIGKILL after 12.0s (outro did not send it); out of memory: the kernel has killed 1 \
             process of this container",
        ),
        (
            Facts { error: Some("OUTRO_GRACE=x: not a duration".into()), ..no_stop(Cause::ConfigError) },
            "the app was not started: OUTRO_GRACE=x: not a duration",
        ),
        (
            Facts { error: Some("cannot run nope: not found in PATH".into()), ..no_stop(Cause::ExecError) },
            "cannot run nope: not found in PATH",
        ),
        (
            Facts { main: main(1 << 8), delay: seconds_of(100), delayed: seconds_of(40), drain: None, ..stopped() },
            "SIGTERM from outside the container after 11.2s; delay 10s cut short after 4.0s; app exited 1 on its own 12.0s after that",
        ),
    ];
    for (facts, sentence) in cases {
        assert_eq!(facts.sentence(), sentence);
    }
}

#[test]
fn a_drain_is_told_by_its_result() {
    let cases = [
        (DrainResult::Ended(ExitStatus::from_raw(3 << 8)), false, "drain exited 3 after 0.4s"),
        (DrainResult::Ended(ExitStatus::from_raw(15)), true, "drain timed out after 0.4s"),
        (DrainResult::Ended(ExitStatus::from_raw(9)), false, "drain was killed by SIGKILL after 0.4s"),
        (DrainResult::Failed("cannot run x: not found in PATH".into()), false, "drain failed: cannot run x"),
        (DrainResult::Running, false, "drain still running"),
    ];
    for (result, timed_out, part) in cases {
        let facts = Facts { drain: Some(Drain { result, took: seconds_of(4), timed_out }), ..stopped() };
        assert!(facts.sentence().contains(part), "{}", facts.sentence());
    }
}

/// A small generator (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn text(&mut self, longest: u64) -> String {
        const PIECES: [&str; 12] = ["a", "\"", "\\", "\n", "\u{0}", "\u{7f}", "ü", "…", "😀", "\u{fffd}", "sleep", " "];
        let length = self.below(longest + 1);
        (0..length).map(|_| PIECES[self.below(12) as usize]).collect()
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.below(2) == 0).then_some(value)
    }

    fn duration(&mut self) -> Duration {
        let exponent = self.below(64);
        Duration::from_nanos(self.below(1 << exponent))
    }

    fn facts(&mut self) -> Facts {
        const CAUSES: [Cause; 8] = [
            Cause::Stop,
            Cause::StopBeforeStart,
            Cause::Deadline,
            Cause::UserKill,
            Cause::ChildExit,
            Cause::ChildSignal,
            Cause::ConfigError,
            Cause::ExecError,
        ];
        let origin = [Origin::Outside, Origin::Inside, Origin::Terminal, Origin::Parent][self.below(4) as usize];
        let name = self.text(15);
        let from = Sender { origin, pid: i32::MAX, uid: u32::MAX, name: self.maybe(name) };
        let stop = Stop { signal: Signal::new(self.below(64) as i32 + 1).expect("1 to 64"), from };
        let status = ExitStatus::from_raw(self.below(65_536) as i32);
        let result = match self.below(3) {
            0 => DrainResult::Running,
            1 => DrainResult::Ended(status),
            _ => DrainResult::Failed(self.text(2000)),
        };
        let drain = Drain { result, took: self.duration(), timed_out: self.below(2) == 0 };
        let main = Main {
            status: self.maybe(status),
            took: self.duration(),
            unasked: true,
            killed_by_us: false,
            before_stop: false,
        };
        let named = self.below(STRAGGLERS_NAMED as u64 + 1);
        let error = format!("x{}", self.text(5000));
        Facts {
            stop: self.maybe(stop),
            grace: {
                let total = self.duration();
                self.maybe(Grace { total, margin: total / 2 })
            },
            delay: self.duration(),
            delayed: self.duration(),
            used: {
                let used = self.duration();
                self.maybe(used)
            },
            drain: self.maybe(drain),
            main: self.maybe(main),
            stragglers: (0..named).map(|_| self.text(15)).collect(),
            killed: 10_000,
            repeats: u32::MAX,
            oom_kills: self.maybe(u64::MAX),
            error: self.maybe(error),
            exit: 255,
            ..Facts::new(CAUSES[self.below(8) as usize], self.duration())
        }
    }
}

#[test]
fn any_record_is_one_line_of_valid_json_within_1024_bytes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..5_000 {
        let facts = random.facts();
        for is_final in [true, false] {
            let record = facts.record(is_final);
            assert!(record.len() <= LONGEST, "{} bytes in round {round}: {facts:?}", record.len());
            assert!(!record.contains('\n'), "round {round}");
            let value: Value = serde_json::from_str(&record).expect("JSON");
            let object = value.as_object().expect("an object");
            assert_eq!(object.len(), 18, "round {round}");
            assert_eq!(object["killed"], 10_000);
            assert!(object["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "round {round}");
        }
    }
}
