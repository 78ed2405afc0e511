//! Text to ids where parts of the text are somebody's own words: there the text of a special token is ordinary text. The steps
//! are those of the crate's `encode`, which knows only all of a text or nothing.

use crate::border::Result;
use crate::steps::Tokenizer;
use ahash::AHashMap;
use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use std::ops::Range;
use tokenizers::tokenizer::normalizer::Range as Part;
use tokenizers::tokenizer::{Model, Normalizer, PreTokenizer};
use tokenizers::{AddedToken, NormalizedString, OffsetReferential, OffsetType, PreTokenizedString, Token};

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Finds the added tokens of a tokenizer in a text.
pub struct Splitter {
    raw: Matcher,
    /// Those that are looked for after normalization.
    normalized: Matcher,
    special: AHashMap<u32, String>,
}

impl Splitter {
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let mut tokens: Vec<(u32, AddedToken)> = tokenizer.get_added_tokens_decoder().into_iter().collect();
        // Of two that are spelled alike the first is found.
        tokens.sort_by_key(|(id, token)| (!token.special, *id));
        let special = tokens.iter().filter(|(_, token)| token.special);
        let special = special.map(|(id, token)| (*id, token.content.clone())).collect();
        let spelled = |(id, token): (u32, AddedToken)| -> Result<Added> {
            let mut text = NormalizedString::from(token.content.as_str());
            if let (true, Some(normalizer)) = (token.normalized, tokenizer.get_normalizer()) {
                normalizer.normalize(&mut text).map_err(|e| e.to_string())?;
            }
            Ok(Added { id, text: text.get().to_owned(), token })
        };
        let added = tokens.into_iter().map(spelled).collect::<Result<Vec<_>>>()?;
        let (normalized, raw) = added.into_iter().partition(|added| added.token.normalized);
        Ok(Splitter { raw: Matcher::new(raw)?, normalized: Matcher::new(normalized)?, special })
    }

    /// Ids of `text`. `own`: parts in order, in bytes, that no special token may touch.
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str, own: &[Range<usize>]) -> Result<Vec<i32>> {
        self.pieces(tokenizer, text, own).map_err(|e| e.to_string())
    }

    fn pieces(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        own: &[Range<usize>],
    ) -> std::result::Result<Vec<i32>, Problem> {
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, piece| Ok(self.raw.cut(piece, own)))?;
        pieces.split(|_, mut piece| {
            if let Some(normalizer) = tokenizer.get_normalizer() {
                normalizer.normalize(&mut piece)?;
            }
            Ok(self.normalized.cut(piece, own))
        })?;
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| self.tokenize(tokenizer.get_model(), piece.get()))?;
        let pieces = pieces.get_splits(OffsetReferential::Normalized, OffsetType::None);
        let tokens = pieces.iter().flat_map(|(_, _, tokens)| tokens.iter().flatten());
        Ok(tokens.map(|token| token.id as i32).collect())
    }

    /// Some models know special tokens as ordinary words: where they find one it is spelled out.
    fn tokenize(&self, model: &impl Model, piece: &str) -> std::result::Result<Vec<Token>, Problem> {
        let tokens = model.tokenize(piece)?;
        if !tokens.iter().any(|token| self.spells_special(token, piece)) {
            return Ok(tokens);
        }
        let mut spelled = Vec::new();
        for token in tokens {
            if !self.spells_special(&token, piece) {
                spelled.push(token);
                continue;
            }
            for character in piece[token.offsets.0..token.offsets.1].chars() {
                let text = character.to_string();
                spelled.extend(
                    model.tokenize(&text)?.into_iter().filter(|one| !self.spells_special(one, &text)),
                );
            }
        }
        Ok(spelled)
    }

    /// The text itself is that of a special token: not an unknown word, for which one may stand.
    fn spells_special(&self, token: &Token, piece: &str) -> bool {
        let text = piece.get(token.offsets.0..token.offsets.1);
        self.special.get(&token.id).is_some_and(|content| text == Some(content))
    }
}

