//! Work on a thread of its own, with a stack that no template can fill, and that the caller does not wait for without end.

use crate::border::{caught, Result, BUSY};
use crate::limits::{processor_time, spend, too_long, within_until, Limits};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// Address space; only what is touched takes memory.
const STACK: usize = 256 << 20;
const MOST_LOST: usize = 2;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Workers of one kind.
pub struct Crew {
    /// Those that go on after their caller gave up. Each ends where it next takes memory or a step; until then there may be
    /// no more of them.
    lost: AtomicUsize,
}

/// What a worker and its caller know of each other.
#[derive(Default)]
struct Fate {
    /// Set by whichever goes first.
    over: AtomicBool,
    abandoned: AtomicBool,
    thread: AtomicI32,
}

impl Crew {
    pub const fn new() -> Self {
        Crew { lost: AtomicUsize::new(0) }
    }

    /// Runs `work` within `limits`, and takes its time off those of the caller. The limits are looked at where `work` takes
    /// memory or a step; where it does neither for long the caller leaves it behind.
    pub fn run<T: Send + 'static>(
        &'static self,
        limits: Limits,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.lost.load(Ordering::Relaxed) >= MOST_LOST {
            return Err(format!("{BUSY}earlier ones still run: try again later"));
        }
        let (give, take) = channel();
        let fate = Arc::new(Fate::default());
        let fate_there = fate.clone();
        let thread = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                // SAFETY: it has no conditions.
                fate_there.thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
                let outcome = caught(|| within_until(limits, &fate_there.abandoned, work));
                let _ = give.send((outcome, processor_time(libc::CLOCK_THREAD_CPUTIME_ID)));
                if fate_there.over.swap(true, Ordering::AcqRel) {
                    self.lost.fetch_sub(1, Ordering::Relaxed);
                }
            })
            .map_err(|e| format!("{BUSY}cannot start a thread: {e}"))?;
        loop {
            match take.recv_timeout(LOOK_EVERY) {
                Ok((outcome, time)) => {
                    let _ = thread.join();
                    spend(time);
                    return outcome;
                }
                Err(RecvTimeoutError::Disconnected) => return Err("the worker vanished".to_owned()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let time = time_of(&thread);
            if time > limits.time * 2 && self.leave(&fate) {
                spend(time);
                return Err(too_long(limits));
            }
        }
    }

    /// False if it has just ended.
    fn leave(&self, fate: &Fate) -> bool {
        self.lost.fetch_add(1, Ordering::Relaxed);
        if fate.over.swap(true, Ordering::AcqRel) {
            self.lost.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        fate.abandoned.store(true, Ordering::Relaxed);
        // What nobody waits for takes no time from others. 0 would be this thread.
        if let thread @ 1.. = fate.thread.load(Ordering::Relaxed) {
            // SAFETY: it has no conditions; a thread that is gone is not found.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as u32, 19) };
        }
        true
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::within;
    use std::time::Instant;

    fn spin(time: Duration) {
        let end = processor_time(libc::CLOCK_THREAD_CPUTIME_ID) + time;
        while processor_time(libc::CLOCK_THREAD_CPUTIME_ID) < end {}
    }

    const SHORT: Limits = Limits { bytes: 1 << 20, time: Duration::from_millis(50) };

    #[test]
    fn what_is_left_behind_ends_where_it_next_takes_memory() {
        static CREW: Crew = Crew::new();
        for _ in 0..2 * MOST_LOST {
            let outcome: Result<()> = CREW.run(SHORT, || loop {
                spin(Duration::from_millis(200));
                drop(std::hint::black_box(Box::new(1)));
            });
            assert_eq!(outcome, Err("it takes more than 0 s".to_owned()));
            let start = Instant::now();
            while CREW.lost.load(Ordering::Relaxed) > 0 {
                assert!(start.elapsed() < Duration::from_secs(20));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(CREW.run(SHORT, || Ok(7)), Ok(7));
    }

    #[test]
    fn while_others_are_left_behind_it_is_busy() {
        static CREW: Crew = Crew::new();
        CREW.lost.store(MOST_LOST, Ordering::Relaxed);
        let refused = Err("busy: earlier ones still run: try again later".to_owned());
        assert_eq!(CREW.run(SHORT, || Ok(7)), refused);
        CREW.lost.store(0, Ordering::Relaxed);
        assert_eq!(CREW.run(SHORT, || Ok(7)), Ok(7));
    }

    #[test]
    fn time_of_workers_is_that_of_their_caller() {
        static CREW: Crew = Crew::new();
        let second = Limits { bytes: 1 << 20, time: Duration::from_secs(1) };
        let mut times = 0;
        let outcome = caught(|| {
            within(second, || loop {
                times += 1;
                CREW.run(second, || {
                    spin(Duration::from_millis(400));
                    Ok(())
                })?;
            })
        });
        assert_eq!((outcome, times), (Err::<(), _>("it takes more than 1 s".to_owned()), 3));
    }
}
