#include "runtime/named_methods.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.h"
#include "runtime/cost_cache.h"
#include "runtime/heads/auto_drafter.h"
#include "runtime/make_engine.h"
#include "verify/first_token.h"

namespace talon {
namespace {

std::unique_ptr<Verifier> make_rule(const DecodeSettings& settings, const ModelConfig& config,
                                    NeighbourTables& tables) {
  auto rule = make_verifier(settings.verify, {.codebook = settings.codebook, .tables = &tables});
  const int codes = config.image ? config.image->codes_of(config.vocabulary) : 0;
  if (config.image && rule->codes() > 0 && rule->codes() != codes) {
    fail("verify {}: codebook: expected the {} codes of the model, found {}", settings.verify,
         codes, rule->codes());
  }
  return settings.every_position ? first_token_of(std::move(rule)) : std::move(rule);
}

/// The part of that text, made unless there is one.
template <typename Part, typename Make>
const std::shared_ptr<Part>& once(std::map<std::string, std::shared_ptr<Part>>& parts,
                                  const std::string& text, const Make& make) {
  const auto known = parts.find(text);
  return known != parts.end() ? known->second : parts.emplace(text, make()).first->second;
}

template <typename Part>
void drop_unused_of(std::map<std::string, std::shared_ptr<Part>>& parts) {
  std::erase_if(parts, [](const auto& named) { return named.second.use_count() == 1; });
}

}  // namespace

CostProfile costs_in(std::string_view drafter, std::string_view measured, CostProfile costs) {
  const auto ours = split_drafters(drafter), theirs = split_drafters(measured);
  for (CostProfile& network : costs.networks) {
    const auto part = static_cast<std::size_t>(std::countr_zero(network.source));
    if (part >= theirs.size()) continue;
    const std::string weights = weights_of(theirs[part]);
    const auto same = std::ranges::find_if(
        ours, [&](std::string_view text) { return weights_of(text) == weights; });
    if (same != ours.end()) network.source = 1U << (same - ours.begin());
  }
  return costs;
}

NamedMethods::NamedMethods(Engine& engine, const Model& model, KvCache& cache,
                           DecodeSettings settings)
    : engine_(engine), model_(model), cache_(cache), settings_(std::move(settings)) {
  settings_.drafter =
      resolve_drafter(settings_.drafter, settings_.heads, output_kind(model.config));
  MethodId& own = methods_.emplace("", MethodId{}).first->second;  // room first, as in get()
  own = make(settings_);
}

MethodId NamedMethods::get(std::string_view text) {
  drop_retired();
  const auto known = methods_.find(text);
  if (known != methods_.end()) return known->second;
  DecodeSettings settings = with_method(settings_, parse_method(text));
  settings.drafter = resolve_drafter(settings.drafter, settings.heads, output_kind(model_.config));
  // Room first: a method of the engine that has no name could be let go of by nobody.
  const auto made = methods_.emplace(text, MethodId{}).first;
  try {
    return made->second = make(settings);
  } catch (...) {
    methods_.erase(made);
    drop_unused();
    throw;
  }
}

bool NamedMethods::forget(std::string_view text) {
  const auto known = methods_.find(text);
  if (known == methods_.end()) return true;
  if (text.empty() || !engine_.remove(known->second)) return false;
  methods_.erase(known);
  drop_unused();
  return true;
}

bool NamedMethods::knows(std::string_view text) const { return methods_.contains(text); }

void NamedMethods::drop_unused() {
  drop_unused_of(parts_.drafters);
  drop_unused_of(parts_.policies);
  drop_unused_of(parts_.rules);
}

void NamedMethods::use_heads(HeadFinder heads) {
  retired_.reserve(retired_.size() + methods_.size());
  decltype(methods_) methods;
  MethodId& own = methods.emplace("", MethodId{}).first->second;
  auto parts = std::exchange(parts_, {});  // a file may have been replaced
  std::swap(settings_.heads, heads);
  try {
    own = make(settings_);
  } catch (...) {
    parts_ = std::move(parts);
    settings_.heads = std::move(heads);
    throw;
  }
  methods_.swap(methods);
  for (const auto& [text, method] : methods) retired_.push_back(method);
  drop_retired();
}

void NamedMethods::drop_retired() {
  std::erase_if(retired_, [&](MethodId method) { return engine_.remove(method); });
}

MethodId NamedMethods::make(const DecodeSettings& settings) {
  Method method{load(settings.drafter),
                once(parts_.policies, settings.policy,
                     [&] { return make_policy_for(model_, settings.policy); }),
                once(parts_.rules, settings.verify,
                     [&] { return make_rule(settings, model_.config, tables_); })};
  const bool decides_by_costs = settings.drafter != "none" && method.policy->traits().uses_costs;
  if (decides_by_costs) {
    method.costs =
        costs_in(settings.drafter, measured_as(settings.drafter), costs_of(settings.drafter));
    drop_unused();  // what was made to be measured alone
  }
  return engine_.add(std::move(method));
}

const CostProfile& NamedMethods::costs_of(const std::string& drafter) {
  const std::string measured = measured_as(drafter);
  CostProfile& costs = costs_[measured];
  if (!costs.empty()) return costs;
  Drafter& runs = *load(measured);
  costs = obtain_costs(model_, cache_.store().shape.type, runs, costs_name(measured, runs.traits()),
                       settings_.costs);
  return costs;
}

/// The drafter whose costs are those of `drafter`.
std::string NamedMethods::measured_as(const std::string& drafter) const {
  if (!settings_.shares_costs) return drafter;
  std::string weights = weights_of(drafter);
  return weights == weights_of(settings_.drafter) ? settings_.drafter : weights;
}

const std::shared_ptr<Drafter>& NamedMethods::load(const std::string& drafter) {
  const DrafterContext context{
      .target = &model_,
      .cache_positions = static_cast<std::size_t>(cache_.total_pages()) * kPageRows,
      .max_nodes = settings_.max_nodes,
      .heads = settings_.heads,
      .shared = &parts_.weights};
  return once(parts_.drafters, drafter, [&] { return make_drafter(drafter, context); });
}

MethodId RecentMethods::get(std::string_view text) {
  if (text.empty()) return methods_.get();
  const auto known = std::ranges::find(texts_, text);
  if (known != texts_.end()) {
    const MethodId method = methods_.get(text);
    std::rotate(known, known + 1, texts_.end());
    return method;
  }
  texts_.emplace_back(text);  // room first: a method without a place could be let go of by nobody
  MethodId method = 0;
  try {
    method = methods_.get(text);
  } catch (...) {
    texts_.pop_back();
    throw;
  }
  auto oldest = texts_.begin();
  while (are_too_many() && oldest + 1 != texts_.end())
    oldest = methods_.forget(*oldest) ? texts_.erase(oldest) : oldest + 1;
  return method;
}

void RecentMethods::forget_newest() {
  if (methods_.forget(texts_.back())) texts_.pop_back();
}

}  // namespace talon
