//! Grammars: what of a vocabulary may come next, by the crate `llguidance`. Grammars come from strangers: compiling one, and
//! every question about a place in a text, is bounded in memory and time.

use crate::border::{guard, guard_into, slice, text, Buffer, Ids, Result, BUSY};
use crate::gbnf;
use crate::limits::{exceeded, within, Ended, Limits};
use crate::worker::Crew;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{
    InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv,
};
use llguidance::{ParserFactory, TokenParser};
use serde_json::{json, Value};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::time::Duration;

static WORKERS: Crew = Crew::new();
const COMPILING: Limits = Limits { bytes: 256 << 20, time: Duration::from_secs(3) };
/// Each answer has a state of its own.
const STARTING: Limits = Limits { bytes: 32 << 20, time: Duration::from_secs(1) };
const ASKING: Limits = Limits { bytes: 128 << 20, time: Duration::from_secs(1) };
/// A state of the lexer takes 1 to 2 KB.
const MOST_LEXER_STATES: usize = 50_000;
/// Bytes that are forced at once become tokens at once; the last of them may go on beyond the cut.
const MOST_FORCED: usize = 1024;
/// Bytes of a message: the crate's may repeat all of the source.
const MOST_SAID: usize = 1000;
const UNSURE_TOKENS: usize = 4;
/// What goes on with text that is free; any token would do.
const LETTER: &[u8] = b"a";
/// Nodes of the vocabulary's tree that are looked at in the time of one item of a grammar.
const NODES_PER_ITEM: usize = 16;

/// Writes at most `room` ids of `text` and says how many there are; -1: it cannot be encoded; less: not now.
type Encode = unsafe extern "C" fn(
    context: *const c_void,
    text: *const u8,
    size: usize,
    ids: *mut u32,
    room: usize,
) -> isize;

/// The model's vocabulary, and one token more that stands for the end.
struct Vocabulary {
    trie: TokTrie,
    encode: Encode,
    context: *const c_void,
}

// SAFETY: the caller's function and what it is given may be used from any thread (bridge.h).
unsafe impl Send for Vocabulary {}
unsafe impl Sync for Vocabulary {}

impl Vocabulary {
    /// As the tokenizer has it, if its tokens spell just these bytes.
    fn encoded(&self, bytes: &[u8]) -> Option<Vec<TokenId>> {
        let mut ids = vec![0; bytes.len() + 8];
        // SAFETY: as bridge.h says.
        let count =
            unsafe { (self.encode)(self.context, bytes.as_ptr(), bytes.len(), ids.as_mut_ptr(), ids.len()) };
        if let Some(explanation) = exceeded() {
            std::panic::resume_unwind(Box::new(Ended(explanation)));
        }
        if count < -1 {
            std::panic::resume_unwind(Box::new(Ended(format!("{BUSY}a text could not be encoded"))));
        }
        ids.truncate(usize::try_from(count).ok()?);
        let known = ids.iter().all(|&id| (id as usize) < self.trie.vocab_size());
        (known && self.trie.decode_raw(&ids) == bytes).then_some(ids)
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let head = &bytes[..bytes.len().min(MOST_FORCED)];
        let mut ids = self.encoded(head).unwrap_or_else(|| self.trie.greedy_tokenize(head));
        if head.len() < bytes.len() {
            ids.truncate(ids.len().saturating_sub(UNSURE_TOKENS).max(1));
        }
        ids
    }
}

pub struct Engine {
    factory: Arc<ParserFactory>,
    end: TokenId,
}

impl Engine {
    fn new(words: Vec<Vec<u8>>, encode: Encode, context: *const c_void) -> Result<Self> {
        let end = words.len() as TokenId - 1;
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, end), &words);
        let environment: TokEnv = Arc::new(Vocabulary { trie, encode, context });
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(|e| e.to_string())?;
        factory.quiet();
        factory.limits_mut().max_lexer_states = MOST_LEXER_STATES;
        factory.limits_mut().verbose_errors = false;
        Ok(Engine { factory: Arc::new(factory), end })
    }

    fn compile(&self, kind: u32, source: &str) -> Result<Grammar> {
        let (factory, end, source) = (self.factory.clone(), self.end, source.to_owned());
        WORKERS.run(COMPILING, move || {
            let mut parser =
                factory.create_parser(grammar_of(kind, &source)?).map_err(|e| plain(&e.to_string()))?;
            parser.start_without_prompt();
            // Grammars of which no text is, or none in this vocabulary.
            mask_or_end(&mut parser).map_err(|e| plain(&e.to_string()))?;
            Ok(Grammar { parser: Mutex::new(parser), end })
        })
    }
}

