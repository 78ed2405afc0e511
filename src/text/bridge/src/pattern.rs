//! Patterns of a tokenizer.json, as the crate `tokenizers` searches them but with an end to the work: Oniguruma bounds neither
//! the time of a search nor its memory.

use crate::limits::{self, Limits};
use crate::worker::Crew;
use onig::{MatchParam, Regex, Region, SearchOptions};
use onig_sys::ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokenizers::tokenizer::pattern::Pattern;
use tokenizers::{Offsets, Result};

type Splits = Vec<(Offsets, bool)>;

/// Steps that one search may take on its caller's thread, where nothing ends it before: seconds.
const MOST_STEPS: u64 = 1 << 33;
/// With fewer retries even ordinary words might be too many.
const FEWEST_RETRIES: u64 = 1 << 8;
/// Oniguruma's own limit for one place in a text is 10 million: reached here, it could not be told from this one.
const MOST_RETRIES: u64 = 8_000_000;
/// Calls of groups in one search: each may call others, without a retry.
const MOST_CALLS: u64 = 10_000_000;

static WORKERS: Crew = Crew::new();
/// Where the caller has no limits.
const ALONE: Limits = Limits { bytes: 1 << 30, time: Duration::from_secs(10) };

pub enum Bounded {
    Literal(String),
    Compiled(Arc<Compiled>),
}

pub struct Compiled {
    regex: Regex,
    steps: Option<u64>,
}

impl Bounded {
    pub fn new(source: &str) -> Result<Self> {
        static ONCE: Once = Once::new();
        // SAFETY: sets a number, which only searches read.
        ONCE.call_once(|| unsafe {
            onig_sys::onig_set_subexp_call_limit_in_search(MOST_CALLS);
        });
        Ok(Bounded::Compiled(Arc::new(Compiled { regex: Regex::new(source)?, steps: steps_of(source) })))
    }
}

impl Pattern for &Bounded {
    fn find_matches(&self, inside: &str) -> Result<Splits> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        match self {
            Bounded::Literal(text) => {
                let mut cut = Cut::new(inside);
                inside.match_indices(text).for_each(|(at, _)| cut.take(at, at + text.len()));
                Ok(cut.all())
            }
            Bounded::Compiled(compiled) => compiled.find(inside),
        }
    }
}

impl Compiled {
    fn find(self: &Arc<Self>, inside: &str) -> Result<Splits> {
        let steps = self.steps.and_then(|steps| steps.checked_mul(inside.len() as u64));
        let retries = steps.map_or(0, |steps| MOST_STEPS / steps).min(MOST_RETRIES);
        if retries >= FEWEST_RETRIES {
            match self.search(inside, retries) {
                Err(e) if e.code() == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER => {}
                done => return Ok(done?),
            }
        }
        // On a thread that can be left behind, more is allowed.
        let (compiled, inside) = (self.clone(), inside.to_owned());
        let retries = (16 << 20) + 256 * inside.len() as u64;
        let work = move || compiled.search(&inside, retries).map_err(|e| e.to_string());
        let found = WORKERS.run(limits::rest(ALONE), work)?;
        limits::adopt(found.capacity() * std::mem::size_of::<(Offsets, bool)>());
        Ok(found)
    }

    fn search(&self, inside: &str, retries: u64) -> std::result::Result<Splits, onig::Error> {
        let mut cut = Cut::new(inside);
        let mut region = Region::new();
        let (mut at, mut last) = (0, None);
        while at <= inside.len() {
            limits::step();
            region.clear();
            let (none, param) = (SearchOptions::SEARCH_OPTION_NONE, param_of(inside.len(), retries));
            let size = inside.len();
            let found = self.regex.search_with_param(inside, at, size, none, Some(&mut region), param)?;
            let Some((start, end)) = found.and_then(|_| region.pos(0)) else { break };
            // Nothing right after a match is no other match.
            if start == end && last == Some(end) {
                at += inside[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            (at, last) = (end, Some(end));
            cut.take(start, end);
        }
        Ok(cut.all())
    }
}

/// A text in matches and what is between them.
struct Cut {
    size: usize,
    done: usize,
    splits: Splits,
}

impl Cut {
    fn new(text: &str) -> Self {
        Cut { size: text.len(), done: 0, splits: Vec::with_capacity(text.len() / 4 + 1) }
    }

    fn take(&mut self, start: usize, end: usize) {
        if self.done != start {
            self.splits.push(((self.done, start), false));
        }
        self.splits.push(((start, end), true));
        self.done = end;
    }

    fn all(mut self) -> Splits {
        if self.done != self.size {
            self.splits.push(((self.done, self.size), false));
        }
        self.splits
    }
}

fn param_of(size: usize, retries: u64) -> MatchParam {
    let mut param = MatchParam::default();
    // Of 40 bytes each. A loop takes one or a few for each character.
    param.set_match_stack_limit(u32::try_from((1 << 20) + 16 * size).unwrap_or(u32::MAX));
    // SAFETY: sets a number of the struct, which the crate has no function for.
    unsafe { onig_sys::onig_set_retry_limit_in_search_of_match_param(param.as_raw(), retries) };
    param
}

/// How many steps a search may take for each retry and byte of its text: between two retries a loop does not end, so that each
/// part of a pattern is done at most once for a byte, times its counts. None for those of which that is not so.
fn steps_of(source: &str) -> Option<u64> {
    let mut steps = source.len() as u64 + 1;
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let escaped = rest.chars().next()?;
                rest = &rest[escaped.len_utf8()..];
                // Groups that are called or compared, quotes, control characters, clusters.
                if "123456789kgQEcCMKXyY".contains(escaped) {
                    return None;
                }
                if "xopP".contains(escaped) && rest.starts_with('{') {
                    rest = &rest[rest.find('}')?..];
                }
            }
            '(' if rest.starts_with('*') => return None,
            '(' if rest.starts_with('?') => {
                let flags = rest[1..].trim_start_matches(['i', 'm', 's', '-']);
                let simple = [":", ")", ">", "!", "=", "<!", "<="].iter().any(|kind| flags.starts_with(kind));
                if !simple {
                    return None;
                }
            }
            '{' => steps = steps.saturating_mul(count_of(rest)),
            _ => {}
        }
    }
    Some(steps)
}

