//! Chat templates: Jinja set up as Hugging Face sets it up.

use crate::border::{guard, guard_into, slice, text, Buffer, Result};
use crate::limits::{self, Limits};
use crate::worker::Crew;
use crate::{python, source};
use minijinja::value::{DynObject, Kwargs, Object, ObjectRepr, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};
use minijinja_contrib::globals;
use std::ffi::CString;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "chat template";
/// Instructions one rendering may take: far above any real template, and an end for one that loops.
const FUEL: u64 = 10_000_000;
const MAX_TEXT: usize = 64 << 20;
const MAX_DEPTH: usize = 64;
/// Values that a value may hold, however deep, where a `set` keeps it.
const MAX_PARTS: usize = 1 << 20;
static WORKERS: Crew = Crew::new();
const LIMITS: Limits = Limits { bytes: 256 << 20, time: Duration::from_secs(2) };

pub struct Handle {
    environment: Arc<Environment<'static>>,
}

impl Handle {
    /// Compiling and rendering follow the nesting of a stranger's source and values: both run on a stack of their own.
    fn new(text: String) -> Result<Self> {
        WORKERS.run(LIMITS, move || Self::compile(&text))
    }

    fn compile(text: &str) -> Result<Self> {
        source::check(text)?;
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(write_value);
        minijinja_contrib::add_to_environment(&mut environment);
        environment.add_filter("tojson", |value: &Value, options: Kwargs| python::to_json(value, options));
        environment.add_filter("length", python::length);
        environment.add_filter("count", python::length);
        environment.add_filter("indent", python::indent);
        environment.add_filter("string", |value: &Value| python::to_str(value));
        environment.add_test("sequence", |value: &Value| is_sequence(value));
        environment
            .add_test("iterable", |value: &Value| is_sequence(value) || value.kind() == ValueKind::Iterable);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("cycler", cycler);
        environment.add_function("joiner", joiner);
        environment.add_function(source::STEP, limits::step);
        environment.add_function(source::KEEP, |values: Rest<Value>| keep(false, values));
        environment.add_function(source::KEEP_IN_NAMESPACE, |values: Rest<Value>| keep(true, values));
        environment.add_filter(source::KEEP, |value: Value| keep(false, Rest(vec![value])));
        environment.add_filter(source::KEEP_IN_NAMESPACE, |value: Value| keep(true, Rest(vec![value])));
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, source::guarded(text)).map_err(|e| explain(&e))?;
        Ok(Handle { environment: Arc::new(environment) })
    }

    fn render(&self, variables: &[u8]) -> Result<Vec<u8>> {
        let environment = self.environment.clone();
        let variables = variables.to_vec();
        WORKERS.run(LIMITS, move || render(&environment, &variables))
    }
}

fn render(environment: &Environment, variables: &[u8]) -> Result<Vec<u8>> {
    let variables: serde_json::Value =
        serde_json::from_slice(variables).map_err(|e| format!("variables: {e}"))?;
    let template = environment.get_template(NAME).map_err(|e| explain(&e))?;
    let text = template.render(python::from_json(variables)).map_err(|e| explain(&e))?;
    Ok(text.into_bytes())
}

/// Python's strings, lists (also parts and sums of them) and dictionaries all count as sequences, and so does what Jinja has
/// no value for.
fn is_sequence(value: &Value) -> bool {
    let is_part = value.kind() == ValueKind::Iterable && value.len().is_some();
    is_part
        || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined)
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

/// What a `set` assigns, refused if it could make later steps never end: a value that holds others too deeply, or in
/// a namespace one that holds a namespace, and so perhaps itself. Several values are a list, as in Jinja.
fn keep(in_namespace: bool, values: Rest<Value>) -> std::result::Result<Value, Error> {
    let values = values.0;
    let mut parts = 0;
    for value in &values {
        check_kept(value, in_namespace, 0, &mut parts)?;
    }
    match <[Value; 1]>::try_from(values) {
        Ok([value]) => Ok(value),
        Err(values) => Ok(Value::from(values)),
    }
}

fn refuse(what: &str) -> std::result::Result<(), Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("cannot set {what}")))
}

