#pragma once

// The border between Talon and the Rust crates it uses for text: `tokenizers`, `minijinja` and
// `llguidance`.
//
// Rules, for every function here:
// - Text goes in as UTF-8, borrowed for the call. Handles and buffers that come out belong to the
// caller, who frees each
//   exactly once with the function named beside it. Freeing null, or a buffer of size 0, does
//   nothing.
// - A function that can fail returns null or false, and then `*error` is a buffer with a message;
// on success `*error` is
//   untouched. Results are written only on success.
// - A message that begins with `busy: ` is of the moment, not of what was given: earlier work that
//   was left behind still runs, or there was no thread or no memory. Another time it may go well.
// - Handles are immutable, but for talon_grammar_state: any number of threads may use one at once.
// No Rust panic leaves a function: it becomes an error.
// - What a file or a text of a stranger makes a function take of memory and of time on the
// processor is bounded: more is an
//   error. Tokenizers of a tokenizer.json are loaded, and chat templates compiled and rendered, on
//   threads of their own, whose stacks none of them can fill.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  char* data;
  size_t size;
} talon_buffer;

typedef struct {
  int32_t* data;
  size_t size;
} talon_ids;

void talon_buffer_free(talon_buffer buffer);
void talon_ids_free(talon_ids ids);

typedef struct talon_tokenizer talon_tokenizer;

/// A BPE given as lists: strings lie end to end, their sizes in bytes beside them.
typedef struct {
  const char* tokens;
  const uint32_t* token_sizes;
  const uint8_t* token_types;  // 0: ordinary, 1: added, 2: added and special
  size_t token_count;
  const char* merges;  // "left right", best first
  const uint32_t* merge_sizes;
  size_t merge_count;
  const char* pipeline;  // JSON: {"normalizer", "pre_tokenizer", "decoder"} as in a tokenizer.json,
                         // the last ByteLevel where it is missing;
                         // {"ignore_merges": bool, "byte_fallback": bool}
  size_t pipeline_size;
} talon_bpe;

/// From the text of a Hugging Face tokenizer.json; its truncation, padding and dropout are ignored.
/// Free: talon_tokenizer_free.
talon_tokenizer* talon_tokenizer_from_json(const char* json, size_t size, talon_buffer* error);
talon_tokenizer* talon_tokenizer_from_bpe(const talon_bpe* bpe, talon_buffer* error);
void talon_tokenizer_free(talon_tokenizer* tokenizer);

typedef struct {
  size_t begin;
  size_t end;
} talon_range;

/// Ids of `text`, without what a post-processor would add. In the parts `own` (in bytes and in
/// order) the text of a special token is ordinary text. Free: talon_ids_free.
bool talon_tokenizer_encode(const talon_tokenizer* tokenizer, const char* text, size_t size,
                            const talon_range* own, size_t own_count, talon_ids* ids,
                            talon_buffer* error);

/// JSON: {"kind": text, "drops_first_space": bool, "start_tokens": the special ids that the
/// post-processor puts before a text}. Free: talon_buffer_free.
bool talon_tokenizer_describe(const talon_tokenizer* tokenizer, talon_buffer* json,
                              talon_buffer* error);

/// Every id from 0 to the highest, in order, each as: uint32 bytes of the piece, uint32 bytes of
/// the text it stands for, uint8 flags (1: the id exists, 2: special), the piece, the text. Native
/// byte order. Free: talon_buffer_free.
bool talon_tokenizer_pieces(const talon_tokenizer* tokenizer, talon_buffer* table,
                            talon_buffer* error);

typedef struct talon_template talon_template;

/// Compiles a Jinja chat template. Free: talon_template_free.
talon_template* talon_template_compile(const char* source, size_t size, talon_buffer* error);
void talon_template_free(talon_template* compiled);

/// Renders with the variables of a JSON object. Free: talon_buffer_free.
bool talon_template_render(const talon_template* compiled, const char* variables, size_t size,
                           talon_buffer* text, talon_buffer* error);

/// What grammars need of a vocabulary.
typedef struct talon_grammar_engine talon_grammar_engine;
typedef struct talon_grammar talon_grammar;
/// A place in a text. One caller at a time.
typedef struct talon_grammar_state talon_grammar_state;

/// Writes at most `room` ids of a text in the middle of others and returns how many it has; -1: it
/// has no answer, and never will; less: another time it may, so the question at hand fails. Called
/// from any thread; throws nothing.
typedef ptrdiff_t (*talon_encode)(const void* context, const char* text, size_t size, uint32_t* ids,
                                  size_t room);

/// words: the bytes of each token end to end, sizes[i] of token i; none of one that does not exist,
/// 0xFF and its name of a special one. Token `count` stands for the end of a text below. `context`
/// outlives all that is made of the engine. Free: talon_grammar_engine_free.
talon_grammar_engine* talon_grammar_engine_new(const char* words, const uint32_t* sizes,
                                               size_t count, talon_encode encode,
                                               const void* context, talon_buffer* error);
void talon_grammar_engine_free(talon_grammar_engine* engine);

/// kind: 0 a JSON schema, 1 a regular expression, 2 Lark, 3 llama.cpp's grammar, 4 a JSON list of
/// texts, 5 a JSON object with the `kind` and the `source` of a grammar that the Lark in `lead`
/// calls `@answer`. Free: talon_grammar_free.
talon_grammar* talon_grammar_compile(const talon_grammar_engine* engine, uint32_t kind,
                                     const char* source, size_t size, talon_buffer* error);
void talon_grammar_free(talon_grammar* grammar);

/// At the beginning of a text. Free: talon_grammar_state_free. After an error of one of the
/// functions below the state can only be freed.
talon_grammar_state* talon_grammar_start(const talon_grammar* grammar, talon_buffer* error);
void talon_grammar_state_free(talon_grammar_state* state);
/// Keeps the first `keep` tokens and takes `count` more.
bool talon_grammar_go(talon_grammar_state* state, size_t keep, const uint32_t* tokens, size_t count,
                      talon_buffer* error);
/// Bit t % 32 of word t / 32: whether token t may come next.
bool talon_grammar_mask(talon_grammar_state* state, uint32_t* words, size_t count,
                        talon_buffer* error);
bool talon_grammar_allows(talon_grammar_state* state, uint32_t token, bool* allows,
                          talon_buffer* error);
/// Tokens that must come next. Free: talon_ids_free.
bool talon_grammar_forced(talon_grammar_state* state, talon_ids* ids, talon_buffer* error);
/// Whether only the end may come next.
bool talon_grammar_is_complete(talon_grammar_state* state, bool* complete, talon_buffer* error);
/// What the questions so far have taken, in fuel of the lexer and items of the grammar, about 15 a
/// microsecond; no clock is read. May be asked after an error, too.
uint64_t talon_grammar_work(const talon_grammar_state* state);

#ifdef __cplusplus
}
#endif
