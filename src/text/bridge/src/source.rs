//! A template's source before it is compiled: what is refused, and what is changed. Lines keep their numbers.

use crate::border::Result;

/// Function that `guarded` puts around what a `set` assigns.
pub const KEEP: &str = "__keep";
/// The same where the target is an attribute of a namespace.
pub const KEEP_IN_NAMESPACE: &str = "__keep_in_namespace";
/// Function that `guarded` calls at the beginning of what may be repeated.
pub const STEP: &str = "__step";

const MAX_SOURCE: usize = 256 << 10;
/// Names, texts, numbers and signs in one tag. A compiler goes one call deeper for each operator of a sum.
const MAX_TAG_PARTS: usize = 10_000;

/// Refuses a source whose nesting the compiler's stack might not hold.
pub fn check(source: &str) -> Result<()> {
    if source.len() > MAX_SOURCE {
        return Err(format!("expected at most {MAX_SOURCE} bytes, found {}", source.len()));
    }
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let end = tag_end(rest);
        let parts = if rest.starts_with("{#") { 0 } else { tag_parts(&rest[..end]) };
        if parts > MAX_TAG_PARTS {
            let line = source[..source.len() - rest.len()].matches('\n').count() + 1;
            return Err(format!(
                "line {line}: expected at most {MAX_TAG_PARTS} names and operators in one tag, found {parts}"
            ));
        }
        rest = &rest[end..];
    }
    Ok(())
}

fn tag_parts(tag: &str) -> usize {
    let mut parts = 0;
    let mut quote = None;
    let mut in_word = false;
    let mut escaped = false;
    for c in tag.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => {
                let begins = !c.is_whitespace() && !(is_word && in_word);
                parts += usize::from(begins);
                quote = (c == '"' || c == '\'').then_some(c);
            }
        }
        in_word = is_word;
    }
    parts
}

/// - Hugging Face marks the assistant's words with `{% generation %}`, for training: here a block that is always taken.
/// - After `{% for %}` and `{% macro %}` comes a step, which ends what takes too long.
/// - `{% set a.b = x %}` becomes `{% set a.b = __keep_in_namespace(x) %}`, and other assignments alike: the function
///   refuses values that could make later steps never end.
pub fn guarded(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source;
    while let Some(start) = rest.find(['{']) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = tag_end(rest);
        let tag = &rest[..end];
        match tag.strip_prefix("{%") {
            Some(inner) => {
                out.push_str(&rewritten(tag, inner));
                if word(inner).0 == "raw" {
                    let close = raw_end(&rest[end..]);
                    out.push_str(&rest[end..end + close]);
                    rest = &rest[end + close..];
                    continue;
                }
            }
            None => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// The length of the tag, expression or comment at the start of `text`, or of its brace if it is none.
fn tag_end(text: &str) -> usize {
    let close = match text.get(..2) {
        Some("{%") => "%}",
        Some("{{") => "}}",
        Some("{#") => return text.find("#}").map_or(text.len(), |at| at + 2),
        _ => return 1,
    };
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(close.as_bytes()) => return at + 2,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The length of raw text with the tag that ends it.
fn raw_end(text: &str) -> usize {
    let mut at = 0;
    while let Some(start) = text[at..].find("{%") {
        let tag = at + start;
        let end = tag + tag_end(&text[tag..]);
        if word(&text[tag + 2..]).0 == "endraw" {
            return end;
        }
        at = tag + 2;
    }
    text.len()
}

/// The first word inside a tag, and what follows it.
fn word(inner: &str) -> (&str, &str) {
    let inner = inner.trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    inner.split_at(end)
}

fn rewritten(tag: &str, inner: &str) -> String {
    match word(inner) {
        ("generation", _) => tag.replacen("generation", "if true", 1),
        ("endgeneration", _) => tag.replacen("endgeneration", "endif", 1),
        ("for" | "macro", _) => with_step(tag),
        ("set", assignment) => guarded_set(tag, assignment),
        _ => tag.to_owned(),
    }
}

fn with_step(tag: &str) -> String {
    let body = tag.strip_suffix("%}").unwrap_or(tag);
    let trims = body.ends_with('-') || body.ends_with('+');
    let mark = if trims { &body[body.len() - 1..] } else { "" };
    format!("{tag}{{% do {STEP}() {mark}%}}")
}

fn guarded_set(tag: &str, assignment: &str) -> String {
    let is_target = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.,()".contains(c);
    let body = assignment.strip_suffix("%}").unwrap_or(assignment);
    let body = body.strip_suffix(['-', '+']).unwrap_or(body);
    match body.split_once('=') {
        Some((target, value)) if target.chars().all(is_target) => {
            let head = &tag[..tag.len() - assignment.len()];
            let tail = &assignment[body.len()..];
            let keep = if target.contains('.') { KEEP_IN_NAMESPACE } else { KEEP };
            format!("{head}{target}= {keep}({value}) {tail}")
        }
        _ => tag.to_owned(),
    }
}
