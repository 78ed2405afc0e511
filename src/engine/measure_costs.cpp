#include "engine/measure_costs.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/stopwatch.h"
#include "io/sha256.h"
#include "model/target.h"
#include "sample/sampler.h"

namespace talon {
namespace {

constexpr int kNearContext = 64;
constexpr int kFarContext = 2048;
constexpr std::size_t kFarBytes = std::size_t{64} << 20;  // of keys and values, at most
constexpr int kLeastFarContext = 512;
constexpr int kMostRows = 32;
// Of checks of a mixture that are timed on other chains, too: few, since many wait for arithmetic.
constexpr int kPricedRows[] = {2, 4};
constexpr int kLeastSweeps = 2;
constexpr int kMostSweeps = 5;
constexpr int kWarmForwards = 6;    // of one row before each sweep over row counts: long forwards
                                    // leave the caches and the clock unlike a decoding loop does
constexpr double kWarmShare = 0.1;  // of the budget, at most, for those of one sweep
constexpr double kSteady = 1.5;     // the second best time of a run over its best, at most
constexpr int kPromptRows = 8;      // shown to the drafter
constexpr int kLevels = 5;  // of the longer of two drafts, whose difference is that of passes
constexpr double kLeastPassShare = 1e-3;  // of the draft of one level
constexpr int kFirstPasses = 5;           // most that are timed, each after a forward of the target
constexpr int kCatchUps = 3;              // first passes over many rows, that are timed
constexpr int kTokensOfARound = 4;        // shown at once: of a prompt drafters run many at once

int cache_pages(int context) { return (context + kMostRows) / kPageRows + 2; }

/// Grows trees of a given size by passes of one network, and says who asked.
class ProbePolicy : public PolicyState {
 public:
  /// only: source of the network; 0: all.
  ProbePolicy(int levels, int width, std::uint32_t only)
      : levels_(levels), width_(width), only_(only) {}
  TreePlan plan(const PlanContext&) override { return {1024, levels_, width_}; }
  void turn_to(std::uint32_t source) override { source_ = source; }
  bool start(const DraftTree&, int /*waiting*/) override {
    asked_.push_back(source_);
    return only_ == 0 || only_ == source_;
  }
  int expand(std::span<const float> path_log_p) override {
    return std::min(width_, static_cast<int>(path_log_p.size()));
  }
  /// Sources of the networks; one that is not joined with others has 0.
  const std::vector<std::uint32_t>& asked() const { return asked_; }

 private:
  int levels_;
  int width_;
  std::uint32_t only_;
  std::uint32_t source_ = 0;
  std::vector<std::uint32_t> asked_;
};

class CostMeasurement {
 public:
  CostMeasurement(const Model& model, KvType type, Drafter& drafter, double budget_ms)
      : model_(model),
        drafter_(drafter),
        budget_ms_(budget_ms),
        far_context_(talon::far_context(model.config, type)),
        cache_(*model.backend, kv_shape(model.config, cache_pages(far_context_), type)),
        target_(model, cache_, kMostRows, drafter.taps()),
        sequence_(cache_.start({}, false)) {}

  CostProfile run() {
    measure_networks();
    measure_checks();
    profile_.steady =
        profile_.steady && agrees_with_itself(profile_) && !model_.backend->is_disturbed();
    return std::move(profile_);
  }
  std::vector<CostProfile::Level> passes(std::span<const int> rows) {
    if (!show_prompt().empty()) measure_passes(rows, budget_ms_);
    return std::move(passes_.levels);
  }

 private:
  /// Tokens of a chain: of the text if there is one, else arbitrary; arbitrary; all alike.
  enum class Chain { text, arbitrary, alike };
  TokenId token(Chain chain, int place) const {
    if (chain == Chain::text && !text_.empty())
      return text_[static_cast<std::size_t>(place) % text_.size()];
    return ((chain == Chain::alike ? 0 : place) * 7919 + 13) % model_.config.vocabulary;
  }

