#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "engine/measure_costs.h"
#include "runtime/heads/heads.h"
#include "runtime/method.h"
#include "tree/policy_registry.h"

namespace talon {

/// How answers are drafted and checked: everything that may change their speed and, with the rule
/// `follow`, nothing of what they say.
struct DecodeSettings {
  std::string drafter = "auto";  // what it stands for: resolve_drafter()
  std::string policy = std::string(kDefaultPolicy);
  std::string verify = "follow";
  int chunk = EngineOptions{}.chunk;          // prompt rows per forward
  int max_nodes = EngineOptions{}.max_nodes;  // draft nodes of one tree
  RoundObserver observer = {};                // sees every round; may be empty
  CostCache costs = {};                       // where measured costs are kept between runs
  HeadFinder heads = {};                      // finds those that options do not name; may be empty
  /// Finds the tokenizer of the pictures that are drawn, whose codes rules compare that name none;
  /// empty: texts are written.
  std::function<std::filesystem::path()> codebook = {};
  /// Of drafters that others ask for only the weights are measured, not each choice of options.
  bool shares_costs = false;
  /// Takes one token a round, whatever was accepted: slow, but the observer then sees a tree at
  /// every position of the text. The tokens are the same.
  bool every_position = false;
};

/// `settings` with the drafter of `method`, and with its policy and rule where it names them.
DecodeSettings with_method(DecodeSettings settings, const MethodText& method);

/// What they say of an engine, for one sequence at a time. `tokenizer` may be null.
EngineOptions engine_options(const DecodeSettings& settings, const Model& model,
                             const Tokenizer* tokenizer);

}  // namespace talon
