//! Work on a thread of its own, with a stack that no template can fill, and that the caller does not wait for without end.

use crate::border::{caught, Result};
use crate::limits::{processor_time, too_long, within, Limits};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Address space; only what is touched takes memory.
const STACK: usize = 256 << 20;
/// Workers that went on after their caller gave up. Each ends by its fuel; until then there may be no more of them.
const MOST_LOST: usize = 2;
static LOST: AtomicUsize = AtomicUsize::new(0);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(PartialEq)]
enum Fate {
    Running,
    Done,
    Lost,
}

/// Runs `work` within `limits`. The limits are looked at where `work` takes memory or a step; where it does neither for long
/// the caller leaves it behind.
pub fn run<T: Send + 'static>(
    limits: Limits,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if LOST.load(Ordering::Relaxed) >= MOST_LOST {
        return Err("earlier ones still run: try again later".to_owned());
    }
    let (give, take) = channel();
    let fate = Arc::new(Mutex::new(Fate::Running));
    let fate_there = fate.clone();
    let thread = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || {
            let _ = give.send(caught(|| within(limits, work)));
            let mut fate = fate_there.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if *fate == Fate::Lost {
                LOST.fetch_sub(1, Ordering::Relaxed);
            }
            *fate = Fate::Done;
        })
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    loop {
        match take.recv_timeout(LOOK_EVERY) {
            Ok(outcome) => {
                let _ = thread.join();
                return outcome;
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the worker vanished".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if time_of(&thread) > limits.time * 2 {
            let mut fate = fate.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if *fate == Fate::Running {
                *fate = Fate::Lost;
                LOST.fetch_add(1, Ordering::Relaxed);
                return Err(too_long(limits));
            }
        }
    }
}

fn time_of<T>(thread: &std::thread::JoinHandle<T>) -> Duration {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the thread has not been joined, so its handle is valid.
    let problem = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock) };
    if problem == 0 {
        processor_time(clock)
    } else {
        Duration::ZERO
    }
}
