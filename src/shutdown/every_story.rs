//! Every short story: all orders of events that a tiny world allows, with the promises checked after each step.
//!
//! In this world a main, a drain command and one orphan live and end when the story wants them to, and time goes in
//! steps on which every instant of the rules falls.

use std::time::{Duration, Instant};

use super::stories::plain;
use super::{Action, Event, Offset, Reason, Rules, Shutdown, Step, StopMain, reserve};
use crate::exit::{self, End, ExitRules};
use crate::signal::Signal;
use crate::values::ExitMap;

/// The step of time. Budgets are multiples of 4, so that the reserve is a multiple of 1.
const UNIT: Duration = Duration::from_millis(250);
/// Events in a story.
const LENGTH: usize = 7;
/// More answers than this to one moment mean that they never end.
const ANSWERS: usize = 12;

/// What can happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Term,
    Int,
    Hup,
    MainEnds,
    DrainEnds,
    OrphanEnds,
    TimePasses,
    TimeJumps,
}

const CHOICES: [Choice; 8] = [
    Choice::Term,
    Choice::Int,
    Choice::Hup,
    Choice::MainEnds,
    Choice::DrainEnds,
    Choice::OrphanEnds,
    Choice::TimePasses,
    Choice::TimeJumps,
];

/// The policy and everything it has caused.
#[derive(Clone)]
struct World {
    rules: Rules,
    policy: Shutdown,
    now: Instant,
    story: Vec<Choice>,
    main_lives: bool,
    drain_lives: bool,
    orphan_lives: bool,
    /// T0, and whether main lived then.
    stopped: Option<(Instant, bool)>,
    told_main: Option<Instant>,
    /// D, as it was first seen.
    deadline: Option<Instant>,
    /// Time has jumped since T0: promises about time cannot hold, those about order can.
    jumped: bool,
    drains_started: u32,
    drain_terminated: bool,
    others_terminated: bool,
    /// KILL does not end them: they are in the kernel, waiting for a disk that does not answer.
    unkillable: bool,
    ints: u32,
    killed: Option<(Reason, bool)>,
    over: bool,
}

impl World {
    fn new(rules: &Rules) -> World {
        World {
            rules: rules.clone(),
            policy: Shutdown::new(rules.clone()),
            now: Instant::now(),
            story: Vec::new(),
            main_lives: true,
            drain_lives: false,
            orphan_lives: true,
            stopped: None,
            told_main: None,
            deadline: None,
            jumped: false,
            drains_started: 0,
            drain_terminated: false,
            others_terminated: false,
            unkillable: false,
            ints: 0,
            killed: None,
            over: false,
        }
    }

    /// Lets `choice` happen, if it can.
    fn happen(&mut self, choice: Choice) -> bool {
        self.story.push(choice);
        match choice {
            Choice::Term => self.signal(Signal::TERM),
            Choice::Int => {
                self.ints += 1;
                self.signal(Signal::INT);
            }
            Choice::Hup => self.signal("HUP".parse().expect("a signal")),
            Choice::MainEnds if self.main_lives => {
                self.main_lives = false;
                self.step(Event::MainExited);
            }
            Choice::DrainEnds if self.drain_lives => {
                self.drain_lives = false;
                self.step(Event::DrainExited);
            }
            Choice::OrphanEnds if self.orphan_lives => self.orphan_lives = false,
            Choice::TimePasses => self.now += UNIT,
            Choice::TimeJumps if self.stopped.is_some() && !self.jumped => {
                self.now += 1000 * UNIT;
                self.jumped = true;
            }
            Choice::MainEnds | Choice::DrainEnds | Choice::OrphanEnds | Choice::TimeJumps => return false,
        }
        self.end_of_turn();
        true
    }

    fn signal(&mut self, signal: Signal) {
        self.step(Event::Signal(signal));
    }

    /// What every turn ends with, and the turns that follow at once because something is due.
    fn end_of_turn(&mut self) {
        for _ in 0..ANSWERS {
            if !self.over && !self.main_lives && !self.drain_lives && !self.orphan_lives {
                self.step(Event::Childless);
            }
            if !self.over {
                self.step(Event::Tick);
            }
            if self.over || self.policy.deadline().is_none_or(|at| at > self.now) {
                return;
            }
        }
        panic!("no end of answers: {:?}", self.story);
    }

    fn step(&mut self, event: Event) {
        if self.over {
            return;
        }
        let before = self.policy.deadline();
        let action = self.policy.step(event, self.now);
        self.check(&action, event);
        if matches!(action, Action::Begin { .. }) && !self.main_lives {
            assert!(self.policy.deadline() <= before, "a stop has lengthened the wait: {:?}", self.story);
        }
        let deadline = self.policy.deadline_at();
        if self.killed.is_none() && !self.over {
            assert!(self.deadline.is_none() || self.deadline == deadline, "D has moved: {:?}", self.story);
            self.deadline = deadline;
        }
    }

