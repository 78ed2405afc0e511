#pragma once

#include <memory>

#include "engine/engine.h"
#include "model/model.h"
#include "runtime/cache_budget.h"
#include "tree/policy_registry.h"

namespace talon {

/// A policy for a model's drafts. Throws as make_method().
std::unique_ptr<TreePolicy> make_policy_for(const Model& model, std::string_view policy);

/// A method from its drafter and the texts of the others. Throws UsageError for a policy or rule
/// that does not exist, Error for a policy whose files do not fit the model.
Method make_method(std::shared_ptr<Drafter> drafter, const Model& model,
                   std::string_view policy = kDefaultPolicy, std::string_view rule = "follow");

/// What an engine of one method is made of.
struct EngineParts {
  Method method;
  EngineOptions options = {};
};

/// An engine, and its cache unless that was given.
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
  std::unique_ptr<Engine> engine_;
};

/// An engine on a cache that others use, too; its method is number 0. Throws UsageError for options
/// out of range.
OwnedEngine make_engine(const Model& model, KvCache& cache, EngineParts parts);
/// An engine with a cache of its own.
OwnedEngine make_engine(const Model& model, const CacheOptions& cache, EngineParts parts);

}  // namespace talon
