//! What one call may take of memory and time. A tokenizer or a template of a stranger can ask for any amount of both with a
//! few bytes, through crates that take memory wherever they please: so the allocator itself refuses, and the refusal becomes a
//! panic (the hook for failed allocations), which unwinds to the border and is an error there.

use crate::border::BUSY;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Limits {
    /// Memory that the call may hold at once, beyond what was held before.
    pub bytes: usize,
    /// Time on the processor: what else the machine does changes nothing.
    pub time: Duration,
}

/// Why a call was ended.
#[derive(Clone, Copy)]
pub enum Exceeded {
    Memory,
    Time,
}

struct Call {
    active: Cell<bool>,
    bytes_left: Cell<isize>,
    /// On this thread's clock.
    deadline: Cell<Duration>,
    limits: Cell<Limits>,
    steps: Cell<u32>,
    /// When a step last looked at this thread's clock, on a coarse one.
    looked: Cell<Duration>,
    /// Set when nobody waits for the call any longer; null where somebody always does.
    abandoned: Cell<*const AtomicBool>,
    exceeded: Cell<Option<Exceeded>>,
}

const NONE: Limits = Limits { bytes: 0, time: Duration::ZERO };

thread_local! {
    // No destructor and no memory: the allocator may use it at any time.
    static CALL: Call = const {
        Call {
            active: Cell::new(false),
            bytes_left: Cell::new(0),
            deadline: Cell::new(Duration::ZERO),
            limits: Cell::new(NONE),
            steps: Cell::new(0),
            looked: Cell::new(Duration::ZERO),
            abandoned: Cell::new(std::ptr::null()),
            exceeded: Cell::new(None),
        }
    };
}

/// Allocations between two looks at the clock.
const STEPS_PER_LOOK: u32 = 1024;
/// Steps look when this has passed: what one costs is not known.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// An allocation of this size is worth a look of its own.
const LARGE: usize = 1 << 20;

impl Call {
    fn take(&self, bytes: usize) -> bool {
        if !self.active.get() {
            return true;
        }
        // A layout has at most isize::MAX bytes.
        let left = self.bytes_left.get().saturating_sub(bytes as isize);
        let exceeded = if left < 0 {
            Some(Exceeded::Memory)
        } else if self.is_late(bytes >= LARGE) {
            Some(Exceeded::Time)
        } else {
            None
        };
        // A second panic while one unwinds would end the process.
        if exceeded.is_some() && !std::thread::panicking() {
            self.exceeded.set(exceeded);
            return false;
        }
        self.bytes_left.set(left);
        true
    }

    fn give_back(&self, bytes: usize) {
        if self.active.get() {
            self.bytes_left.set(self.bytes_left.get().saturating_add(bytes as isize));
        }
    }

    fn is_late(&self, look: bool) -> bool {
        let abandoned = self.abandoned.get();
        // SAFETY: within_until keeps what it points at for as long as it is set.
        if !abandoned.is_null() && unsafe { (*abandoned).load(Ordering::Relaxed) } {
            return true;
        }
        let steps = self.steps.get() + 1;
        self.steps.set(if steps >= STEPS_PER_LOOK { 0 } else { steps });
        (look || steps >= STEPS_PER_LOOK)
            && processor_time(libc::CLOCK_THREAD_CPUTIME_ID) > self.deadline.get()
    }

    fn explanation(&self) -> String {
        let limits = self.limits.get();
        match self.exceeded.get() {
            Some(Exceeded::Memory) => format!("it takes more than {} MiB of memory", limits.bytes >> 20),
            Some(Exceeded::Time) => too_long(limits),
            None => format!("{BUSY}there is no memory left"),
        }
    }
}

pub fn too_long(limits: Limits) -> String {
    format!("it takes more than {} s", limits.time.as_secs())
}

/// Time spent on the processor by what `clock` names.
pub fn processor_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct given; an unknown clock leaves it zero.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A panic's payload: the call went beyond its limits.
pub struct Ended(pub String);

