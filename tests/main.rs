//! Tests of the finished program: they start it as a real process 1 and as an ordinary process, send it real signals
//! and look at what comes out. See README.md for how to run them and for the techniques.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "what binds process 1 does not bind its tests"
)]

mod harness;

mod cli;
mod contract;
mod engines;
mod forwarding;
mod logging;
mod reaping;
mod report;
mod shutdown;
mod start;
mod terminal;
