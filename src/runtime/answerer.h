#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.h"
#include "engine/engine.h"
#include "runtime/decode_settings.h"
#include "runtime/named_methods.h"

namespace talon {

/// One finished answer.
struct Answer {
  std::vector<TokenId> tokens;
  std::string text;  // empty without a tokenizer
  FinishReason finish = FinishReason::none;
  SequenceStatistics statistics;

  // As the statistics say.
  double tau() const { return statistics.tau(); }
  double tokens_per_second() const { return statistics.tokens_per_second(); }
};

/// One engine, for one answer at a time, each by the method that its request names: 0 is that of
/// the settings. Model, cache and tokenizer are borrowed; the tokenizer may be null. For several
/// answers at once: examples/two_methods.cpp.
class Answerer {
 public:
  using Listener = std::function<void(const Progress&)>;

  /// Throws UsageError for a drafter, policy or rule that does not exist, or options it does not
  /// have.
  Answerer(const Model& model, KvCache& cache, const Tokenizer* tokenizer,
           const DecodeSettings& settings);

  /// As NamedMethods::get().
  MethodId method(std::string_view text) { return methods_.get(text); }

  /// Decodes to the end, showing each round to `listener`; soon after `stop` is requested it ends
  /// as cancelled. Throws UsageError or Error with the engine's words when it refuses the request,
  /// and what the listener throws; the next answer does not depend on one that failed.
  Answer decode(Request request, const Listener& listener = {}, const StopFlag* stop = nullptr);

  /// As NamedMethods::drafter().
  const std::string& drafter() const { return methods_.drafter(); }

 private:
  Engine engine_;
  NamedMethods methods_;
};

}  // namespace talon
