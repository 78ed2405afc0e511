#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "image/png.h"
#include "image/vq_decoder.h"
#include "runtime/loaded_model.h"
#include "sample/sampler.h"

namespace talon {

/// What a picture is a function of, and how it was drafted: texts of its file, so that it can be
/// made again.
struct PictureFacts {
  std::string prompt;
  std::uint64_t seed = 0;
  float guidance = 1;
  SamplerOptions sampler;
  std::string model, drafter, verify;
  /// What tells the model, its tokenizer and how they are computed: keys among kComputedBy.
  PngTexts computed_by = {};
  std::string caption = {};  // hash_of the features that the prompt is; empty: it is none
  std::string policy = {};   // of drafts
  bool keeps_codes = true;   // the rule `verify`: no draft changes a code
  int guidance_tokens = 0;   // Request
};
/// Fingerprints of model and tokenizer, cells of the grid, and how weights, inputs and cache are
/// kept.
inline constexpr std::string_view kComputedBy[] = {
    "model_fingerprint", "vq_fingerprint", "cells", "weights", "activations", "kv", "backend"};
/// Of pictures that are drawn with `loaded` on `backend`, with a cache of `kv`.
PngTexts computed_by(const LoadedModel& loaded, const VqDecoder& decoder, BackendKind backend,
                     KvType kv);
/// Options of the sampler and a rule that are not the usual ones have texts, others none; policies
/// have one beside such a rule.
PngTexts texts_of(const PictureFacts& facts);

/// The first text that differs between those of a file and what they must be, told as "seed 3, not
/// 5"; empty: none. Drafters and policies change no picture where the rule keeps codes, and what
/// else stands in the file is its own.
std::string difference(const PngTexts& found, const PictureFacts& facts);

}  // namespace talon
