//! Chat templates: Jinja set up as Hugging Face sets it up.

use crate::border::{guard, guard_into, slice, text, Buffer, Result};
use crate::python;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::ffi::CString;
use std::fmt;

const NAME: &str = "chat template";
/// Instructions one rendering may take: far above any real template, and an end for one that loops.
const FUEL: u64 = 50_000_000;

pub struct Handle {
    environment: Environment<'static>,
}

impl Handle {
    fn compile(source: &str) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(|out, _, value| {
            out.write_str(&python::to_str(value)).map_err(Error::from)
        });
        minijinja_contrib::add_to_environment(&mut environment);
        environment.add_filter("tojson", |value: &Value, options: Kwargs| python::to_json(value, options));
        environment.add_filter("string", |value: &Value| python::to_str(value));
        environment.add_test("sequence", |value: &Value| is_sequence(value));
        environment.add_test("iterable", |value: &Value| is_sequence(value) || value.kind() == ValueKind::Iterable);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, without_generation_tags(source))
            .map_err(|e| explain(&e))?;
        Ok(Handle { environment })
    }

    fn render(&self, variables: &[u8]) -> Result<Vec<u8>> {
        let variables: serde_json::Value =
            serde_json::from_slice(variables).map_err(|e| format!("variables: {e}"))?;
        let template = self.environment.get_template(NAME).map_err(|e| explain(&e))?;
        let text = template.render(Value::from_serialize(&variables)).map_err(|e| explain(&e))?;
        Ok(text.into_bytes())
    }
}

/// Python's strings, lists and dictionaries all count as sequences.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
}

/// Marks an error that the template raised itself.
#[derive(Debug)]
struct Raised;

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: String) -> std::result::Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message).with_source(Raised))
}

fn explain(error: &Error) -> String {
    let raised = std::error::Error::source(error).is_some_and(|source| source.is::<Raised>());
    match error.detail() {
        Some(message) if raised => message.to_owned(),
        _ => error.to_string(),
    }
}

/// The local time as C's strftime writes it, as in Python's `datetime.now().strftime(format)`.
fn strftime_now(_: &State, format: String) -> std::result::Result<String, Error> {
    let bad = || Error::new(ErrorKind::InvalidOperation, "strftime_now: bad format");
    let format = CString::new(format).map_err(|_| bad())?;
    let mut text = [0u8; 1024];
    // SAFETY: time and localtime_r fill the structs given; strftime writes at most the buffer's size and a zero.
    let size = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut parts).is_null() {
            return Err(bad());
        }
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &parts)
    };
    if size == 0 && !format.is_empty() {
        return Err(bad());
    }
    Ok(String::from_utf8_lossy(&text[..size]).into_owned())
}

/// Hugging Face marks the assistant's words with `{% generation %}`, for training: here it is a block that is always taken.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let word = tag[2..end].trim_end_matches("%}").trim_matches(['-', '+']).trim();
        out.push_str(&match word {
            "generation" => tag[..end].replacen("generation", "if true", 1),
            "endgeneration" => tag[..end].replacen("endgeneration", "endif", 1),
            _ => tag[..end].to_owned(),
        });
        rest = &tag[end..];
    }
    out + rest
}

/// # Safety
/// See bridge.h, as for all functions below.
#[no_mangle]
pub unsafe extern "C" fn talon_template_compile(
    source: *const u8,
    size: usize,
    error: *mut Buffer,
) -> *mut Handle {
    let handle = guard(error, || Handle::compile(text(source, size)?));
    handle.map_or(std::ptr::null_mut(), |handle| Box::into_raw(Box::new(handle)))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_template_free(compiled: *mut Handle) {
    if !compiled.is_null() {
        drop(Box::from_raw(compiled));
    }
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_template_render(
    compiled: &Handle,
    variables: *const u8,
    size: usize,
    rendered: *mut Buffer,
    error: *mut Buffer,
) -> bool {
    guard_into(rendered, error, || compiled.render(slice(variables, size)))
}