/// For loops that take no memory. Panics with `Ended` when the time is over.
pub fn step() {
    CALL.with(|call| {
        if !call.active.get() {
            return;
        }
        let now = processor_time(libc::CLOCK_MONOTONIC_COARSE);
        let look = now.saturating_sub(call.looked.get()) >= LOOK_EVERY;
        if look {
            call.looked.set(now);
        }
        end_if(call.is_late(look));
    });
}

/// What the call on this thread may still take; `otherwise` where there is none.
pub fn rest(otherwise: Limits) -> Limits {
    CALL.with(|call| {
        if !call.active.get() {
            return otherwise;
        }
        let now = processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
        Limits {
            bytes: usize::try_from(call.bytes_left.get()).unwrap_or(0),
            time: call.deadline.get().saturating_sub(now),
        }
    })
}

/// Another thread worked so long for the call on this one. Panics with `Ended` when the time is over.
pub fn spend(time: Duration) {
    CALL.with(|call| {
        if call.active.get() {
            call.deadline.set(call.deadline.get().saturating_sub(time));
            end_if(call.is_late(true));
        }
    });
}

/// Memory that another thread took is of the call on this one from now on.
pub fn adopt(bytes: usize) {
    CALL.with(|call| {
        if call.active.get() {
            call.bytes_left.set(call.bytes_left.get().saturating_sub(bytes as isize));
        }
    });
}

fn end_if(late: bool) {
    if late && !std::thread::panicking() {
        CALL.with(|call| call.exceeded.set(Some(Exceeded::Time)));
        end();
    }
}

fn end() -> ! {
    // What unwinds takes memory freely.
    let explanation = CALL.with(|call| {
        call.active.set(false);
        call.explanation()
    });
    std::panic::resume_unwind(Box::new(Ended(explanation)))
}

/// Why the last `within` of this thread ended early, for work that catches panics itself.
pub fn exceeded() -> Option<String> {
    CALL.with(|call| call.exceeded.get().map(|_| call.explanation()))
}

/// Runs `work` within `limits`; panics with `Ended` beyond them. Inside of work that has limits already those go on.
pub fn within<T>(limits: Limits, work: impl FnOnce() -> T) -> T {
    run(limits, std::ptr::null(), work)
}

/// The same; ends soon after `abandoned` is set.
pub fn within_until<T>(limits: Limits, abandoned: &AtomicBool, work: impl FnOnce() -> T) -> T {
    run(limits, abandoned, work)
}

fn run<T>(limits: Limits, abandoned: *const AtomicBool, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            CALL.with(|call| {
                call.active.set(false);
                call.abandoned.set(std::ptr::null());
            });
        }
    }
    if CALL.with(|call| call.active.get()) {
        return work();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::alloc::set_alloc_error_hook(|_| end()));
    let now = processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
    CALL.with(|call| {
        call.exceeded.set(None);
        call.limits.set(limits);
        call.bytes_left.set(isize::try_from(limits.bytes).unwrap_or(isize::MAX));
        call.deadline.set(now.saturating_add(limits.time));
        call.abandoned.set(abandoned);
        call.active.set(true);
    });
    let _reset = Reset;
    work()
}

struct Counting;

// SAFETY: the system's allocator, asked or not.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !CALL.with(|call| call.take(layout.size())) {
            return std::ptr::null_mut();
        }
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !CALL.with(|call| call.take(layout.size())) {
            return std::ptr::null_mut();
        }
        System.alloc_zeroed(layout)
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        CALL.with(|call| call.give_back(layout.size()));
        System.dealloc(data, layout)
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !CALL.with(|call| call.take(size - layout.size())) {
            return std::ptr::null_mut();
        }
        if size < layout.size() {
            CALL.with(|call| call.give_back(layout.size() - size));
        }
        System.realloc(data, layout, size)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