fn grammar_of(kind: u32, source: &str) -> Result<TopLevelGrammar> {
    match kind {
        0 => Ok(TopLevelGrammar::from_json_schema(spaced(parse(source)?))),
        1 => Ok(TopLevelGrammar::from_regex(source)),
        2 => Ok(TopLevelGrammar::from_lark(source.to_owned())),
        3 => Ok(TopLevelGrammar::from_lark(gbnf::to_lark(source)?)),
        5 => led(&parse(source)?),
        _ => Ok(TopLevelGrammar::from_lark(choice_of(&parse(source)?)?)),
    }
}

fn led(parts: &Value) -> Result<TopLevelGrammar> {
    let (kind, text) = (parts["kind"].as_u64(), |name: &str| parts[name].as_str().unwrap_or_default());
    let kind = kind.filter(|&kind| kind < 5).ok_or("expected the kind of a grammar, found none")?;
    let mut whole = TopLevelGrammar::from_lark(text("lead").to_owned());
    for mut rest in grammar_of(kind as u32, text("source"))?.grammars {
        rest.name = Some("answer".to_owned());
        whole.grammars.push(rest);
    }
    Ok(whole)
}

fn parse(source: &str) -> Result<Value> {
    serde_json::from_str(source).map_err(|e| format!("expected JSON: {e}"))
}

/// Unless the schema says how, JSON is written on one line with a space after `,` and `:`: then all between values is forced,
/// and no model can go on with spaces for ever.
fn spaced(mut schema: Value) -> Value {
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if let Some(object) = schema.as_object_mut() {
        object.entry("x-guidance").or_insert_with(
            || json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}),
        );
    }
    schema
}

fn choice_of(list: &Value) -> Result<String> {
    let texts: Option<Vec<&str>> =
        list.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
    match texts {
        Some(texts) if !texts.is_empty() && texts.iter().all(|text| !text.is_empty()) => {
            let quoted: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
            Ok(format!("start: {}", quoted.join(" | ")))
        }
        _ => Err("expected a list of texts that are not empty".to_owned()),
    }
}

/// A message without what the crate adds for its own debugging.
fn plain(error: &str) -> String {
    if let Some(explanation) = exceeded() {
        return explanation;
    }
    let end = error.find("\n<").unwrap_or(error.len());
    if end <= MOST_SAID {
        return error[..end].to_owned();
    }
    let cut = (0..=MOST_SAID).rfind(|&at| error.is_char_boundary(at)).unwrap_or(0);
    format!("{}...", &error[..cut])
}

/// Only the end where the text is whole.
fn mask_or_end(parser: &mut TokenParser) -> anyhow::Result<SimpleVob> {
    if parser.stopped() {
        return Ok(parser.token_env.tok_trie().eos_token_set());
    }
    parser.compute_mask()
}

fn take(parser: &mut TokenParser, token: TokenId) -> anyhow::Result<()> {
    let back = parser.consume_token(token)?;
    anyhow::ensure!(back == 0, "expected no step back, found {back}");
    parser.check_stop()?;
    Ok(())
}

/// What the library counts of its own work since the parser was made.
fn work_of(parser: &TokenParser) -> u64 {
    let stats = parser.parser_stats();
    let items = stats.all_items + stats.definitive_bytes + stats.trie_nodes_walked / NODES_PER_ITEM;
    stats.lexer_cost + items as u64
}

pub struct Grammar {
    parser: Mutex<TokenParser>,
    end: TokenId,
}

/// A place in a text.
pub struct State {
    parser: TokenParser,
    end: TokenId,
    tokens: usize,
    /// Of the parser before the first question.
    work_before: u64,
}

impl State {
    fn start(grammar: &Grammar) -> Result<Self> {
        // A copy that was ended has changed nothing.
        let original = grammar.parser.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let parser = original.deep_clone();
        let work_before = work_of(&parser);
        Ok(State { parser, end: grammar.end, tokens: 0, work_before })
    }

    fn go(&mut self, keep: usize, tokens: &[TokenId]) -> Result<()> {
        if keep > self.tokens {
            return Err(format!("expected at most {} tokens to keep, found {keep}", self.tokens));
        }
        let back = self.tokens - keep;
        if back > 0 {
            self.done(|parser| parser.rollback(back))?;
            // The library keeps its last mask by the number of a row, which may be that of another text now.
            self.parser.invalidate_bias_cache();
        }
        self.tokens = keep;
        for &token in tokens {
            self.done(|parser| take(parser, token))?;
            self.tokens += 1;
        }
        Ok(())
    }

