//! Tokenizers: made from a tokenizer.json or from the lists of a GGUF file.

use crate::border::{guard, guard_into, slice, text, Buffer, Ids, Result};
use crate::limits::{within, Limits};
use crate::splitter::Splitter;
use crate::steps::{Normalization, PreTokenization, Tokenizer};
use crate::token_text::TokenText;
use crate::worker::Crew;
use ahash::AHashMap;
use serde_json::{json, Value};
use std::ops::Range;
use std::time::Duration;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::ModelWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::AddedToken;

/// Ids beyond this are a broken file, not a vocabulary.
const MAX_ID: u32 = 1 << 24;
/// WordPiece looks at every part of a word, from every place in it. Real ones have 100.
const MAX_WORD: usize = 10_000;

static WORKERS: Crew = Crew::new();

pub struct Handle {
    tokenizer: Tokenizer,
    splitter: Splitter,
    token_text: TokenText,
    /// For what is asked of the whole vocabulary.
    limits: Limits,
}

/// Loading a file of this size. The greatest real ones take 30 times their bytes.
fn loading(bytes: usize) -> Limits {
    Limits { bytes: (256 << 20) + 64 * bytes, time: Duration::from_secs(60) }
}

/// Encoding a text of this size. Real ones take up to 300 times its bytes and 4 microseconds for each.
fn encoding(bytes: usize) -> Limits {
    Limits { bytes: (64 << 20) + 1024 * bytes, time: Duration::from_micros(10_000_000 + 30 * bytes as u64) }
}

impl Handle {
    fn new(mut tokenizer: Tokenizer, limits: Limits) -> Result<Self> {
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        if let ModelWrapper::WordPiece(model) = tokenizer.get_model() {
            let most = model.max_input_chars_per_word;
            if most > MAX_WORD {
                return Err(format!(
                    "model.max_input_chars_per_word: expected at most {MAX_WORD}, found {most}"
                ));
            }
        }
        // For training: with it the same text has other ids every time.
        let random = match tokenizer.get_model() {
            ModelWrapper::BPE(model) if model.dropout.is_some() => Some(model.clone()),
            _ => None,
        };
        if let Some(mut model) = random {
            model.dropout = None;
            tokenizer.with_model(model);
        }
        let decoder = serde_json::to_value(tokenizer.get_decoder()).map_err(|e| e.to_string())?;
        let splitter = Splitter::new(&tokenizer)?;
        Ok(Handle { tokenizer, splitter, token_text: TokenText::new(&decoder)?, limits })
    }

