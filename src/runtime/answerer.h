#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/stop.h"
#include "engine/measure_costs.h"
#include "runtime/heads.h"
#include "runtime/make_engine.h"

namespace talon {

/// How answers are drafted and checked: everything that may change their speed and nothing of what
/// they say.
struct DecodeSettings {
  std::string drafter = "auto";  // what it stands for: resolve_drafter()
  std::string policy = std::string(kDefaultPolicy);
  std::string verify = "follow";
  int chunk = EngineOptions{}.chunk;          // prompt rows per forward
  int max_nodes = EngineOptions{}.max_nodes;  // draft nodes per check
  RoundObserver observer = {};                // sees every round; may be empty
  CostCache costs = {};                       // where measured costs are kept between runs
  HeadFinder heads = {};                      // finds those that options do not name; may be empty
  /// Takes one token a round, whatever was accepted: slow, but the observer then sees a tree at
  /// every position of the text. The tokens are the same.
  bool every_position = false;
};

/// One finished answer.
struct Answer {
  std::vector<TokenId> tokens;
  std::string text;  // empty without a tokenizer
  FinishReason finish = FinishReason::none;
  SequenceStatistics statistics;

  /// Tokens emitted per check, that is mean accepted + 1; 1 when nothing was checked.
  double tau() const;
  /// Tokens per second after the prefill, which made the first one.
  double tokens_per_second() const;
};

/// One engine with its drafter, verifier and target activations, for one answer at a time. Model,
/// cache and tokenizer are borrowed; the tokenizer may be null.
class Answerer {
 public:
  using Listener = std::function<void(const Progress&)>;

  /// Throws UsageError for a drafter, policy or rule that does not exist, or options it does not
  /// have.
  Answerer(const Model& model, KvCache& cache, const Tokenizer* tokenizer,
           const DecodeSettings& settings);

  /// Decodes to the end, showing each round to `listener`; soon after `stop` is requested it ends
  /// as cancelled. Throws UsageError or Error with the engine's words when it refuses the request,
  /// and what the listener throws; the next answer does not depend on one that failed.
  Answer decode(Request request, const Listener& listener = {}, const StopFlag* stop = nullptr);

  /// What drafts: settings' drafter, or what auto stands for.
  const std::string& drafter() const { return drafter_; }

 private:
  std::string drafter_;
  OwnedEngine engine_;
};

}  // namespace talon