  /// A chain of `rows` tokens after the committed ones. Its rows stay in flight.
  ForwardResult forward(int rows, Chain chain = Chain::text) {
    tokens_.clear();
    for (int i = 0; i < rows; ++i) tokens_.push_back(token(chain, i));
    const bool has_room = sequence_.reserve(rows);
    expects(has_room, "room in a cache of its own");
    const SequenceRows batch{.sequence = &sequence_, .tokens = tokens_, .parents = {}};
    const ForwardResult result = target_.forward({&batch, 1});
    first_uses_.resize(static_cast<std::size_t>(result.first_uses.count));
    Fence counted;
    if (!first_uses_.empty())
      counted = model_.backend->download_async(result.first_uses, first_uses_);
    model_.backend->synchronize();
    counted.wait();
    return result;
  }

  /// Draws the text of chains. Rows of a text go to fewer experts than arbitrary tokens do, so a
  /// check of them reads less.
  void write_text(int length) {
    Sampler sampler({.temperature = 1}, model_.config.vocabulary);
    const PositionRandom random(1, 0);
    std::vector<float> logits(static_cast<std::size_t>(model_.config.vocabulary));
    std::vector<TokenId> text;
    while (std::ssize(text) < length) {
      const ForwardResult result = forward(1);
      model_.backend->download(result.logits, logits);
      sequence_.keep(std::vector<NodeId>{0}, tokens_);
      const auto position = static_cast<std::uint64_t>(sequence_.length());
      text.push_back(sampler.sample(logits, {.committed = text, .path = {}}, random, position));
      text_ = {text.back()};
    }
    text_ = std::move(text);
  }

  int near_context() const {
    return std::max(1, std::min(kNearContext, model_.config.context - kMostRows));
  }

  /// Commits positions that were never computed: what they hold does not change the time.
  void move_to(int context) {
    while (sequence_.length() < context) {
      const int rows = std::min(context - sequence_.length(), cache_.rows_at_once());
      const bool has_room = sequence_.reserve(rows);
      expects(has_room, "room in a cache of its own");
      sequence_.assume(rows);
    }
  }

  /// The least milliseconds of each run, over as many sweeps as the budget allows. Every sweep
  /// starts with `warm_up`.
  std::vector<double> least_ms(
      std::span<const std::function<void()>> runs, double budget_ms,
      const std::function<void()>& warm_up = [] {}) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<double> least(runs.size(), kNever), second(runs.size(), kNever);
    const Stopwatch all;
    for (int sweep = 0; sweep < kLeastSweeps || (sweep < kMostSweeps && all.ms() < budget_ms);
         ++sweep) {
      warm_up();
      for (std::size_t i = 0; i < runs.size(); ++i) {
        const Stopwatch watch;
        runs[i]();
        const double ms = watch.ms();
        second[i] = std::clamp(ms, least[i], second[i]);
        least[i] = std::min(least[i], ms);
      }
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      profile_.steady = profile_.steady && second[i] <= kSteady * least[i];
    }
    return least;
  }

  void measure_checks() {
    const Stopwatch first;
    forward(1);
    const double first_ms = first.ms();
    const bool is_slow = 20 * first_ms > budget_ms_;
    warm_forwards_ = std::min(kWarmForwards, static_cast<int>(kWarmShare * budget_ms_ / first_ms));
    const bool has_experts = model_.config.has_experts();
    const std::vector<int> near_rows = !is_slow      ? std::vector<int>{1, 2, 4, 8, 16, 32}
                                       : has_experts ? std::vector<int>{1, 4, 8}
                                                     : std::vector<int>{1, 8};
    if (has_experts) write_text(near_rows.back());
    std::vector<TimedCheck> near;
    for (const int rows : near_rows) {
      near.push_back({rows});
      if (!has_experts || std::ranges::count(kPricedRows, rows) == 0) continue;
      for (const Chain chain : {Chain::arbitrary, Chain::alike}) near.push_back({rows, chain});
    }
    const std::vector<CostProfile::Check> checks = measure_checks_at(near_context(), near, 0.6);
    std::vector<CostProfile::Check> others;
    for (std::size_t i = 0; i < near.size(); ++i)
      (near[i].chain == Chain::text ? profile_.checks : others).push_back(checks[i]);
    price_experts(profile_, others);
    if (far_context_ <= kNearContext) return;
    const TimedCheck far[] = {{1}, {near_rows[near_rows.size() / 2]}};
    for (const auto& check : measure_checks_at(far_context_, far, 0.25))
      profile_.checks.push_back(check);
  }