    fn from_json(json: &[u8]) -> Result<Self> {
        // The crate panics on some broken JSON.
        let text = std::str::from_utf8(json).map_err(|e| format!("expected UTF-8: {e}"))?;
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|e| e.to_string())?;
        Self::new(Tokenizer::from_bytes(json).map_err(|e| e.to_string())?, loading(json.len()))
    }

    fn from_bpe(lists: &BpeLists) -> Result<Self> {
        let pipeline = &lists.pipeline;
        let merges = lists.merge_pairs()?;
        let mut vocabulary: AHashMap<String, u32> =
            lists.tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), id)).collect();
        let has_byte_tokens = pipeline["byte_fallback"] == true;
        if has_byte_tokens {
            add_spellings(&merges, &mut vocabulary);
        }
        let model = BPE::builder()
            .vocab_and_merges(vocabulary, merges)
            .byte_fallback(has_byte_tokens)
            .ignore_merges(pipeline["ignore_merges"] == true)
            .build()
            .map_err(|e| format!("merges: {e}"))?;
        let mut tokenizer = Tokenizer::new(ModelWrapper::from(model));
        tokenizer.with_normalizer(part::<Normalization>(pipeline, "normalizer")?);
        tokenizer.with_pre_tokenizer(part::<PreTokenization>(pipeline, "pre_tokenizer")?);
        match part::<DecoderWrapper>(pipeline, "decoder")? {
            Some(decoder) => tokenizer.with_decoder(Some(decoder)),
            None => tokenizer.with_decoder(Some(ByteLevel::default())),
        };
        let added = |special| {
            let tokens = lists.tokens.iter().zip(lists.types);
            let of_kind = tokens.filter(|(_, &kind)| kind == if special { 2 } else { 1 });
            let make = |token: &str| AddedToken::from(token, special).normalized(false);
            of_kind.map(|(token, _)| make(token)).collect::<Vec<_>>()
        };
        tokenizer.add_special_tokens(&added(true));
        tokenizer.add_tokens(&added(false));
        Self::new(tokenizer, lists.limits())
    }

    fn encode(&self, text: &str, own: &[Range<usize>]) -> Result<Vec<i32>> {
        if !own.is_empty() {
            return self.splitter.encode(&self.tokenizer, text, own);
        }
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().iter().map(|&id| id as i32).collect())
    }

    fn kind(&self) -> &'static str {
        let spelled_in_bytes = self.token_text.is_byte_level();
        match self.tokenizer.get_model() {
            ModelWrapper::BPE(_) if spelled_in_bytes => "byte-level BPE",
            ModelWrapper::BPE(_) if self.token_text.has_byte_fallback() => "SentencePiece BPE",
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::Unigram(_) => "Unigram",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
        }
    }

    /// The special tokens that the post-processor puts before a text.
    fn start_tokens(&self) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode("a", true).map_err(|e| e.to_string())?;
        let own = encoding.get_special_tokens_mask().iter().take_while(|&&mask| mask == 1).count();
        Ok(encoding.get_ids()[..own].to_vec())
    }

    fn describe(&self) -> Result<Vec<u8>> {
        let facts = json!({
            "kind": self.kind(),
            "drops_first_space": self.token_text.drops_first_space,
            "start_tokens": self.start_tokens()?,
        });
        Ok(facts.to_string().into_bytes())
    }

    fn pieces(&self) -> Result<Vec<u8>> {
        let vocabulary = self.tokenizer.get_vocab(true);
        let highest = vocabulary.values().copied().max();
        if highest.is_some_and(|id| id > MAX_ID) {
            return Err(format!("vocabulary: expected ids up to {MAX_ID}, found {highest:?}"));
        }
        let mut pieces = vec![None; highest.map_or(0, |id| id as usize + 1)];
        for (piece, id) in vocabulary {
            // Of several spellings of a token always the same: `<0x09>` before the character.
            let known: &mut Option<String> = &mut pieces[id as usize];
            if known.as_ref().map_or(true, |other| piece > *other) {
                *known = Some(piece);
            }
        }
        let added = self.tokenizer.get_added_tokens_decoder();
        let mut table = Vec::with_capacity(pieces.len() * 24);
        for (id, piece) in pieces.iter().enumerate() {
            let added = added.get(&(id as u32));
            let text = match (piece, added) {
                (Some(piece), None) => self.token_text.bytes(piece),
                (Some(_), Some(added)) if added.special => added.content.as_bytes().to_vec(),
                (Some(_), Some(added)) => self.token_text.added_bytes(&added.content),
                (None, _) => Vec::new(),
            };
            let special = added.is_some_and(|token| token.special);
            let piece_bytes = piece.as_deref().unwrap_or_default().as_bytes();
            table.extend_from_slice(&(piece_bytes.len() as u32).to_ne_bytes());
            table.extend_from_slice(&(text.len() as u32).to_ne_bytes());
            table.push(u8::from(piece.is_some()) | u8::from(special) << 1);
            table.extend_from_slice(piece_bytes);
            table.extend_from_slice(&text);
        }
        Ok(table)
    }
}

/// The C struct of that name, checked.
struct BpeLists<'a> {
    tokens: Vec<&'a str>,
    types: &'a [u8],
    merges: Vec<&'a str>,
    pipeline: Value,
}

impl<'a> BpeLists<'a> {
    unsafe fn new(raw: &RawBpe) -> Result<Self> {
        let pipeline = slice(raw.pipeline, raw.pipeline_size);
        Ok(BpeLists {
            tokens: strings("tokens", raw.tokens, slice(raw.token_sizes, raw.token_count))?,
            types: slice(raw.token_types, raw.token_count),
            merges: strings("merges", raw.merges, slice(raw.merge_sizes, raw.merge_count))?,
            pipeline: serde_json::from_slice(pipeline).map_err(|e| e.to_string())?,
        })
    }

    fn limits(&self) -> Limits {
        let bytes = |list: &[&str]| list.iter().map(|item| item.len() + 16).sum::<usize>();
        loading(bytes(&self.tokens) + bytes(&self.merges))
    }

    fn merge_pairs(&self) -> Result<Vec<(String, String)>> {
        let pair = |(index, merge): (usize, &&str)| match merge.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() => {
                Ok((left.to_owned(), right.to_owned()))
            }
            _ => Err(format!("merges[{index}]: expected two pieces with a space between, found {merge:?}")),
        };
        self.merges.iter().enumerate().map(pair).collect()
    }
}

