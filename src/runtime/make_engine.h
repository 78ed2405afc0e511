#pragma once

#include <memory>

#include "engine/engine.h"
#include "model/model.h"
#include "runtime/cache_budget.h"

namespace talon {

/// What an engine is made of.
struct EngineParts {
  std::unique_ptr<Drafter> drafter = {};
  std::unique_ptr<Verifier> verifier = {};  // null: the follow rule
  EngineOptions options = {};
};

/// An engine and what it borrows, but for the model, and for the cache where that was given.
class OwnedEngine {
 public:
  OwnedEngine(const Model& model, KvCache& cache, EngineParts parts);
  OwnedEngine(const Model& model, std::unique_ptr<KvCache> cache, EngineParts parts);
  OwnedEngine(OwnedEngine&&) = default;
  OwnedEngine& operator=(OwnedEngine&&) = delete;

  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }

 private:
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<Verifier> verifier_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Engine> engine_;
};

/// An engine on a cache that others use, too. Throws UsageError for an unknown policy or options
/// out of range.
OwnedEngine make_engine(const Model& model, KvCache& cache, EngineParts parts);
/// An engine with a cache of its own.
OwnedEngine make_engine(const Model& model, const CacheOptions& cache, EngineParts parts);

}  // namespace talon
