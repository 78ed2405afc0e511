#include "runtime/make_engine.h"

#include <utility>

namespace talon {

OwnedEngine::OwnedEngine(const Model& model, KvCache& cache, EngineParts parts)
    : drafter_(std::move(parts.drafter)),
      verifier_(parts.verifier ? std::move(parts.verifier) : make_verifier("follow")),
      target_(std::make_unique<Target>(model, cache, parts.options.max_rows,
                                       taps_for(*drafter_, parts.options.policy))),
      engine_(std::make_unique<Engine>(*target_, *drafter_, *verifier_, parts.options)) {}

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
