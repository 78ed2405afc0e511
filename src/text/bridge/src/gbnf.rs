//! llama.cpp's grammars (GBNF) as Lark. What is regular becomes one terminal, so that the lexer does its work; a terminal takes
//! the longest text that it can, where GBNF would try shorter ones, too.

use crate::border::Result;
use std::collections::HashMap;
use std::fmt::Write;

const DEEPEST: usize = 200;

enum Atom {
    /// A regular expression.
    Pattern(String),
    Rule(usize),
    Group(Vec<Vec<Item>>),
}

struct Item {
    atom: Atom,
    repeat: &'static str,
    /// Of `{m,n}`, in place of `repeat`.
    count: Option<String>,
}

pub fn to_lark(source: &str) -> Result<String> {
    let mut parser =
        Parser { text: source.chars().collect(), at: 0, names: HashMap::new(), rules: Vec::new() };
    parser.rules()?;
    let root = *parser.names.get("root").ok_or("expected a rule named root, found none")?;
    let mut names: Vec<(&String, &usize)> = parser.names.iter().collect();
    names.sort();
    if let Some((name, _)) = names.into_iter().find(|(_, &rule)| parser.rules[rule].is_none()) {
        return Err(format!("expected a rule named {name}, found none"));
    }
    let rules: Vec<Vec<Vec<Item>>> = parser.rules.into_iter().flatten().collect();
    let writer = Writer { regular: regular_rules(&rules), rules: &rules };
    Ok(writer.write(root))
}

/// Rules from which none is reached that reaches itself.
fn regular_rules(rules: &[Vec<Vec<Item>>]) -> Vec<bool> {
    let mut uses: Vec<Vec<usize>> = Vec::new();
    for rule in rules {
        let mut found = Vec::new();
        collect_uses(rule, &mut found);
        uses.push(found);
    }
    // A rule is regular once all that it uses are.
    let mut regular = vec![false; rules.len()];
    loop {
        let mut changed = false;
        for rule in 0..rules.len() {
            if !regular[rule] && uses[rule].iter().all(|&used| regular[used]) {
                regular[rule] = true;
                changed = true;
            }
        }
        if !changed {
            return regular;
        }
    }
}

fn collect_uses(alternatives: &[Vec<Item>], found: &mut Vec<usize>) {
    for item in alternatives.iter().flatten() {
        match &item.atom {
            Atom::Pattern(_) => {}
            Atom::Rule(rule) => found.push(*rule),
            Atom::Group(inner) => collect_uses(inner, found),
        }
    }
}

struct Writer<'a> {
    regular: Vec<bool>,
    rules: &'a [Vec<Vec<Item>>],
}

