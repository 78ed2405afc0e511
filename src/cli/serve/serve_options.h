#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/model_options.h"
#include "runtime/answerer.h"
#include "serve/server.h"

namespace talon {

/// All that `talon serve` is told.
struct ServeCommandOptions {
  std::vector<std::string> models;  // each a model or NAME[,NAME...]=MODEL
  ModelOptions model;               // what they share
  DecodeSettings decode;
  ServeOptions server;
  std::string key_file;
  std::string vq;  // of models that draw
  double step_ms = kUsualStep;
  double drain_s = 30;
  std::string learn_folder;  // empty: nothing is learned
  std::string learn_keep;
  double learn_share = LearnOptions{}.share;
  int learn_room_mb = 512;
  int learn_tokens = static_cast<int>(LearnOptions{}.least_tokens);
};

void add_serve_flags(CLI::App& app, ServeCommandOptions& options);

/// A model and the names that it is served by, at least one.
struct NamedModel {
  std::vector<std::string> names;
  std::string model;
  bool operator==(const NamedModel&) const = default;
};
/// Each NAME[,NAME...]=MODEL, or a model by the last part of its path. Throws UsageError for a name
/// that is empty or given twice.
std::vector<NamedModel> named_models(const std::vector<std::string>& models);

/// The keys of --api-key and --api-key-file, a line each.
std::vector<std::string> api_keys(const ServeCommandOptions& options);

}  // namespace talon
