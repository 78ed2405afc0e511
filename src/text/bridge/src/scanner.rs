//! The parts of a template's source, divided just where the compiler divides them (minijinja's lexer.rs, with the usual
//! delimiters and without line statements): what is taken for text or for a comment here and for a tag there goes unguarded.

/// Each with its delimiters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// Text, a comment, or raw text with the tags around it.
    Plain(&'a str),
    /// `{% %}`
    Block(&'a str),
    /// `{{ }}`
    Expression(&'a str),
    /// The rest from a tag on that the compiler refuses before it ends, or whose end is missing.
    Broken(&'a str),
}

impl<'a> Part<'a> {
    pub fn text(self) -> &'a str {
        match self {
            Part::Plain(text) | Part::Block(text) | Part::Expression(text) | Part::Broken(text) => text,
        }
    }
}

pub struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Parts<'a> {
    pub fn of(source: &'a str) -> Self {
        Parts { rest: source }
    }

    /// The part at the beginning of the rest, which is a `{` and one of `{%#`.
    fn tag(&self) -> Part<'a> {
        let rest = self.rest;
        let skip = 2 + usize::from(rest[2..].starts_with(['-', '+']));
        let upto = |end: Option<usize>| &rest[..end.unwrap_or(rest.len())];
        match rest.as_bytes()[1] {
            b'#' => Part::Plain(upto(rest[skip..].find("#}").map(|at| skip + at + 2))),
            b'%' => match basic_tag(&rest[skip..], "raw") {
                Some(size) => Part::Plain(upto(raw_end(rest, skip + size))),
                None => {
                    tag_end(rest, skip, b"%}").map_or(Part::Broken(rest), |end| Part::Block(&rest[..end]))
                }
            },
            _ => tag_end(rest, skip, b"}}").map_or(Part::Broken(rest), |end| Part::Expression(&rest[..end])),
        }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let pairs = self.rest.as_bytes().windows(2);
        let start = pairs.enumerate().find(|(_, pair)| pair[0] == b'{' && b"{%#".contains(&pair[1]));
        let part = match start {
            Some((0, _)) => self.tag(),
            Some((start, _)) => Part::Plain(&self.rest[..start]),
            None => Part::Plain(self.rest),
        };
        self.rest = &self.rest[part.text().len()..];
        Some(part)
    }
}

/// The length of ` name %}` at the beginning of `text`, with a mark for white space or without.
fn basic_tag(text: &str, name: &str) -> Option<usize> {
    let is_space = |c: char| c.is_ascii_whitespace();
    let rest = text.trim_start_matches(is_space).strip_prefix(name)?.trim_start_matches(is_space);
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).strip_prefix("%}")?;
    Some(text.len() - rest.len())
}

/// Where the tag ends that ends the raw text at `at`.
fn raw_end(text: &str, mut at: usize) -> Option<usize> {
    loop {
        at += text[at..].find("{%")? + 2;
        let marked = at + usize::from(text[at..].starts_with(['-', '+']));
        if let Some(size) = basic_tag(&text[marked..], "endraw") {
            return Some(marked + size);
        }
    }
}

/// Where the tag at the beginning of `text` ends: at the first `close` that is in no string and no bracket. None: nowhere, or
/// a bracket closes that is not open, which no tag survives.
fn tag_end(text: &str, mut at: usize, close: &[u8]) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open = 0;
    while at < bytes.len() {
        match bytes[at] {
            _ if open == 0 && bytes[at..].starts_with(close) => return Some(at + 2),
            quote @ (b'"' | b'\'') => at = string_end(bytes, at, quote)?,
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' if open == 0 => return None,
            b')' | b']' | b'}' => open -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the string that begins at `at` has its last quote.
fn string_end(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        at += 1;
        match *bytes.get(at)? {
            b'\\' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
    }
}
