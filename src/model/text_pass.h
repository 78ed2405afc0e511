#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "core/stop.h"
#include "core/types.h"
#include "model/target.h"

namespace talon {

/// A text to run through a model as it stands, with nothing drawn (teacher forcing).
struct TextPass {
  std::span<const TokenId> tokens = {};
  std::size_t first = 0;           // the first token whose logits are wanted
  std::size_t chunk = 64;          // most tokens of one forward
  const StopFlag* stop = nullptr;  // asked before each forward; may be none

  /// Told after each forward: how many tokens of the text have run, and the wanted logits of the
  /// newest of them, what the model expects after each, [tokens, vocabulary] in the memory of its
  /// backend, valid until it returns. Without rows while none are wanted.
  std::function<void(std::size_t done, const View& logits)> ran = {};
};

/// Runs the text in forwards of `chunk` tokens from an empty sequence of its own, whose pages the
/// cache has again in the end. Row-exact: the logits do not depend on `chunk`. Throws Error if the
/// cache has no room for it.
/// REQUIRES: pass.tokens is not empty and fits the model's context, pass.chunk >= 1.
void run_text(const Model& model, KvCache& cache, const TextPass& pass);

}  // namespace talon