    fn mask(&mut self, words: &mut [u32]) -> Result<()> {
        let mask = self.done(mask_or_end)?;
        let bits = mask.as_slice();
        for (index, word) in words.iter_mut().enumerate() {
            *word = bits.get(index).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn allows(&mut self, token: TokenId) -> Result<bool> {
        if self.parser.stopped() {
            return Ok(token == self.end);
        }
        if let Some(&forced) = self.forced().first() {
            return Ok(token == forced);
        }
        if token == self.end {
            return Ok(self.parser.is_accepting());
        }
        self.done(|parser| parser.validate_tokens_raw(&[token])).map(|count| count == 1)
    }

    /// The library stops where no lexeme is open: a last one whose end is not known before more comes is asked about.
    fn is_complete(&mut self) -> Result<bool> {
        if self.parser.stopped() {
            return Ok(true);
        }
        if !self.parser.is_accepting() {
            return Ok(false);
        }
        // Free text goes on with any letter: to ask about one takes less than about all tokens.
        let letter = self.parser.token_env.tok_trie().token_id(LETTER);
        if letter.map_or(Ok(false), |letter| self.allows(letter))? {
            return Ok(false);
        }
        let mask = self.done(mask_or_end)?;
        Ok(mask.num_set() == 1 && mask.is_allowed(self.end))
    }

    fn forced(&mut self) -> Vec<TokenId> {
        if self.parser.stopped() {
            return Vec::new();
        }
        self.parser.compute_ff_tokens()
    }

    fn done<T>(&mut self, ask: impl FnOnce(&mut TokenParser) -> anyhow::Result<T>) -> Result<T> {
        ask(&mut self.parser).map_err(|e| plain(&e.to_string()))
    }
}

/// # Safety
/// See bridge.h, as for all functions below.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_engine_new(
    data: *const u8,
    sizes: *const u32,
    count: usize,
    encode: Encode,
    context: *const c_void,
    error: *mut Buffer,
) -> *mut Engine {
    boxed(guard(error, || {
        let sizes = slice(sizes, count);
        let mut rest = slice(data, sizes.iter().map(|&size| size as usize).sum());
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(count + 1);
        for &size in sizes {
            let (word, after) = rest.split_at(size as usize);
            words.push(word.to_vec());
            rest = after;
        }
        words.push(b"\xff<talon-end>".to_vec());
        Engine::new(words, encode, context)
    }))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_engine_free(engine: *mut Engine) {
    free(engine);
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_compile(
    engine: &Engine,
    kind: u32,
    source: *const u8,
    size: usize,
    error: *mut Buffer,
) -> *mut Grammar {
    boxed(guard(error, || engine.compile(kind, text(source, size)?)))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_free(grammar: *mut Grammar) {
    free(grammar);
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_start(grammar: &Grammar, error: *mut Buffer) -> *mut State {
    boxed(guard(error, || within(STARTING, || State::start(grammar))))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_state_free(state: *mut State) {
    free(state);
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_go(
    state: &mut State,
    keep: usize,
    tokens: *const u32,
    count: usize,
    error: *mut Buffer,
) -> bool {
    guard(error, || within(ASKING, || state.go(keep, slice(tokens, count)))).is_some()
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_mask(
    state: &mut State,
    words: *mut u32,
    count: usize,
    error: *mut Buffer,
) -> bool {
    let words = std::slice::from_raw_parts_mut(words, count);
    guard(error, || within(ASKING, || state.mask(words))).is_some()
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_allows(
    state: &mut State,
    token: u32,
    allows: *mut bool,
    error: *mut Buffer,
) -> bool {
    guard_into(allows, error, || within(ASKING, || state.allows(token)))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_forced(state: &mut State, ids: *mut Ids, error: *mut Buffer) -> bool {
    guard_into(ids, error, || {
        let tokens = within(ASKING, || state.forced());
        Ok(tokens.into_iter().map(|token| token as i32).collect::<Vec<_>>())
    })
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_is_complete(
    state: &mut State,
    complete: *mut bool,
    error: *mut Buffer,
) -> bool {
    guard_into(complete, error, || within(ASKING, || state.is_complete()))
}

/// # Safety
/// See bridge.h.
#[no_mangle]
pub unsafe extern "C" fn talon_grammar_work(state: &State) -> u64 {
    work_of(&state.parser).saturating_sub(state.work_before)
}

fn boxed<T>(made: Option<T>) -> *mut T {
    made.map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

unsafe fn free<T>(made: *mut T) {
    if !made.is_null() {
        drop(Box::from_raw(made));
    }
}
