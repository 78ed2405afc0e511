#pragma once

// The border between Talon and the Rust crates it uses for text: `tokenizers` and `minijinja`.
//
// Rules, for every function here:
// - Text goes in as UTF-8, borrowed for the call. Handles and buffers that come out belong to the
// caller, who frees each
//   exactly once with the function named beside it. Freeing null, or a buffer of size 0, does
//   nothing.
// - A function that can fail returns null or false, and then `*error` is a buffer with a message;
// on success `*error` is
//   untouched. Results are written only on success.
// - Handles are immutable: any number of threads may use one at once. No Rust panic leaves a
// function: it becomes an error.
// - What a file or a text of a stranger makes a function take of memory and of time on the
// processor is bounded: more is an
//   error. Chat templates are compiled and rendered on a thread of their own, whose stack none of
//   them can fill.

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

/// A byte-level BPE given as lists: strings lie end to end, their sizes in bytes beside them.
typedef struct {
  const char* tokens;
  const uint32_t* token_sizes;
  const uint8_t* token_types;  // 0: ordinary, 1: added, 2: added and special
  size_t token_count;
  const char* merges;  // "left right", best first
  const uint32_t* merge_sizes;
  size_t merge_count;
  const char* pipeline;  // JSON: {"normalizer", "pre_tokenizer"} as in a tokenizer.json,
                         // {"ignore_merges": bool}
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

/// JSON: {"kind": text, "drops_first_space": bool, "start_token": the special id that the
/// post-processor puts first, or null}. Free: talon_buffer_free.
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

#ifdef __cplusplus
}
#endif
