//! Values as Python writes them, which templates made for Jinja rely on.

use crate::limits;
use minijinja::value::{DynObject, Enumerator, Kwargs, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A list or a dictionary that is written as Python writes it wherever a template makes a text of it.
#[derive(Debug)]
struct Shown(DynObject);

impl Object for Shown {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.enumerator_len()
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = repr(&Value::from_dyn_object(self.0.clone()), 0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

fn shown(value: Value) -> Value {
    match value.as_object() {
        Some(object) => Value::from_object(Shown(object.clone())),
        None => value,
    }
}

/// What JSON says, as a template takes it.
pub fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Array(items) => shown(items.into_iter().map(from_json).collect::<Vec<_>>().into()),
        serde_json::Value::Object(entries) => shown(
            entries.into_iter().map(|(key, value)| (Value::from(key), from_json(value))).collect::<Value>(),
        ),
        other => Value::from_serialize(&other),
    }
}

/// `repr(number)`: the fewest digits that stand for it, with an exponent below 1e-4 and from 1e16 on.
fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// The filter `length`, which finds nothing in what is not there.
pub fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("expected a value with a length, found a {}", value.kind()),
        )
    })
}

const MAX_WIDTH: usize = 1 << 10;

fn too_wide(width: usize) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("indent: expected at most {MAX_WIDTH} spaces, found {width}"),
    )
}

/// The filter `indent`: a line break at the end stays.
pub fn indent(
    text: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width: Option<Value> = width.map_or_else(|| options.get("width"), |width| Ok(Some(width)))?;
    let first: Option<bool> = first.map_or_else(|| options.get("first"), |first| Ok(Some(first)))?;
    let blank: Option<bool> = blank.map_or_else(|| options.get("blank"), |blank| Ok(Some(blank)))?;
    options.assert_all_used()?;
    let space = match width {
        Some(width) if width.as_str().is_some() => to_str(&width)?,
        Some(width) => match usize::try_from(width)? {
            width @ 0..=MAX_WIDTH => " ".repeat(width),
            width => return Err(too_wide(width)),
        },
        None => " ".repeat(4),
    };
    let mut out = if first.unwrap_or(false) { space.clone() } else { String::new() };
    for (number, line) in to_str(text)?.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
            if blank.unwrap_or(false) || !line.is_empty() {
                out.push_str(&space);
            }
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Far more than sources and variables can nest: what goes on holds itself.
const MAX_DEPTH: usize = 1000;

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("cannot write a value of more than {MAX_DEPTH} levels"))
}

/// `str(value)`.
pub fn to_str(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Undefined => Ok(String::new()),
        _ => repr(value, 0),
    }
}

/// `repr(value)`, at this depth of another.
fn repr(value: &Value, depth: usize) -> Result<String, Error> {
    limits::step();
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let text = match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Undefined => "Undefined".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable if value.len().is_some() => {
            let items = value.try_iter().into_iter().flatten().map(|item| repr(&item, depth + 1));
            format!("[{}]", items.collect::<Result<Vec<_>, Error>>()?.join(", "))
        }
        ValueKind::Map => {
            let entry = |key: Value| {
                let item = value.get_item(&key).unwrap_or_default();
                Ok(format!("{}: {}", repr(&key, depth + 1)?, repr(&item, depth + 1)?))
            };
            let entries = value.try_iter().into_iter().flatten().map(entry);
            format!("{{{}}}", entries.collect::<Result<Vec<_>, Error>>()?.join(", "))
        }
        ValueKind::Number if is_float(value) => f64::try_from(value.clone()).map_or(value.to_string(), float),
        _ => value.to_string(),
    };
    Ok(text)
}

/// For what follows a value without looking how deep it is.
fn check_depth(value: &Value, depth: usize) -> Result<(), Error> {
    limits::step();
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if value.as_object().is_none() {
        return Ok(());
    }
    for key in value.try_iter().into_iter().flatten() {
        match value.kind() {
            ValueKind::Map => check_depth(&value.get_item(&key).unwrap_or_default(), depth + 1)?,
            _ => check_depth(&key, depth + 1)?,
        }
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// The filter `tojson` as Hugging Face defines it: `json.dumps(value, ensure_ascii=False, ...)`, nothing escaped for HTML.
pub fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sorted: Option<bool> = options.get("sort_keys")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    options.assert_all_used()?;
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson of an undefined value"));
    }
    let style = Style {
        indent: indent.map(|width| " ".repeat(width.min(64))),
        item: if indent.is_some() { "," } else { ", " }.to_owned(),
        key: ": ".to_owned(),
        ascii: ascii.unwrap_or(false),
        depth: 0,
        filled: false,
    };
    let style = match separators.as_deref() {
        Some([item, key]) => Style { item: item.clone(), key: key.clone(), ..style },
        _ => style,
    };
    let failed = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, e.to_string());
    check_depth(value, 0)?;
    let mut plain = serde_json::to_value(value).map_err(failed)?;
    if sorted.unwrap_or(false) {
        plain.sort_all_objects();
    }
    let mut out = Vec::new();
    plain.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style)).map_err(failed)?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&out).into_owned()))
}

/// `json.dumps` with its separators and indentation.
struct Style {
    indent: Option<String>,
    item: String,
    key: String,
    ascii: bool,
    depth: usize,
    /// The list or object being written has items.
    filled: bool,
}

type Written = std::io::Result<()>;

impl Style {
    fn new_line<W: ?Sized + std::io::Write>(&self, writer: &mut W) -> Written {
        if let Some(indent) = &self.indent {
            writer.write_all(b"\n")?;
            for _ in 0..self.depth {
                writer.write_all(indent.as_bytes())?;
            }
        }
        Ok(())
    }

    fn open<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> Written {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> Written {
        self.depth -= 1;
        if self.filled {
            self.new_line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn before_item<W: ?Sized + std::io::Write>(&self, writer: &mut W, first: bool) -> Written {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.new_line(writer)
    }
}

impl serde_json::ser::Formatter for Style {
    fn begin_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> Written {
        self.open(writer, b"[")
    }
    fn end_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> Written {
        self.close(writer, b"]")
    }
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> Written {
        self.before_item(writer, first)
    }
    fn end_array_value<W: ?Sized + std::io::Write>(&mut self, _: &mut W) -> Written {
        self.filled = true;
        Ok(())
    }
    fn begin_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> Written {
        self.open(writer, b"{")
    }
    fn end_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> Written {
        self.close(writer, b"}")
    }
    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> Written {
        self.before_item(writer, first)
    }
    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> Written {
        writer.write_all(self.key.as_bytes())
    }
    fn end_object_value<W: ?Sized + std::io::Write>(&mut self, _: &mut W) -> Written {
        self.filled = true;
        Ok(())
    }
    fn write_f64<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, number: f64) -> Written {
        writer.write_all(float(number).as_bytes())
    }
    fn write_string_fragment<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, text: &str) -> Written {
        if !self.ascii {
            return writer.write_all(text.as_bytes());
        }
        for unit in text.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => writer.write_all(&[byte])?,
                _ => write!(writer, "\\u{unit:04x}")?,
            }
        }
        Ok(())
    }
}
