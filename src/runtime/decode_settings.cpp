#include "runtime/decode_settings.h"

#include <algorithm>

namespace talon {

DecodeSettings with_method(DecodeSettings settings, const MethodText& method) {
  settings.drafter = method.drafter;
  if (!method.policy.empty()) settings.policy = method.policy;
  if (!method.verify.empty()) settings.verify = method.verify;
  return settings;
}

EngineOptions engine_options(const DecodeSettings& settings, const Model& model,
                             const Tokenizer* tokenizer) {
  EngineOptions options;
  options.chunk = std::min(settings.chunk, model.config.context);
  options.max_nodes = settings.max_nodes;
  options.max_rows = std::max(options.chunk, settings.max_nodes + 1);
  options.tokenizer = tokenizer;
  options.observer = settings.observer;
  return options;
}

}  // namespace talon
