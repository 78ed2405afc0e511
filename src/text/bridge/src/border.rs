//! What crosses the C border: owned buffers, borrowed slices, errors and panics as messages.

use crate::limits::Ended;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

pub type Result<T> = std::result::Result<T, String>;

/// Begins a message that is of the moment, not of what was given (bridge.h).
pub const BUSY: &str = "busy: ";

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut i32,
    size: usize,
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        let (data, size) = leak(bytes);
        Buffer { data, size }
    }
}

impl From<Vec<i32>> for Ids {
    fn from(ids: Vec<i32>) -> Self {
        let (data, size) = leak(ids);
        Ids { data, size }
    }
}

fn leak<T>(items: Vec<T>) -> (*mut T, usize) {
    let items = Box::leak(items.into_boxed_slice());
    (items.as_mut_ptr(), items.len())
}

unsafe fn reclaim<T>(data: *mut T, size: usize) {
    if !data.is_null() && size > 0 {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)));
    }
}

/// # Safety
/// `buffer` came from this crate and is freed once.
#[no_mangle]
pub unsafe extern "C" fn talon_buffer_free(buffer: Buffer) {
    reclaim(buffer.data, buffer.size);
}

/// # Safety
/// `ids` came from this crate and is freed once.
#[no_mangle]
pub unsafe extern "C" fn talon_ids_free(ids: Ids) {
    reclaim(ids.data, ids.size);
}

/// The caller's `size` items at `data`, which may be null when there are none.
///
/// # Safety
/// As for `std::slice::from_raw_parts`, for the caller's chosen lifetime.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// # Safety
/// See `slice`.
pub unsafe fn text<'a>(data: *const u8, size: usize) -> Result<&'a str> {
    std::str::from_utf8(slice(data, size)).map_err(|e| format!("expected UTF-8: {e}"))
}

/// What `work` gives; a panic is an error.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    quiet_panics();
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        if let Some(ended) = panic.downcast_ref::<Ended>() {
            return Err(ended.0.clone());
        }
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("internal failure: {}", what.unwrap_or("unknown")))
    })
}

/// Runs `work`; a failure or a panic becomes a message in `error`.
///
/// # Safety
/// `error` may be written.
pub unsafe fn guard<T>(error: *mut Buffer, work: impl FnOnce() -> Result<T>) -> Option<T> {
    caught(work).map_err(|message| error.write(Buffer::from(message.into_bytes()))).ok()
}

/// As `guard`, for a result that goes to `out`; true on success.
///
/// # Safety
/// `out` and `error` may be written.
pub unsafe fn guard_into<T, R: From<T>>(
    out: *mut R,
    error: *mut Buffer,
    work: impl FnOnce() -> Result<T>,
) -> bool {
    guard(error, work).map(|value| out.write(R::from(value))).is_some()
}

/// Errors take no backtraces, whatever RUST_BACKTRACE says. They are taken under a lock of the whole process, and a call that
/// goes beyond its limits there would hold it for ever. The library that takes them asks the environment once and remembers
/// the answer; this asks first, before there are other threads.
extern "C" fn without_backtraces() {
    const NAME: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(NAME);
    std::env::set_var(NAME, "0");
    let _ = std::backtrace::Backtrace::capture();
    match before {
        Some(value) => std::env::set_var(NAME, value),
        None => std::env::remove_var(NAME),
    }
}

#[used]
#[link_section = ".init_array"]
static WHEN_LOADED: extern "C" fn() = without_backtraces;

/// A library prints nothing: the message of a panic travels in the error instead.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}
