//! A template's source before it is compiled: what is refused, and what is changed. Lines keep their numbers.

use crate::border::Result;
use crate::scanner::{Part, Parts};

/// Function and filter that `guarded` puts around what a `set` assigns.
pub const KEEP: &str = "__keep";
/// The same where the target is an attribute of a namespace.
pub const KEEP_IN_NAMESPACE: &str = "__keep_in_namespace";
/// Function that `guarded` calls at the beginning of what may be repeated.
pub const STEP: &str = "__step";

const MAX_SOURCE: usize = 256 << 10;
/// Names, texts, numbers and signs in one tag. A compiler goes one call deeper for each operator of a sum.
const MAX_TAG_PARTS: usize = 10_000;

/// Refuses a source whose nesting the compiler's stack might not hold, or that gives the names above another meaning.
pub fn check(source: &str) -> Result<()> {
    if source.len() > MAX_SOURCE {
        return Err(format!("expected at most {MAX_SOURCE} bytes, found {}", source.len()));
    }
    let mut line = 1;
    for part in Parts::of(source) {
        if let Part::Block(tag) | Part::Expression(tag) | Part::Broken(tag) = part {
            let parts = tag_parts(tag);
            if parts > MAX_TAG_PARTS {
                return Err(format!(
                    "line {line}: expected at most {MAX_TAG_PARTS} names and operators in one tag, found {parts}"
                ));
            }
            if let Some(name) = [KEEP, STEP].into_iter().find(|&name| tag.contains(name)) {
                return Err(format!("line {line}: expected no names that begin with {name}, found one"));
            }
        }
        line += part.text().matches('\n').count();
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
    for part in Parts::of(source) {
        match part {
            Part::Block(tag) => out.push_str(&rewritten(tag)),
            other => out.push_str(other.text()),
        }
    }
    out
}

/// The first word inside a tag, and what follows it.
fn word(tag: &str) -> (&str, &str) {
    let inner = &tag[2..];
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start();
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    inner.split_at(end)
}

fn rewritten(tag: &str) -> String {
    match word(tag) {
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

/// Also of `{% set a.b | filter %}`, which assigns what the filter makes of the text that follows.
fn guarded_set(tag: &str, assignment: &str) -> String {
    let body = assignment.strip_suffix("%}").unwrap_or(assignment);
    let body = body.strip_suffix(['-', '+']).unwrap_or(body);
    let Some(at) = body.find(['=', '|']) else { return tag.to_owned() };
    let head = &tag[..tag.len() - assignment.len()];
    let tail = &assignment[body.len()..];
    let (target, value) = (&body[..at], &body[at + 1..]);
    let keep = if target.contains('.') { KEEP_IN_NAMESPACE } else { KEEP };
    match body.as_bytes()[at] {
        b'=' => format!("{head}{target}= {keep}({value}) {tail}"),
        _ => format!("{head}{body} | {keep} {tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Value;
    use minijinja::Environment;
    use std::cell::RefCell;

    /// Small numbers from a seed.
    struct Random(u64);

    impl Random {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % most
        }
    }

    thread_local! {
        /// What was called while a template was rendered: m for a value that a set assigns, k where it is looked at.
        static CALLS: RefCell<String> = const { RefCell::new(String::new()) };
    }

    fn call(name: char) {
        CALLS.with(|calls| calls.borrow_mut().push(name));
    }

    /// None: the compiler refuses the source.
    fn calls_of(source: &str) -> Option<String> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.add_function("mark", || call('m'));
        let kept = |value: Value| {
            call('k');
            value
        };
        for name in [KEEP, KEEP_IN_NAMESPACE] {
            environment.add_function(name, kept);
            environment.add_filter(name, kept);
        }
        environment.add_filter("marked", |_: Value| call('m'));
        environment.add_function(STEP, || ());
        environment.add_template_owned("t", guarded(source)).ok()?;
        CALLS.take();
        let _ = environment.get_template("t").unwrap().render(());
        Some(CALLS.take())
    }

    #[test]
    fn every_set_that_the_compiler_finds_is_guarded() {
        const PIECES: [&str; 40] = [
            "{%",
            "%}",
            "{{",
            "}}",
            "{#",
            "#}",
            "{%-",
            "-%}",
            "{%+",
            "+%}",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "\"",
            "'",
            "\\",
            "raw",
            "endraw",
            " ",
            "-",
            "+",
            "%",
            "#",
            "x",
            "=",
            "|",
            "{% raw %}",
            "{%- raw -%}",
            "{%+ raw +%}",
            "{% endraw %}",
            "{%-endraw-%}",
            "{% endraw x %}",
            "{{ {'a': {}} }}",
            "{{ '{#' }}",
            "\n",
            "1",
            ",",
        ];
        const SETS: [&str; 6] = [
            "{% set a = mark() %}",
            "{%- set ns.a = mark() -%}",
            "{% set a | marked %}x{% endset %}",
            "{%+set a=mark()+%}",
            "{% set a = [{'b': (mark())}] %}",
            "{% set (a) = mark()|list %}",
        ];
        let mut random = Random(11);
        let (mut compiled, mut found) = (0, 0);
        for _ in 0..200_000 {
            let mut source = String::from("{% set ns = namespace() %}");
            for _ in 0..random.below(9) {
                source += if random.below(4) > 0 { PIECES[random.below(40)] } else { SETS[random.below(6)] };
            }
            source += SETS[random.below(6)];
            let Some(calls) = calls_of(&source) else { continue };
            compiled += 1;
            found += usize::from(calls.contains('m'));
            // The first is of the namespace.
            assert_eq!(calls.replace("mk", ""), "k", "{source}");
        }
        assert!(compiled > 20_000 && found > 10_000, "{compiled}, {found}");
    }

    #[test]
    fn values_end_where_the_compiler_ends_them() {
        for source in ["{% set a = mark()) or (1 %}", "{% set a = 1] or [mark() %}", "{% set a = mark()} %}"]
        {
            assert_eq!(calls_of(source), None, "{source}");
        }
        assert_eq!(calls_of("{{ {'a': {}} ~ '{#' }}{% set a = mark() %}").as_deref(), Some("mk"));
        assert_eq!(calls_of("{#}{% raw %}#}{% set a = mark() %}{# {% endraw %} #}").as_deref(), Some("mk"));
    }

    #[test]
    fn tags_behind_raw_text_are_counted() {
        let sum = "+1".repeat(MAX_TAG_PARTS);
        for head in ["", "{% raw %}{#{% endraw %}", "{%- raw -%}'{% endraw x %}{{{%- endraw -%}", "{#}#}"] {
            assert!(
                check(&format!("{head}\n{{{{ 1{sum} }}}}")).is_err_and(|e| e.starts_with("line 2: ")),
                "{head}"
            );
            assert_eq!(
                check(&format!("{head}{{# 1{sum} #}}{{% raw %}}{{{{ 1{sum} }}}}{{% endraw %}}")),
                Ok(())
            );
        }
    }

    #[test]
    fn names_of_guards_are_taken() {
        for tag in ["{% set __keep_in_namespace = namespace %}", "{% macro __step() %}{% endmacro %}"] {
            assert!(check(tag).is_err(), "{tag}");
        }
        assert_eq!(check("__keep {# __step #}{% raw %}{{ __keep }}{% endraw %}"), Ok(()));
    }
}
