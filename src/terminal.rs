//! The terminal, if there is one: main becomes its foreground group in our place, and gives it back through us.

use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::sys;

/// The terminal on descriptor 0, if our process group was its foreground group when we started.
pub struct Terminal {
    foreground: Option<Pid>,
}

impl Terminal {
    /// Looks at descriptor 0 alone, as tini does: whoever redirects it does not want the terminal's keys for main.
    ///
    /// A group that our pid namespace does not know has number 0, here and there; it is taken for ours.
    pub fn new() -> Terminal {
        let group = getpgrp();
        // An error, of whatever kind, means: no terminal, none of our business.
        Terminal { foreground: tcgetpgrp(sys::STDIN).ok().filter(|foreground| *foreground == group) }
    }

    /// Whether main is to become the foreground group.
    pub fn is_ours(&self) -> bool {
        self.foreground.is_some()
    }

    /// Makes our group the foreground group again. TTOU is blocked, so the background may do this (tcsetpgrp(3)).
    pub fn give_back(&self) {
        if let Some(group) = self.foreground.filter(|group| group.as_raw() != 0) {
            let _ = tcsetpgrp(sys::STDIN, group);
        }
    }
}