/// Of `2,5}` that is 5.
fn count_of(rest: &str) -> u64 {
    let inner = rest.split('}').next().unwrap_or_default();
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let number = |text: &str| text.parse().unwrap_or(1);
    number(least).max(number(most)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::border::caught;
    use crate::limits::{processor_time, within};
    use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

    const PATTERNS: [&str; 12] = [
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"\s+$",
        r"",
        r"x*",
        r"(?=b)",
        r"(?<=a)",
        r"a\K",
        r"(a)\1",
        r"^|\b",
    ];
    const TEXTS: [&str; 8] = [
        "",
        "a",
        "aab aa",
        "Hello, it's 12345\n\n  wörld 漢字 🙂",
        "   ",
        "xxaxx",
        "\u{301}é",
        "a  \nb \r\n\t",
    ];

    #[test]
    fn matches_are_those_of_the_crate() {
        for pattern in PATTERNS {
            let bounded = Bounded::new(pattern).unwrap();
            let split = Split::new(
                SplitPattern::Regex(pattern.to_owned()),
                tokenizers::SplitDelimiterBehavior::Isolated,
                false,
            );
            let theirs = split.unwrap().regex;
            for text in TEXTS {
                let expected = (&theirs).find_matches(text).unwrap();
                assert_eq!((&bounded).find_matches(text).unwrap(), expected, "{pattern} in {text:?}");
                if let (Bounded::Compiled(compiled), false) = (&bounded, text.is_empty()) {
                    let watched = Arc::new(Compiled { regex: Regex::new(pattern).unwrap(), steps: None });
                    assert_eq!(watched.find(text).unwrap(), expected, "{pattern} in {text:?}");
                    assert_eq!(compiled.search(text, 1 << 20).unwrap(), expected);
                }
            }
        }
        for literal in ["", "a", "  ", "漢", "-&~#$"] {
            let theirs =
                Split::new(literal, tokenizers::SplitDelimiterBehavior::Isolated, false).unwrap().regex;
            for text in TEXTS.into_iter().chain(["-&~#$-&~#$"]) {
                let bounded = Bounded::Literal(literal.to_owned());
                assert_eq!((&bounded).find_matches(text).unwrap(), (&theirs).find_matches(text).unwrap());
            }
        }
    }

    #[test]
    fn steps_are_counted() {
        assert_eq!(steps_of("a{2,5}b{3}"), Some(11 * 15));
        assert_eq!(steps_of(r"\x{4e00}{,7}\p{L}{2,}\{9}"), Some(26 * 14));
        for wild in [r"(a)\1", r"(?<x>a)\g<x>", r"(?~a)", r"(*FAIL)", r"(?x) #\", r"\Qa\E", r"\X", r"(?#\)"] {
            assert_eq!(steps_of(wild), None, "{wild}");
        }
    }

    #[test]
    fn every_search_ends() {
        let text = "a".repeat(64 << 10) + "-b";
        let limits = Limits { bytes: 256 << 20, time: Duration::from_millis(500) };
        for pattern in [
            r"a{0,2000}a{0,2000}\b\B",
            r"a{0,2000}a{0,2000}\b\B|a",
            r"(?:(?=a*+)a)*+b",
            r"(?:(?=a*+)a)*+b|a",
            r"(?:||||||||||){12}(?>(?:(?=aaaaaaaa)a)*+)b",
            r"(a*)*\1b",
            r"(?:a??a??a??a??a??a??a??a??a??a??a??a??a??a??a??a??a??a??a??a??)*b",
        ] {
            let bounded = Bounded::new(pattern).unwrap();
            let start = processor_time(libc::CLOCK_PROCESS_CPUTIME_ID);
            let found =
                caught(|| within(limits, || (&bounded).find_matches(&text).map_err(|e| e.to_string())));
            let took = processor_time(libc::CLOCK_PROCESS_CPUTIME_ID) - start;
            // Which limit comes first depends on the processor.
            let ended = |e: &String| e.contains("it takes more than") || e.contains("retry-limit");
            assert!(found.as_ref().is_err_and(ended), "{pattern}: {found:?}");
            assert!(took < Duration::from_secs(20), "{pattern}: {took:?}");
        }
    }
}