impl Writer<'_> {
    fn write(&self, root: usize) -> String {
        let mut lark = format!("start: {}\n", self.name(root));
        for (index, rule) in self.rules.iter().enumerate() {
            let mut terminals = String::new();
            let mut count = 0;
            let body = if self.regular[index] {
                self.alternatives(rule)
            } else {
                self.with_terminals(rule, index, &mut terminals, &mut count)
            };
            let _ = writeln!(lark, "{}: {body}\n{terminals}", self.name(index));
        }
        lark
    }

    fn name(&self, rule: usize) -> String {
        format!("{}{rule}", if self.regular[rule] { "R" } else { "r" })
    }

    fn is_regular(&self, item: &Item) -> bool {
        match &item.atom {
            Atom::Pattern(_) => true,
            Atom::Rule(rule) => self.regular[*rule],
            Atom::Group(inner) => inner.iter().flatten().all(|item| self.is_regular(item)),
        }
    }

    fn alternatives(&self, alternatives: &[Vec<Item>]) -> String {
        let sequence = |items: &Vec<Item>| {
            let texts: Vec<String> = items.iter().map(|item| self.item(item)).collect();
            if texts.is_empty() {
                "\"\"".to_owned()
            } else {
                texts.join(" ")
            }
        };
        alternatives.iter().map(sequence).collect::<Vec<_>>().join(" | ")
    }

    fn item(&self, item: &Item) -> String {
        let atom = match &item.atom {
            Atom::Pattern(pattern) => format!("/{pattern}/"),
            Atom::Rule(rule) => self.name(*rule),
            Atom::Group(inner) => format!("({})", self.alternatives(inner)),
        };
        repeated(atom, item)
    }

    /// As `alternatives`, but what is regular of a sequence becomes a terminal of its own.
    fn with_terminals(
        &self,
        alternatives: &[Vec<Item>],
        rule: usize,
        terminals: &mut String,
        count: &mut usize,
    ) -> String {
        let mut texts = Vec::new();
        for items in alternatives {
            let mut parts: Vec<String> = Vec::new();
            for run in items.chunk_by(|a, b| self.is_regular(a) && self.is_regular(b)) {
                if self.is_regular(&run[0]) {
                    let name = format!("R{rule}_{count}");
                    *count += 1;
                    let body: Vec<String> = run.iter().map(|item| self.item(item)).collect();
                    let _ = writeln!(terminals, "{name}: {}", body.join(" "));
                    parts.push(name);
                    continue;
                }
                for item in run {
                    let atom = match &item.atom {
                        Atom::Group(inner) => {
                            format!("({})", self.with_terminals(inner, rule, terminals, count))
                        }
                        Atom::Rule(used) => self.name(*used),
                        Atom::Pattern(pattern) => format!("/{pattern}/"),
                    };
                    parts.push(repeated(atom, item));
                }
            }
            texts.push(if parts.is_empty() { "\"\"".to_owned() } else { parts.join(" ") });
        }
        texts.join(" | ")
    }
}

