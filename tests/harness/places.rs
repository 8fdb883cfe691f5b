//! The same test with several cases, and in every place where outro may run: side by side, since tests mostly wait.

use std::thread;

use super::Start;

/// Runs a test with outro as process 1 and with outro as an ordinary process that adopts orphans.
pub fn everywhere(test: impl Fn(Start) + Sync) {
    side_by_side([("as process 1", Start::outro()), ("as an ordinary process", Start::outro().not_as_pid1())], test);
}

/// Runs a test with each case; the case's name is shown when it fails.
pub fn side_by_side<T: Send>(cases: impl IntoIterator<Item = (impl Into<String>, T)>, test: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        for (name, case) in cases {
            let test = &test;
            thread::Builder::new().name(name.into()).spawn_scoped(scope, move || test(case)).unwrap();
        }
    });
}
