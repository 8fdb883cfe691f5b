//! The program as PID 1 of real containers: `docker run --init`, ENTRYPOINT of an image from scratch, podman, and
//! the life and death of real servers.
//!
//! `engine` is the one Docker Engine of a test run, `image` what runs in it, `container` one run of an image, and
//! `timeline` what everybody saw of it. The tests build on these four and on nothing else.
//!
//! Needs root, Debian packages and, the first time, a network to fetch an image's packages from. What is missing is
//! a failure; only `OUTRO_TEST_ALLOW_SKIP=1` on a machine that is not a CI turns it into a pass.

mod client;
mod container;
mod engine;
mod image;
mod timeline;

mod deadline;
mod dockerfile;
mod init;
mod podman;
mod report;
mod scenarios;
mod terminal;