fn repeated(atom: String, item: &Item) -> String {
    match &item.count {
        Some(count) => format!("({atom}){count}"),
        None => atom + item.repeat,
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    names: HashMap<String, usize>,
    rules: Vec<Option<Vec<Vec<Item>>>>,
}

impl Parser {
    fn rules(&mut self) -> Result<()> {
        self.skip(true);
        while self.at < self.text.len() {
            let name = self.name()?;
            self.skip(false);
            for expected in "::=".chars() {
                self.expect(expected)?;
            }
            self.skip(true);
            let alternatives = self.alternatives(0)?;
            let rule = self.rule_of(name);
            self.rules[rule] = Some(alternatives);
            self.skip(true);
        }
        Ok(())
    }

    fn rule_of(&mut self, name: String) -> usize {
        let next = self.rules.len();
        let rule = *self.names.entry(name).or_insert(next);
        if rule == next {
            self.rules.push(None);
        }
        rule
    }

    fn alternatives(&mut self, depth: usize) -> Result<Vec<Vec<Item>>> {
        if depth > DEEPEST {
            return Err(format!("expected at most {DEEPEST} groups inside each other, found more"));
        }
        let mut list = vec![self.sequence(depth)?];
        while self.peek() == Some('|') {
            self.at += 1;
            self.skip(true);
            list.push(self.sequence(depth)?);
        }
        Ok(list)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Item>> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let atom = match self.peek() {
                Some('"') => Atom::Pattern(self.literal()?),
                Some('[') => Atom::Pattern(self.class()?),
                Some('.') => {
                    self.at += 1;
                    Atom::Pattern("(?s:.)".to_owned())
                }
                Some('(') => {
                    self.at += 1;
                    self.skip(true);
                    let inner = self.alternatives(depth + 1)?;
                    self.expect(')')?;
                    Atom::Group(inner)
                }
                Some(c) if is_name(c) && !self.begins_rule() => {
                    let name = self.name()?;
                    Atom::Rule(self.rule_of(name))
                }
                _ => return Ok(items),
            };
            let (repeat, count) = self.repetition()?;
            items.push(Item { atom, repeat, count });
            self.skip(depth > 0);
            self.skip_to_item();
        }
    }

    /// A sequence goes on in the next line unless a rule begins there.
    fn skip_to_item(&mut self) {
        let before = self.at;
        self.skip(true);
        let goes_on =
            self.peek().is_some_and(|c| "\"[.(|)".contains(c) || (is_name(c) && !self.begins_rule()));
        if !goes_on {
            self.at = before;
        }
    }

    fn begins_rule(&self) -> bool {
        let mut at = self.at;
        while self.text.get(at).is_some_and(|&c| is_name(c)) {
            at += 1;
        }
        while self.text.get(at).is_some_and(|&c| c == ' ' || c == '\t') {
            at += 1;
        }
        self.text[at..].starts_with(&[':', ':', '='])
    }

    fn repetition(&mut self) -> Result<(&'static str, Option<String>)> {
        let simple = match self.peek() {
            Some('*') => "*",
            Some('+') => "+",
            Some('?') => "?",
            Some('{') => {
                let end =
                    self.text[self.at..].iter().position(|&c| c == '}').ok_or_else(|| self.wrong("}"))?;
                let inner: String =
                    self.text[self.at + 1..self.at + end].iter().filter(|c| !c.is_whitespace()).collect();
                let valid = !inner.is_empty() && inner.chars().all(|c| c.is_ascii_digit() || c == ',');
                if !valid || inner.matches(',').count() > 1 || inner.starts_with(',') {
                    return Err(self.wrong("{m}, {m,} or {m,n}"));
                }
                self.at += end + 1;
                return Ok(("", Some(format!("{{{inner}}}"))));
            }
            _ => return Ok(("", None)),
        };
        self.at += 1;
        Ok((simple, None))
    }

    fn literal(&mut self) -> Result<String> {
        self.expect('"')?;
        let mut pattern = String::new();
        while self.peek() != Some('"') {
            let c = self.character("\"")?;
            let _ = write!(pattern, "\\u{{{:x}}}", c as u32);
        }
        self.at += 1;
        Ok(pattern)
    }

    fn class(&mut self) -> Result<String> {
        self.expect('[')?;
        let mut pattern = "[".to_owned();
        if self.peek() == Some('^') {
            self.at += 1;
            pattern.push('^');
        }
        while self.peek() != Some(']') {
            let first = self.character("]")?;
            let _ = write!(pattern, "\\u{{{:x}}}", first as u32);
            if self.peek() == Some('-') && self.text.get(self.at + 1) != Some(&']') {
                self.at += 1;
                let last = self.character("]")?;
                let _ = write!(pattern, "-\\u{{{:x}}}", last as u32);
            }
        }
        self.at += 1;
        if pattern.len() < 3 {
            return Err(self.wrong("a character in [ ]"));
        }
        pattern.push(']');
        Ok(pattern)
    }

    fn character(&mut self, end: &str) -> Result<char> {
        let c = self.peek().ok_or_else(|| self.wrong(end))?;
        self.at += 1;
        if c != '\\' {
            return Ok(c);
        }
        let kind = self.peek().ok_or_else(|| self.wrong(end))?;
        self.at += 1;
        match kind {
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'x' => self.code(2),
            'u' => self.code(4),
            'U' => self.code(8),
            other => Ok(other),
        }
    }

    fn code(&mut self, digits: usize) -> Result<char> {
        let text: String = self.text[self.at..].iter().take(digits).collect();
        let code = u32::from_str_radix(&text, 16).ok().and_then(char::from_u32);
        let found = code.filter(|_| text.len() == digits).ok_or_else(|| self.wrong("a character's code"))?;
        self.at += digits;
        Ok(found)
    }

    fn name(&mut self) -> Result<String> {
        let begin = self.at;
        while self.peek().is_some_and(is_name) {
            self.at += 1;
        }
        if self.at == begin {
            return Err(self.wrong("a rule's name"));
        }
        Ok(self.text[begin..self.at].iter().collect())
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.peek() != Some(c) {
            return Err(self.wrong(&c.to_string()));
        }
        self.at += 1;
        Ok(())
    }

    fn wrong(&self, expected: &str) -> String {
        let line = self.text[..self.at].iter().filter(|&&c| c == '\n').count() + 1;
        match self.peek() {
            Some(c) => format!("line {line}: expected {expected}, found {c:?}"),
            None => format!("line {line}: expected {expected}, found the end"),
        }
    }

    /// Spaces and comments.
    fn skip(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '\n' | '\r' if lines => self.at += 1,
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