  struct TimedCheck {
    int rows;
    Chain chain = Chain::text;
  };
  std::vector<CostProfile::Check> measure_checks_at(int context, std::span<const TimedCheck> timed,
                                                    double share) {
    move_to(context);
    std::vector<CostProfile::Check> checks(timed.size());
    std::vector<std::function<void()>> runs;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      checks[i] = {timed[i].rows, sequence_.length()};
      runs.push_back([this, &check = checks[i], chain = timed[i].chain] {
        forward(check.rows, chain);
        check.experts = std::accumulate(first_uses_.begin(), first_uses_.end(), 0.0);
      });
    }
    const auto ms = least_ms(runs, share * budget_ms_, [this] {
      for (int i = 0; i < warm_forwards_; ++i) forward(1);
    });
    for (std::size_t i = 0; i < checks.size(); ++i) checks[i].ms = ms[i];
    return checks;
  }

  /// Of each network of the drafter what its passes cost while the others run none.
  void measure_networks() {
    constexpr int kRows[] = {1, 10};
    std::vector<CostProfile> networks;
    for (const std::uint32_t source : show_prompt()) {
      only_ = source;
      passes_ = {};
      passes_.source = source;
      draft(1, 1);  // with what it was shown while others drafted
      measure_passes(kRows, 0.25 * budget_ms_);
      measure_first_pass(0.15 * budget_ms_);
      measure_catch_up();
      networks.push_back(passes_);
    }
    if (networks.empty()) return;
    const bool is_steady = profile_.steady;
    profile_ = networks.front();
    profile_.steady = is_steady;
    if (networks.size() > 1) profile_.networks = std::move(networks);
  }

  /// Shows it to the drafter and brings it up to date. Says which of its networks ask policies
  /// about passes.
  std::vector<std::uint32_t> show_prompt() {
    if (drafter_.traits().reads_cache) move_to(near_context());
    const ForwardResult result = forward(kPromptRows);
    state_ = drafter_.start();
    CommittedTokens committed;
    committed.tokens = tokens_;
    committed.first_has_row = false;
    if (result.features) committed.features = result.features.row_range(0, kPromptRows - 1);
    drafter_.observe(*state_, committed);
    return draft(1, 1);
  }

  /// Two drafts of different depth at two widths: their differences are what passes cost.
  void measure_passes(std::span<const int> widths, double budget_ms) {
    std::vector<std::function<void()>> runs;
    for (const int width : widths) {
      runs.push_back([this, width] { draft(1, width); });
      runs.push_back([this, width] { draft(kLevels, width); });
    }
    const std::size_t with_noise = runs.size();
    for (const int levels : {1, kLevels})
      runs.push_back([this, levels] { draft(levels, 1, Noise::known); });
    const auto ms = least_ms(runs, budget_ms);
    // Beside the same drafts without noise.
    price_noise(passes_, ms[with_noise] - ms[0], ms[with_noise + 1] - ms[1], kLevels);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const double pass_ms = (ms[2 * i + 1] - ms[2 * i]) / (kLevels - 1);
      // A head that guesses all levels in one pass has none for the others.
      passes_.levels.push_back({widths[i], std::max(pass_ms, kLeastPassShare * ms[2 * i])});
    }
  }

  /// As in a round of decoding: the target has just run, and the drafter takes in one more token.
  void measure_first_pass(double budget_ms) {
    double least = std::numeric_limits<double>::infinity();
    const Stopwatch all;
    for (int i = 0; i < kFirstPasses && (i == 0 || all.ms() < budget_ms); ++i)
      least = std::min(least, ms_of_taking_in(forward(1), 1));
    passes_.first_pass_ms = std::max(0.0, least - passes_.levels.front().ms);
  }

  /// As after rounds without drafts: the drafter takes in many tokens at once. Beside one, both in
  /// the caches. Not where a text has no room for all of them.
  void measure_catch_up() {
    if (shown_ + kCatchUps * (kMostRows + 1) + kLevels > model_.config.context) return;
    double one = std::numeric_limits<double>::infinity(), many = one;
    const ForwardResult result = forward(kMostRows);
    for (int i = 0; i < kCatchUps; ++i) {
      many = std::min(many, ms_of_taking_in(result, kMostRows));
      one = std::min(one, ms_of_taking_in(result, 1));
    }
    passes_.waiting_row_ms = std::max(0.0, many - one) / (kMostRows - 1);
  }

  /// Of a draft of one node after the drafter was shown the first `rows` of a forward.
  double ms_of_taking_in(const ForwardResult& result, int rows) {
    for (int first = 0; first < rows; first += kTokensOfARound) {
      const int count = std::min(kTokensOfARound, rows - first);
      CommittedTokens committed{
          .tokens = std::span(tokens_).subspan(static_cast<std::size_t>(first),
                                               static_cast<std::size_t>(count)),
          .first_position = shown_};
      if (result.features) committed.features = result.features.row_range(first, count);
      drafter_.observe(*state_, committed);
      shown_ += count;
    }
    const Stopwatch watch;
    draft(1, 1);
    return watch.ms();
  }

  /// Which networks of the drafter asked policies about their passes.
  enum class Noise { unknown, known };
  std::vector<std::uint32_t> draft(int levels, int width, Noise noise = Noise::unknown) {
    ProbePolicy policy(levels, width, only_);
    DraftTree tree(tokens_.back());
    static const SamplerOptions kSampled{.temperature = 1};
    const PositionRandom random(noise == Noise::known ? ++noises_ : 0, 0);  // noise is remembered
    DraftJob job{state_.get(), &policy, policy.plan({}), &tree, &random, kPromptRows - 1};
    if (noise == Noise::known) job.sampler = &kSampled;
    job.races = true;
    job.text = &sequence_;
    drafter_.propose({&job, 1});
    model_.backend->synchronize();
    return policy.asked();
  }

  const Model& model_;
  Drafter& drafter_;
  double budget_ms_;
  int warm_forwards_ = 0;
  std::uint64_t noises_ = 0;
  int far_context_;
  KvCache cache_;
  Target target_;
  KvSequence sequence_;
  std::unique_ptr<DraftState> state_;
  int shown_ = kPromptRows;  // tokens to the drafter
  std::uint32_t only_ = 0;   // source of the network that drafts; 0: all
  CostProfile passes_;       // of that one
  std::vector<TokenId> tokens_;
  std::vector<TokenId> text_;             // empty: rows are arbitrary
  std::vector<std::int32_t> first_uses_;  // of the last forward: ForwardResult::first_uses
  CostProfile profile_;
};

}  // namespace