struct Added {
    id: u32,
    /// What is looked for.
    text: String,
    token: AddedToken,
}

/// Of several that begin at one place the longest is found.
struct Matcher {
    added: Vec<Added>,
    all: AhoCorasick,
    /// The places in `added` of those that are not special, and what finds them.
    ordinary: Vec<usize>,
    find_ordinary: AhoCorasick,
}

impl Matcher {
    fn new(mut added: Vec<Added>) -> Result<Self> {
        added.retain(|added| !added.text.is_empty());
        let ordinary: Vec<usize> = (0..added.len()).filter(|&i| !added[i].token.special).collect();
        let find = |texts: Vec<&str>, start| {
            let mut builder = AhoCorasick::builder();
            builder.match_kind(MatchKind::LeftmostLongest).start_kind(start);
            builder.build(texts).map_err(|e| e.to_string())
        };
        let all = find(added.iter().map(|added| added.text.as_str()).collect(), StartKind::Unanchored)?;
        let texts = ordinary.iter().map(|&i| added[i].text.as_str()).collect();
        let find_ordinary = find(texts, StartKind::Anchored)?;
        Ok(Matcher { added, all, ordinary, find_ordinary })
    }

    /// `piece` in parts; those that an added token matches have it.
    fn cut(
        &self,
        piece: NormalizedString,
        own: &[Range<usize>],
    ) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        let text = piece.get();
        let mut parts = Vec::new();
        let mut done = 0;
        let mut at = 0;
        let mut push = |range: Range<usize>, id: Option<u32>| {
            let Some(part) = piece.slice(Part::Normalized(range)) else { return };
            let token = id.map(|id| vec![Token::new(id, part.get().to_owned(), (0, part.get().len()))]);
            parts.push((part, token));
        };
        while let Some((found, added)) = self.next(&piece, at, own) {
            at = found.end;
            let Some(range) = widened(text, found, done, &added.token) else { continue };
            if done < range.start {
                push(done..range.start, None);
            }
            done = range.end;
            at = at.max(done);
            push(range, Some(added.id));
        }
        if done < text.len() {
            push(done..text.len(), None);
        }
        parts
    }

    /// The first match at or after `at` that may be taken.
    fn next(
        &self,
        piece: &NormalizedString,
        mut at: usize,
        own: &[Range<usize>],
    ) -> Option<(Range<usize>, &Added)> {
        let text = piece.get();
        loop {
            let found = self.all.find(Input::new(text).range(at..))?;
            let added = &self.added[found.pattern().as_usize()];
            if !added.token.special || !touches(&original(piece, found.range()), own) {
                return Some((found.range(), added));
            }
            let here = Input::new(text).range(found.start()..).anchored(Anchored::Yes);
            if let Some(other) = self.find_ordinary.find(here) {
                return Some((other.range(), &self.added[self.ordinary[other.pattern().as_usize()]]));
            }
            at = found.start() + text[found.start()..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

/// A match with the white space that its token takes; nothing if it is part of a word and may not be.
fn widened(text: &str, found: Range<usize>, done: usize, token: &AddedToken) -> Option<Range<usize>> {
    let (before, after) = (&text[..found.start], &text[found.end..]);
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if token.single_word && (in_word(before.chars().next_back()) || in_word(after.chars().next())) {
        return None;
    }
    let start = if token.lstrip { before.trim_end().len().max(done) } else { found.start };
    let end = if token.rstrip { text.len() - after.trim_start().len() } else { found.end };
    Some(start..end)
}

/// Where a part of a piece lies in the whole text.
fn original(piece: &NormalizedString, range: Range<usize>) -> Range<usize> {
    let begin = piece.offsets_original().0;
    match piece.convert_offsets(Part::Normalized(range)) {
        Some(range) => begin + range.start..begin + range.end,
        None => begin..piece.offsets_original().1,
    }
}

fn touches(range: &Range<usize>, own: &[Range<usize>]) -> bool {
    let first = own.partition_point(|part| part.end <= range.start);
    own.get(first).is_some_and(|part| part.start < range.end)
}
