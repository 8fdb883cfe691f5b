//! Twelve stories of real programs that are stopped, each with one time line: what the engine did, what outro said,
//! what the application did and what its clients saw. Where another init tells the story differently, it is told twice.
//!
//! Waits are shorter than in production; the proportions are not.

mod clocks;
mod database;
mod java;
mod nginx;
mod node;
mod orphans;
mod python;
mod shells;
mod stories;

use super::client::free_port;
use super::container::{Container, Run};
use super::image::Image;

/// A server, whose story has this title, on the host's loopback interface, and its port.
fn server(image: &'static Image, story: &str) -> (Run, u16) {
    let run = Run::of(image).story(story).option("--network host").with_message_file("/dev/termination-log");
    (run, free_port())
}

/// Node, needing so long for an answer.
fn start_node(run: Run, port: u16, work_ms: u32) -> Container {
    run.start(&["node", "server.js", &port.to_string(), &work_ms.to_string()]).ready("ready")
}
