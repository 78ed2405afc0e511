#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/model_options.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace talon {

/// A model opened for use, with everything that lives as long as it.
struct Session {
  std::filesystem::path path;
  std::unique_ptr<Backend> backend;
  Model model;
  std::unique_ptr<KvCache> cache;
  std::optional<Tokenizer> tokenizer;
  std::string tokenizer_problem;  // why there is none
  Activations activations = Activations::bits8;
  double load_ms = 0;

  /// Throws Error with the reason if the model came without one.
  const Tokenizer& require_tokenizer() const;
  const Tokenizer* tokenizer_or_null() const { return tokenizer ? &*tokenizer : nullptr; }
  /// Tokens that end an answer: the tokenizer's and the configuration's.
  std::vector<TokenId> end_tokens() const;
};

/// An automatic choice that depends on the model is open_session()'s; here it means 8-bit inputs.
std::unique_ptr<Backend> make_backend(const ModelOptions& options);
/// How `options` round the inputs of 4- and 8-bit weights of this model.
Activations activations_for(const ModelOptions& options, const ModelConfig& config);
/// The number of threads `options` stand for.
int thread_count(const ModelOptions& options);

/// Opens, repacks and gets ready what `options` name, showing progress. The file's mapping is given
/// back before it returns.
Session open_session(const ModelOptions& options);
/// Only the tokenizer of it.
Tokenizer open_tokenizer(const ModelOptions& options);

}  // namespace talon
