//! Stories: what happens in which second, and what the policy answers. One for each rule.

use std::time::{Duration, Instant};

use super::{Action, Event, Offset, Reason, Rules, Shutdown, Step, StopMain, reserve};
use crate::signal::{Signal, SignalSet};

const TERM: Event = Event::Signal(Signal::TERM);
const INT: Event = Event::Signal(Signal::INT);

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn signal(name: &str) -> Signal {
    name.parse().expect("a signal")
}

/// No grace, no delay, no drain: tini.
pub fn plain() -> Rules {
    Rules {
        budget: None,
        delay: Duration::ZERO,
        drain_limit: None,
        linger: None,
        escalation: Vec::new(),
        stop_signals: SignalSet::from_iter([Signal::TERM, Signal::INT]),
        kill_wait: secs(1.0),
    }
}

/// Grace 30 s: budget 28 s, reserve 2 s.
fn grace() -> Rules {
    Rules { budget: Some(secs(28.0)), ..plain() }
}

fn begin(drain: bool) -> Action {
    Action::Begin { drain, stop_main: None }
}

fn begin_and_stop(signal: Signal) -> Action {
    Action::Begin { drain: false, stop_main: Some(StopMain { signal, skipped: Vec::new() }) }
}

fn stop(signal: Signal) -> Action {
    Action::Stop(StopMain { signal, skipped: Vec::new() })
}

/// Plays a script of seconds, events and expected answers.
fn play(rules: Rules, script: &[(f64, Event, Action)]) -> Shutdown {
    let start = Instant::now();
    let mut policy = Shutdown::new(rules);
    for (line, (second, event, expected)) in script.iter().enumerate() {
        let action = policy.step(*event, start + secs(*second));
        assert_eq!(action, *expected, "line {line}: {event:?} at {second}");
    }
    policy
}

#[test]
fn without_a_grace_the_signal_is_forwarded_and_we_leave_with_main() {
    play(
        plain(),
        &[
            (0.0, Event::Tick, Action::Nothing),
            (1.0, TERM, begin_and_stop(Signal::TERM)),
            (9999.0, Event::Tick, Action::Nothing),
            (9999.0, TERM, Action::Forward(Signal::TERM)),
            (10000.0, Event::MainExited, Action::Exit),
        ],
    );
}

#[test]
fn without_anything_that_takes_time_every_int_is_forwarded() {
    let int = || (1.0, INT, Action::Forward(Signal::INT));
    play(plain(), &[(0.0, INT, begin_and_stop(Signal::INT)), int(), int(), int(), int()]);
}

#[test]
fn main_that_ends_by_itself_without_a_grace_is_followed_at_once() {
    play(plain(), &[(5.0, Event::MainExited, Action::Exit)]);
}

#[test]
fn a_signal_that_is_no_stop_signal_is_forwarded_in_every_phase_while_main_lives() {
    let usr1 = |second, action| (second, Event::Signal(signal("USR1")), action);
    let forward = || Action::Forward(signal("USR1"));
    play(
        Rules { delay: secs(5.0), ..grace() },
        &[
            usr1(0.0, forward()),
            (1.0, TERM, begin(false)),
            usr1(2.0, forward()),
            (6.0, Event::Tick, stop(Signal::TERM)),
            usr1(7.0, forward()),
            (8.0, Event::MainExited, Action::TerminateOthers),
            usr1(9.0, Action::Nothing),
        ],
    );
}

#[test]
fn the_delay_holds_the_signal_back() {
    let rules = Rules { delay: secs(10.0), ..grace() };
    let policy = play(rules.clone(), &[(0.0, TERM, begin(false)), (9.9, Event::Tick, Action::Nothing)]);
    assert!(policy.deadline().is_some());
    play(rules, &[(0.0, TERM, begin(false)), (10.0, Event::Tick, stop(Signal::TERM))]);
}

#[test]
fn delay_and_drain_work_without_a_grace() {
    play(
        Rules { delay: secs(1.0), drain_limit: Some(secs(10.0)), ..plain() },
        &[
            (0.0, TERM, begin(true)),
            (1.0, Event::Tick, Action::Nothing),
            (3.0, Event::DrainExited, stop(Signal::TERM)),
            (99.0, Event::Tick, Action::Nothing),
            (99.0, Event::MainExited, Action::Exit),
        ],
    );
}