/// Merges may spell a token otherwise than the list of tokens: a character whose token is that of its byte, and U+2581 for
/// spaces.
fn add_spellings(merges: &[(String, String)], vocabulary: &mut AHashMap<String, u32>) {
    for (left, right) in merges {
        for spelling in [left.clone(), right.clone(), format!("{left}{right}")] {
            let other = match spelling.as_bytes() {
                _ if vocabulary.contains_key(&spelling) => continue,
                [byte] => format!("<0x{byte:02X}>"),
                _ => spelling.replace('\u{2581}', " "),
            };
            if let Some(&id) = vocabulary.get(&other) {
                vocabulary.insert(spelling, id);
            }
        }
    }
}

unsafe fn strings<'a>(field: &str, data: *const u8, sizes: &[u32]) -> Result<Vec<&'a str>> {
    let total: usize = sizes.iter().map(|&size| size as usize).sum();
    let mut rest: &'a [u8] = slice(data, total);
    let mut take = |(index, &size): (usize, &u32)| {
        let (item, after) = rest.split_at(size as usize);
        rest = after;
        std::str::from_utf8(item).map_err(|e| format!("{field}[{index}]: expected UTF-8: {e}"))
    };
    sizes.iter().enumerate().map(&mut take).collect()
}

fn part<T: serde::de::DeserializeOwned>(pipeline: &Value, name: &str) -> Result<Option<T>> {
    match &pipeline[name] {
        Value::Null => Ok(None),
        value => serde_json::from_value(value.clone()).map(Some).map_err(|e| format!("{name}: {e}")),
    }
}

#[repr(C)]
pub struct RawBpe {
    tokens: *const u8,
    token_sizes: *const u32,
    token_types: *const u8,
    token_count: usize,
    merges: *const u8,
    merge_sizes: *const u32,
    merge_count: usize,
    pipeline: *const u8,
    pipeline_size: usize,
}

#[repr(C)]
pub struct RawRange {
    begin: usize,
    end: usize,
}

unsafe fn ranges(data: *const RawRange, count: usize) -> Vec<Range<usize>> {
    slice(data, count).iter().map(|range| range.begin..range.end).collect()
}

fn boxed(handle: Option<Handle>) -> *mut Handle {
    handle.map_or(std::ptr::null_mut(), |handle| Box::into_raw(Box::new(handle)))
}

/// # Safety
/// See bridge.h, as for all functions below.
#[no_mangle]
pub unsafe extern "C" fn talon_tokenizer_from_json(
    json: *const u8,
    size: usize,
    error: *mut Buffer,
) -> *mut Handle {
    // Patterns of strangers are compiled too, which takes no memory that is counted.
    boxed(guard(error, || {
        let json = slice(json, size).to_vec();
        WORKERS.run(loading(size), move || Handle::from_json(&json))
    }))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_tokenizer_from_bpe(bpe: &RawBpe, error: *mut Buffer) -> *mut Handle {
    boxed(guard(error, || {
        let lists = BpeLists::new(bpe)?;
        within(lists.limits(), || Handle::from_bpe(&lists))
    }))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_tokenizer_free(tokenizer: *mut Handle) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_tokenizer_encode(
    tokenizer: &Handle,
    data: *const u8,
    size: usize,
    own: *const RawRange,
    own_count: usize,
    ids: *mut Ids,
    error: *mut Buffer,
) -> bool {
    guard_into(ids, error, || {
        let (text, own) = (text(data, size)?, ranges(own, own_count));
        within(encoding(size), || tokenizer.encode(text, &own))
    })
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_tokenizer_describe(
    tokenizer: &Handle,
    json: *mut Buffer,
    error: *mut Buffer,
) -> bool {
    guard_into(json, error, || within(tokenizer.limits, || tokenizer.describe()))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_tokenizer_pieces(
    tokenizer: &Handle,
    table: *mut Buffer,
    error: *mut Buffer,
) -> bool {
    guard_into(table, error, || within(tokenizer.limits, || tokenizer.pieces()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word_piece(most: usize) -> Result<Handle> {
        let json = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": false},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": most, "vocab": {"[UNK]": 0, "a": 1, "##a": 2}},
        });
        Handle::from_json(json.to_string().as_bytes())
    }

    #[test]
    fn words_of_word_piece_have_a_bound() {
        assert_eq!(word_piece(100).unwrap().encode("aa", &[]).unwrap(), [1, 2]);
        let error = word_piece(1 << 30).err().unwrap();
        assert!(
            error.starts_with("model.max_input_chars_per_word: expected at most 10000, found"),
            "{error}"
        );
    }
}