fn check_kept(
    value: &Value,
    in_namespace: bool,
    depth: usize,
    parts: &mut usize,
) -> std::result::Result<(), Error> {
    limits::step();
    *parts += 1;
    if *parts > MAX_PARTS {
        return refuse("a value of more than a million parts");
    }
    if value.as_str().is_some_and(|text| text.len() > MAX_TEXT) {
        return refuse("a text of more than 64 MiB");
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    if depth == MAX_DEPTH {
        return refuse("a value of more than 64 levels");
    }
    // What these hold cannot be seen: macros the names around them, loops their items.
    let hides = |object: &DynObject| {
        let kind = object.type_name().rsplit("::").next().unwrap_or_default();
        object.repr() == ObjectRepr::Plain
            || ["Closure", "Loop", "Macro", "Module", "Namespace"].contains(&kind)
    };
    if in_namespace && hides(object) {
        return refuse("an attribute of a namespace to a namespace, a macro or a loop");
    }
    for key in value.try_iter().into_iter().flatten() {
        check_kept(&key, in_namespace, depth + 1, parts)?;
        if value.kind() == ValueKind::Map {
            check_kept(&value.get_item(&key)?, in_namespace, depth + 1, parts)?;
        }
    }
    Ok(())
}

/// Of texts and numbers only: one that held another value could hold itself, where no check sees it.
fn cycler(items: Vec<Value>) -> std::result::Result<Value, Error> {
    items.iter().try_for_each(check_plain)?;
    globals::cycler(items)
}

fn joiner(separator: Option<Value>) -> std::result::Result<Value, Error> {
    separator.iter().try_for_each(check_plain)?;
    Ok(globals::joiner(separator))
}

fn check_plain(value: &Value) -> std::result::Result<(), Error> {
    match value.as_object() {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("expected a text or a number, found a {}", value.kind()),
        )),
    }
}

/// How much one rendering has written so far.
#[derive(Debug, Default)]
struct Written(AtomicUsize);

impl Object for Written {}

fn write_value(out: &mut Output, state: &State, value: &Value) -> std::result::Result<(), Error> {
    let text = python::to_str(value)?;
    let written = state.get_or_set_temp_object("written", Written::default);
    if written.0.fetch_add(text.len(), Ordering::Relaxed) > MAX_TEXT {
        return Err(Error::new(ErrorKind::InvalidOperation, "the text has more than 64 MiB"));
    }
    out.write_str(&text).map_err(Error::from)
}

/// # Safety
/// See bridge.h, as for all functions below.
#[no_mangle]
pub unsafe extern "C" fn talon_template_compile(
    source: *const u8,
    size: usize,
    error: *mut Buffer,
) -> *mut Handle {
    let handle = guard(error, || Handle::new(text(source, size)?.to_owned()));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String> {
        let text = Handle::new(source.to_owned())?.render(b"{\"x\": {\"<|im\": \"_end|>\"}}")?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn no_value_holds_itself() {
        const SET: &str = "{% set ns.c = ns %}";
        for source in [
            SET,
            "{% raw %}{% endraw x %}{#{% endraw %}{% set ns.c = ns %}",
            "{% raw %}{% endraw()%}{{ '{%- endraw -%}{% set ns.c = [ns] %}",
            "{{ {'a': {}} ~ '{#' }}{% set ns.c = {'a': ns} %}",
            "{% set ns.c | default(ns, true) %}{% endset %}",
            "{% set ns.c | default([ns], true) | list %}{% endset %}",
        ] {
            let error = render(&format!("{{% set ns = namespace(c=0) %}}{source}{{{{ ns }}}}"));
            assert!(error.as_ref().is_err_and(|e| e.contains("cannot set")), "{source}: {error:?}");
        }
        assert_eq!(render("{% set a | upper | trim %} x {% endset %}[{{ a }}]").as_deref(), Ok("[X]"));
        assert_eq!(
            render("{% set ns = namespace() -%} {% set ns.b | upper %}x{% endset %}{{ ns.b }}").as_deref(),
            Ok("X")
        );
        assert_eq!(render("{{ x|items|map('join')|join }}").as_deref(), Ok("<|im_end|>"));
        assert_eq!(render("{{ 'aZb'.split('Z')|join }}").as_deref(), Ok("ab"));
        assert_eq!(render("{{ x|tojson }}").as_deref(), Ok("{\"<|im\": \"_end|>\"}"));
    }

    /// Written although something in it has no end.
    #[test]
    fn what_is_written_has_an_end() {
        #[derive(Debug)]
        struct Cycle;
        impl Object for Cycle {
            fn repr(self: &Arc<Self>) -> ObjectRepr {
                ObjectRepr::Seq
            }
            fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
                (key.as_usize()? < 2).then(|| Value::from_dyn_object(self.clone()))
            }
            fn enumerate(self: &Arc<Self>) -> minijinja::value::Enumerator {
                minijinja::value::Enumerator::Seq(2)
            }
        }
        let cycle = Value::from_object(Cycle);
        assert!(python::to_str(&cycle).is_err());
        assert!(python::to_json(&cycle, [("indent", Value::from(1))].into_iter().collect()).is_err());
    }
}