#[test]
fn the_deadline_kills_and_is_followed_by_a_bounded_wait() {
    play(
        grace(),
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (25.9, Event::Tick, Action::Nothing),
            (26.0, Event::Tick, Action::TerminateOthers),
            (27.9, Event::Tick, Action::Nothing),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
            (28.1, Event::Tick, Action::KillAgain),
            (28.1, Event::MainExited, Action::Nothing),
            (29.0, Event::Tick, Action::Exit),
        ],
    );
}

#[test]
fn a_second_sigterm_does_not_buy_time() {
    play(
        grace(),
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (20.0, TERM, Action::Forward(Signal::TERM)),
            (26.0, Event::Tick, Action::TerminateOthers),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}

#[test]
fn twenty_terms_shorten_nothing() {
    let mut script = vec![(0.0, TERM, begin(false))];
    script.extend((0..20).map(|_| (1.0, TERM, Action::Count)));
    script.extend([(9.9, Event::Tick, Action::Nothing), (10.0, Event::Tick, stop(Signal::TERM))]);
    let policy = play(Rules { delay: secs(10.0), ..grace() }, &script);
    assert_eq!(policy.repeats(), 20);
}

#[test]
fn a_delay_that_does_not_fit_leaves_main_its_reserve() {
    play(
        Rules { delay: secs(60.0), ..grace() },
        &[
            (0.0, TERM, begin(false)),
            (25.9, Event::Tick, Action::Nothing),
            (26.0, Event::Tick, stop(Signal::TERM)),
            (26.0, Event::Tick, Action::TerminateOthers),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}

#[test]
fn the_reserve_is_a_quarter_of_a_small_budget_and_two_seconds_of_a_large_one() {
    assert_eq!(reserve(secs(1.0)), secs(0.25));
    assert_eq!(reserve(secs(8.0)), secs(2.0));
    assert_eq!(reserve(secs(86_400.0)), secs(2.0));
}

#[test]
fn main_waits_for_the_later_of_delay_and_drain() {
    let rules = Rules { delay: secs(5.0), drain_limit: Some(secs(9.0)), ..grace() };
    play(
        rules.clone(),
        &[(0.0, TERM, begin(true)), (2.0, Event::DrainExited, Action::Nothing), (5.0, Event::Tick, stop(Signal::TERM))],
    );
    play(
        rules,
        &[(0.0, TERM, begin(true)), (5.0, Event::Tick, Action::Nothing), (7.0, Event::DrainExited, stop(Signal::TERM))],
    );
}

#[test]
fn a_drain_at_its_limit_gets_term_is_waited_for_no_longer_and_killed_half_a_second_later() {
    play(
        Rules { drain_limit: Some(secs(3.0)), ..grace() },
        &[
            (0.0, TERM, begin(true)),
            (3.0, Event::Tick, Action::TerminateDrain),
            (3.0, Event::Tick, stop(Signal::TERM)),
            (3.4, Event::Tick, Action::Nothing),
            (3.5, Event::Tick, Action::KillDrain),
            (3.6, Event::DrainExited, Action::Nothing),
        ],
    );
}

#[test]
fn the_group_of_a_terminated_drain_is_killed_although_its_leader_is_gone() {
    play(
        Rules { drain_limit: Some(secs(3.0)), ..grace() },
        &[
            (0.0, TERM, begin(true)),
            (3.0, Event::Tick, Action::TerminateDrain),
            (3.0, Event::Tick, stop(Signal::TERM)),
            (3.1, Event::DrainExited, Action::Nothing),
            (3.5, Event::Tick, Action::KillDrain),
            (4.5, Event::Tick, Action::Nothing),
        ],
    );
}

#[test]
fn main_that_ends_while_we_prepare_ends_the_delay_and_leaves_the_drain_two_seconds() {
    play(
        Rules { delay: secs(10.0), drain_limit: Some(secs(14.0)), ..grace() },
        &[
            (0.0, TERM, begin(true)),
            (4.0, Event::MainExited, Action::TerminateOthers),
            (5.9, Event::Tick, Action::Nothing),
            (6.0, Event::Tick, Action::TerminateDrain),
            (6.5, Event::Tick, Action::KillDrain),
            (6.6, Event::DrainExited, Action::Nothing),
            (7.0, Event::Childless, Action::Exit),
        ],
    );
}

#[test]
fn without_a_grace_the_drain_of_a_main_that_has_ended_is_all_we_wait_for() {
    let rules = Rules { drain_limit: Some(secs(10.0)), ..plain() };
    play(
        rules.clone(),
        &[
            (0.0, TERM, begin(true)),
            (1.0, Event::MainExited, Action::TerminateOthers),
            (1.5, Event::Tick, Action::Nothing),
            (2.0, Event::DrainExited, Action::Exit),
        ],
    );
    play(
        rules,
        &[
            (0.0, TERM, begin(true)),
            (1.0, Event::MainExited, Action::TerminateOthers),
            (3.0, Event::Tick, Action::TerminateDrain),
            (3.0, Event::Tick, Action::KillDrain),
            (3.0, Event::Tick, Action::Exit),
        ],
    );
}

#[test]
fn a_main_that_ends_in_the_delay_without_a_grace_takes_the_others_along() {
    play(
        Rules { delay: secs(10.0), ..plain() },
        &[
            (0.0, TERM, begin(false)),
            (4.0, Event::MainExited, Action::TerminateOthers),
            (4.0, Event::Tick, Action::Exit),
        ],
    );
}

#[test]
fn others_linger_until_the_deadline_and_not_longer() {
    play(
        grace(),
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (1.0, Event::MainExited, Action::TerminateOthers),
            (27.9, Event::Tick, Action::Nothing),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
            (28.0, Event::Childless, Action::Exit),
        ],
    );
}

#[test]
fn nobody_left_means_no_delay_at_all() {
    play(
        grace(),
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (1.0, Event::MainExited, Action::TerminateOthers),
            (1.0, Event::Childless, Action::Exit),
        ],
    );
}

#[test]
fn after_an_end_of_its_own_others_get_two_seconds_if_there_is_a_grace() {
    play(
        grace(),
        &[
            (5.0, Event::MainExited, Action::TerminateOthers),
            (6.9, Event::Tick, Action::Nothing),
            (7.0, Event::Tick, Action::KillAll(Reason::LingerOver)),
        ],
    );
}

#[test]
fn a_linger_that_was_asked_for_is_kept_but_not_past_the_deadline() {
    play(
        Rules { linger: Some(secs(4.0)), ..plain() },
        &[
            (5.0, Event::MainExited, Action::TerminateOthers),
            (8.9, Event::Tick, Action::Nothing),
            (9.0, Event::Tick, Action::KillAll(Reason::LingerOver)),
        ],
    );
    play(
        Rules { linger: Some(secs(60.0)), ..grace() },
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (1.0, Event::MainExited, Action::TerminateOthers),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
    play(Rules { linger: Some(Duration::ZERO), ..grace() }, &[(5.0, Event::MainExited, Action::Exit)]);
}

#[test]
fn a_stop_while_we_linger_fixes_a_deadline_and_never_lengthens_the_wait() {
    let rules = Rules { delay: secs(10.0), drain_limit: Some(secs(5.0)), linger: Some(secs(20.0)), ..grace() };
    play(
        rules.clone(),
        &[
            (0.0, Event::MainExited, Action::TerminateOthers),
            (15.0, TERM, begin(false)),
            (19.9, Event::Tick, Action::Nothing),
            (20.0, Event::Tick, Action::KillAll(Reason::LingerOver)),
        ],
    );
    play(
        Rules { budget: Some(secs(1.0)), ..rules },
        &[
            (0.0, Event::MainExited, Action::TerminateOthers),
            (15.0, TERM, begin(false)),
            (16.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}

#[test]
fn a_second_int_ends_the_preparation() {
    play(
        Rules { delay: secs(10.0), drain_limit: Some(secs(5.0)), ..grace() },
        &[
            (0.0, INT, begin(true)),
            (1.0, INT, Action::Count),
            (1.0, Event::Tick, Action::TerminateDrain),
            (1.0, Event::Tick, stop(Signal::INT)),
        ],
    );
}

#[test]
fn a_second_int_is_forwarded_if_main_has_had_its_signal_and_the_third_kills() {
    play(
        grace(),
        &[
            (0.0, INT, begin_and_stop(Signal::INT)),
            (1.0, INT, Action::Forward(Signal::INT)),
            (2.0, INT, Action::KillAll(Reason::Person)),
            (2.0, INT, Action::Nothing),
            (3.0, Event::Tick, Action::Exit),
        ],
    );
}

#[test]
fn terms_are_not_counted_among_the_ints() {
    play(
        Rules { delay: secs(10.0), ..plain() },
        &[
            (0.0, TERM, begin(false)),
            (1.0, INT, Action::Count),
            (1.0, TERM, Action::Count),
            (1.0, Event::Tick, Action::Nothing),
            (2.0, INT, Action::Count),
            (2.0, Event::Tick, stop(Signal::TERM)),
            (3.0, INT, Action::KillAll(Reason::Person)),
        ],
    );
}

#[test]
fn a_third_int_kills_those_who_linger() {
    play(
        grace(),
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (1.0, Event::MainExited, Action::TerminateOthers),
            (2.0, INT, Action::Count),
            (3.0, INT, Action::Count),
            (4.0, INT, Action::KillAll(Reason::Person)),
        ],
    );
}

#[test]
fn steps_are_taken_in_their_order_before_the_sweep_and_the_deadline() {
    let step = |name, at| Step { signal: signal(name), at };
    let escalation = vec![
        step("QUIT", Offset::BeforeDeadline(secs(3.0))),
        step("INT", Offset::AfterStop(secs(10.0))),
        step("USR1", Offset::AfterStop(secs(10.0))),
    ];
    play(
        Rules { escalation, delay: secs(5.0), ..grace() },
        &[
            (0.0, TERM, begin(false)),
            (5.0, Event::Tick, stop(Signal::TERM)),
            (14.9, Event::Tick, Action::Nothing),
            (15.0, Event::Tick, Action::Escalate(Signal::INT)),
            (15.0, Event::Tick, Action::Escalate(signal("USR1"))),
            (24.9, Event::Tick, Action::Nothing),
            (25.0, Event::Tick, Action::Escalate(signal("QUIT"))),
            (26.0, Event::Tick, Action::TerminateOthers),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}

#[test]
fn a_step_before_the_signal_or_not_before_the_deadline_is_skipped() {
    let early = Step { signal: signal("QUIT"), at: Offset::BeforeDeadline(secs(20.0)) };
    let late = Step { signal: signal("ABRT"), at: Offset::AfterStop(secs(18.0)) };
    let last = Step { signal: signal("USR2"), at: Offset::BeforeDeadline(secs(0.0)) };
    let stop = StopMain { signal: Signal::TERM, skipped: vec![early, late, last] };
    play(
        Rules { escalation: vec![early, late, last], delay: secs(10.0), ..grace() },
        &[
            (0.0, TERM, begin(false)),
            (10.0, Event::Tick, Action::Stop(stop)),
            (26.0, Event::Tick, Action::TerminateOthers),
            (28.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}

#[test]
fn an_init_that_was_frozen_past_its_deadline_signals_main_and_then_kills() {
    play(
        Rules { delay: secs(10.0), drain_limit: Some(secs(12.0)), ..grace() },
        &[
            (0.0, TERM, begin(true)),
            (500.0, Event::Tick, Action::TerminateDrain),
            (500.0, Event::Tick, stop(Signal::TERM)),
            (500.0, Event::Tick, Action::KillAll(Reason::Deadline)),
            (501.0, Event::Tick, Action::Exit),
        ],
    );
}

#[test]
fn a_main_that_ends_while_we_are_frozen_past_the_deadline_leaves_nobody_alive() {
    play(
        grace(),
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (500.0, Event::MainExited, Action::TerminateOthers),
            (500.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}

#[test]
fn a_stop_signal_that_is_configured_away_is_an_ordinary_signal() {
    let rules = Rules { stop_signals: SignalSet::from_iter([signal("QUIT")]), ..grace() };
    play(
        rules,
        &[
            (0.0, TERM, Action::Forward(Signal::TERM)),
            (1.0, INT, Action::Forward(Signal::INT)),
            (2.0, Event::Signal(signal("QUIT")), begin_and_stop(signal("QUIT"))),
            (3.0, TERM, Action::Forward(Signal::TERM)),
        ],
    );
}

#[test]
fn a_day_of_grace_is_a_deadline_like_others() {
    let day = Rules { budget: Some(secs(86_398.0)), ..plain() };
    play(
        day,
        &[
            (0.0, TERM, begin_and_stop(Signal::TERM)),
            (86_396.0, Event::Tick, Action::TerminateOthers),
            (86_398.0, Event::Tick, Action::KillAll(Reason::Deadline)),
        ],
    );
}
