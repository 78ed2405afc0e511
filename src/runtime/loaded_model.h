#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "model/model.h"
#include "runtime/model_source.h"
#include "text/tokenizer.h"

namespace talon {

/// A model opened for use: everything that answers share and nothing that changes with them.
struct LoadedModel {
  LoadedModel() = default;
  LoadedModel(LoadedModel&&) = default;
  LoadedModel& operator=(LoadedModel&&) = delete;  // weights go before their backend

  std::filesystem::path path;
  std::string name;                     // in the catalogue; empty: it is not one of its models
  std::string fingerprint;              // by which its heads are known (model/load/fingerprint.h)
  std::filesystem::path models_folder;  // where pulled models lie; empty: none is known
  std::unique_ptr<Backend> backend;
  Model model;
  std::optional<Tokenizer> tokenizer;
  std::string tokenizer_problem;    // why there is none
  std::vector<TokenId> end_tokens;  // each ends an answer: the tokenizer's and the configuration's
  Activations activations = Activations::bits8;  // with which the backend computes
  WeightLayout weights = WeightLayout::as_stored;
  bool predicts = false;  // its files hold a prediction layer that the drafter `mtp` can use
  int threads = 0;

  /// Throws Error with the reason if the model came without one.
  const Tokenizer& require_tokenizer() const;
  const Tokenizer* tokenizer_or_null() const { return tokenizer ? &*tokenizer : nullptr; }
};

/// Told how far long work is.
struct LoadEvents {
  /// Tensors of the model at `path` that are ready, of all. May be empty.
  std::function<void(const std::filesystem::path& path, std::size_t done, std::size_t total)>
      tensors = {};
};

/// The files of what `source` names, with the grid that it tells.
Checkpoint open_files(const ModelSource& source);
/// Opens, repacks and gets ready what `source` names. The file's mapping is given back before it
/// returns. Throws Error naming the file for one that cannot be used, UsageError for a context
/// longer than the model's or kernels that the machine lacks.
LoadedModel open_model(const ModelSource& source, const LoadEvents& events = {});
/// Only its tokenizer.
Tokenizer open_tokenizer(const ModelSource& source);

/// How the inputs of 4- and 8-bit weights of this model are rounded. It is part of what an answer
/// depends on, as the model and the seed.
Activations activations_for(const ModelSource& source, const ModelConfig& config);
/// The number of threads that `source` stands for.
int thread_count(const ModelSource& source);
/// What computes. An automatic choice of activations that depends on the model is open_model()'s;
/// here it means 8 bits.
std::unique_ptr<Backend> make_backend(const ModelSource& source);

}  // namespace talon