int far_context(const ModelConfig& config, KvType type) {
  const std::size_t page = kv_bytes(kv_shape(config, 1, type));
  const auto affordable =
      static_cast<int>(std::min<std::size_t>(kFarBytes / page, kFarContext)) * kPageRows;
  return std::min(
      {kFarContext, std::max(affordable, kLeastFarContext), config.context - kMostRows});
}

ContextRead context_read(const ModelConfig& config) {
  const KvShape shape = kv_shape(config, 1);
  const auto near = static_cast<double>(near_page_bytes(shape));
  if (near == 0) return {};
  return {shape.near.reach, near / (near + static_cast<double>(kv_page_bytes(shape)))};
}

CostProfile measure_costs(const Model& model, KvType cache_type, Drafter& drafter,
                          double budget_ms) {
  if (model.config.context <= kMostRows + kPromptRows) return {};
  return CostMeasurement(model, cache_type, drafter, budget_ms).run();
}

std::vector<CostProfile::Level> measure_passes(const Model& model, KvType cache_type,
                                               Drafter& drafter, std::span<const int> rows,
                                               double budget_ms) {
  if (model.config.context <= kMostRows + kPromptRows) return {};
  return CostMeasurement(model, cache_type, drafter, budget_ms).passes(rows);
}

CostProfile obtain_costs(const Model& model, KvType cache_type, Drafter& drafter,
                         const std::string& drafter_text, const CostCache& cache) {
  const std::string key = cache.key + "; drafter " + drafter_text;
  const std::filesystem::path file =
      cache.folder.empty()
          ? ""
          : cache.folder / (sha256_of(std::as_bytes(std::span(key))).substr(0, 24) + ".json");
  if (!file.empty()) {
    if (auto known = read_cost_profile(file, key)) return *std::move(known);
  }
  CostProfile profile = measure_costs(model, cache_type, drafter);
  if (file.empty() || profile.empty() || !profile.steady) return profile;
  try {
    std::filesystem::create_directories(cache.folder);
    write_cost_profile(file, key, profile);
  } catch (const std::exception&) {
    // It is measured again next time.
  }
  return profile;
}

}  // namespace talon
