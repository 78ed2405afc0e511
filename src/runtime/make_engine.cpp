#include "runtime/make_engine.h"

#include <utility>

namespace talon {

std::unique_ptr<TreePolicy> make_policy_for(const Model& model, std::string_view policy) {
  const auto& image = model.config.image;
  return make_policy(policy, {model.config.hidden, image ? image->row_tokens() : 0});
}

Method make_method(std::shared_ptr<Drafter> drafter, const Model& model, std::string_view policy,
                   std::string_view rule) {
  return {std::move(drafter), make_policy_for(model, policy), make_verifier(rule, {})};
}

OwnedEngine::OwnedEngine(const Model& model, KvCache& cache, EngineParts parts)
    : engine_(std::make_unique<Engine>(model, cache, std::move(parts.options))) {
  engine_->add(std::move(parts.method));
}

OwnedEngine::OwnedEngine(const Model& model, std::unique_ptr<KvCache> cache, EngineParts parts)
    : OwnedEngine(model, *cache, std::move(parts)) {
  cache_ = std::move(cache);
}

OwnedEngine make_engine(const Model& model, KvCache& cache, EngineParts parts) {
  return OwnedEngine(model, cache, std::move(parts));
}

OwnedEngine make_engine(const Model& model, const CacheOptions& cache, EngineParts parts) {
  return OwnedEngine(model, open_cache(model, cache), std::move(parts));
}

}  // namespace talon