    /// The promises.
    fn check(&mut self, action: &Action, event: Event) {
        let story = &self.story;
        match action {
            Action::Nothing => {}
            Action::Count => assert!(matches!(event, Event::Signal(_)) && self.stopped.is_some(), "{story:?}"),
            Action::Forward(signal) => {
                assert!(self.main_lives, "forwarded to nobody: {story:?}");
                let is_stop = self.rules.stop_signals.contains(*signal);
                assert!(!is_stop || self.told_main.is_some(), "told before its time: {story:?}");
            }
            Action::Escalate(_) => {
                assert!(self.main_lives && self.told_main.is_some(), "{story:?}");
                assert!(self.deadline.is_none_or(|at| self.now < at) || self.jumped, "{story:?}");
            }
            Action::Begin { drain, stop_main } => {
                assert!(self.stopped.is_none(), "begun twice: {story:?}");
                assert_eq!(*drain, self.rules.drain_limit.is_some() && self.main_lives, "{story:?}");
                self.drains_started += u32::from(*drain);
                self.drain_lives = *drain;
                self.stopped = Some((self.now, self.main_lives));
                if let Some(stop_main) = stop_main.clone() {
                    self.tell_main(&stop_main);
                }
            }
            Action::Stop(stop_main) => self.tell_main(&stop_main.clone()),
            Action::TerminateOthers => {
                assert!(!self.main_lives || self.told_main.is_some(), "{story:?}");
                self.others_terminated = true;
            }
            Action::TerminateDrain => {
                assert!(self.drain_lives && !self.drain_terminated, "{story:?}");
                self.drain_terminated = true;
            }
            Action::KillDrain => assert!(self.drain_terminated, "killed without a TERM: {story:?}"),
            Action::KillAll(reason) => self.check_kill(*reason),
            Action::KillAgain => assert!(self.killed.is_some(), "{story:?}"),
            Action::Exit => self.check_exit(),
        }
        assert!(self.drains_started <= 1, "drained twice: {:?}", self.story);
    }

    fn tell_main(&mut self, stop: &StopMain) {
        assert!(self.main_lives && self.told_main.is_none(), "told again, or told nobody: {:?}", self.story);
        assert!(self.rules.stop_signals.contains(stop.signal));
        self.told_main = Some(self.now);
    }

    fn check_kill(&mut self, reason: Reason) {
        let story = &self.story;
        assert!(self.killed.is_none(), "killed twice: {story:?}");
        let due = self.deadline.is_some_and(|at| at <= self.now);
        match reason {
            Reason::Deadline => {
                assert!(due, "killed before D: {story:?}");
                let told = self.told_main.filter(|_| self.main_lives);
                let reserve = reserve(self.rules.budget.unwrap_or_default());
                assert!(!self.main_lives || told.is_some(), "killed without a word: {story:?}");
                assert!(self.others_terminated || self.jumped, "others killed without a word: {story:?}");
                assert!(told.is_none_or(|at| self.now - at >= reserve) || self.jumped, "no reserve: {story:?}");
            }
            Reason::LingerOver => assert!(!self.main_lives && !due, "{story:?}"),
            Reason::Person => assert!(self.ints >= 3, "nobody insisted: {story:?}"),
        }
        self.killed = Some((reason, self.main_lives));
        if !self.unkillable {
            (self.main_lives, self.drain_lives, self.orphan_lives) = (false, false, false);
        }
    }

    fn check_exit(&mut self) {
        let story = &self.story;
        assert!(!self.main_lives || self.unkillable, "main was left behind: {story:?}");
        assert!(!self.drain_lives || self.drain_terminated || self.unkillable, "the drain was left behind: {story:?}");
        let main_was_killed = self.killed.is_some_and(|(_, main_lived)| main_lived);
        let status = std::os::unix::process::ExitStatusExt::from_raw(if main_was_killed { libc::SIGKILL } else { 0 });
        let end = End {
            main: Some(status),
            killed: self.killed.map(|(reason, _)| reason),
            main_was_killed,
            stopped: self.stopped.is_some_and(|(_, main_lived)| main_lived),
        };
        let rules = ExitRules { map: ExitMap::default(), on_stop: Some(143), on_deadline: Some(exit::DEADLINE) };
        let expected = match self.killed {
            Some((Reason::Person, _)) => 130,
            Some((Reason::Deadline, true)) => 124,
            _ if self.stopped.is_some_and(|(_, main_lived)| main_lived) => 143,
            _ => 0,
        };
        assert_eq!(end.code(&rules), expected, "{story:?}");
        self.over = true;
    }

    /// From every state that a stop has led to, two looks at the clock past the deadline end it.
    fn check_that_it_ends(&self) {
        let Some(deadline) = self.deadline.filter(|_| !self.over) else { return };
        let mut world = self.clone();
        world.jumped = true;
        world.unkillable = true;
        world.now = world.now.max(deadline);
        world.end_of_turn();
        world.now += self.rules.kill_wait.max(UNIT);
        world.end_of_turn();
        assert!(world.over, "it never ends: {:?}", self.story);
    }
}

/// Plays on from `world` in every way; says how many stories that was.
fn play(world: &World, left: usize) -> u64 {
    world.check_that_it_ends();
    if left == 0 || world.over {
        return 1;
    }
    let mut stories = 0;
    for choice in CHOICES {
        let mut next = world.clone();
        if next.happen(choice) {
            stories += play(&next, left - 1);
        }
    }
    stories
}

#[test]
fn every_short_story_keeps_every_promise() {
    let grace = Rules { budget: Some(4 * UNIT), kill_wait: UNIT, ..plain() };
    let step = |name: &str, at| Step { signal: name.parse().expect("a signal"), at };
    let worlds = [
        plain(),
        grace.clone(),
        Rules { delay: UNIT, ..plain() },
        Rules { delay: 9 * UNIT, ..grace.clone() },
        Rules { delay: 2 * UNIT, drain_limit: Some(UNIT), ..grace.clone() },
        Rules { drain_limit: Some(2 * UNIT), ..plain() },
        Rules { drain_limit: Some(9 * UNIT), linger: Some(Duration::ZERO), ..grace.clone() },
        Rules {
            delay: UNIT,
            linger: Some(UNIT),
            escalation: vec![step("INT", Offset::AfterStop(UNIT)), step("QUIT", Offset::BeforeDeadline(UNIT))],
            ..grace
        },
    ];
    let stories: u64 = worlds.iter().map(|rules| play(&World::new(rules), LENGTH)).sum();
    println!("{stories} stories");
    assert!(stories > 100_000, "only {stories} stories were played");
}
