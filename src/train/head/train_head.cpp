#include "train/head/train_head.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "model/load/fingerprint.h"
#include "train/head/curves.h"
#include "train/head/export_head.h"
#include "train/head/head_loss.h"
#include "train/head/layers/anchors.h"
#include "train/head/math/exchange.h"
#include "train/head/model_card.h"
#include "train/head/target/target_weights.h"
#include "train/head/train_state.h"

namespace talon {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kCountedConversations = 1000;  // for the frequent tokens of the loss
constexpr std::size_t kLossTokensMultiple = 512;     // as BatchOptions::multiple

std::vector<std::filesystem::path> folders(const HeadTrainOptions& options) {
  return {options.data.begin(), options.data.end()};
}

class HeadTrainer {
 public:
  HeadTrainer(const HeadTrainOptions& options, const Checkpoint& target,
              const HeadTrainHooks& hooks);
  HeadTrainResult run();

 private:
  void prepare(const Checkpoint& target);
  void set_values(const Checkpoint& target);
  void set_scales();
  void start_or_resume();
  void check_measure();
  void count_tokens();
  double progress() const;
  int steps_now() const;
  Batch next_batch();
  void open_epoch();
  void train_once();
  HeadLoss loss_of(const Batch& batch, bool count_right);
  void log_progress(const HeadLoss& loss, double norm);
  void evaluate(const Tensor& values, const char* what);
  void evaluate_if_due();
  void conclude();
  bool is_over() const;
  bool every(int period) const { return period > 0 && optimizer_->iterations % period == 0; }
  bool is_stopped() const { return hooks_.stop && hooks_.stop->requested(); }
  void save();
  void export_to(const std::filesystem::path& folder, const Tensor& values);
  std::vector<TokenId> drafted_now() const;
  Json facts() const;
  bool leads() const { return options_.rank == 0; }
  std::filesystem::path at(std::string_view name) const {
    return std::filesystem::path(options_.out) / name;
  }

  HeadTrainOptions options_;
  HeadTrainHooks hooks_;
  ModelConfig config_;
  std::string fingerprint_;  // of the target
  HeadKind kind_;
  Dataset data_;
  BatchOptions batch_options_;
  torch::ScalarType low_;
  torch::Device device_;
  HeadShape shape_;
  TargetTables tables_;
  std::optional<ParameterStore> parameters_;
  std::optional<HeadModel> model_;
  std::optional<Optimizer> optimizer_;
  std::optional<CurveFile> curve_, evaluations_;
  std::unique_ptr<Exchange> exchange_;
  LossOptions loss_options_;
  TrainState state_;
  std::vector<std::size_t> order_;       // of the current epoch
  std::vector<TokenId> drafted_before_;  // by the head that it starts from
  Clock::time_point mark_;               // training time is counted from here
};

HeadTrainer::HeadTrainer(const HeadTrainOptions& options, const Checkpoint& target,
                         const HeadTrainHooks& hooks)
    : options_(options),
      hooks_(hooks),
      config_(read_model_config(target)),
      fingerprint_(fingerprint_of(target, config_)),
      kind_(head_kind_of(options.kind)),
      data_(folders(options)),
      low_(options.precision == "f32" ? torch::kFloat : torch::kBFloat16),
      device_(options.device) {
  check_options(options_, config_);
  settle(options_, config_);
  at::set_num_threads(options.threads);
  prepare(target);
  start_or_resume();
}

void HeadTrainer::prepare(const Checkpoint& target) {
  check_target(target, config_, data_.info(), kind_);
  batch_options_ = {.steps = options_.steps,
                    .with_taps = reads_taps(kind_),
                    .tokens_alone = kind_ == HeadKind::draft,
                    .most_tokens = options_.max_tokens,
                    .by_cell = config_.rope.grid_columns > 0};
  set_scales();
  shape_ = head_shape(kind_, config_, state_.scales);
  set_sizes(options_, config_, shape_);
  if (reads_taps(kind_) && shape_.taps == 0)
    fail("train head: such a head needs data with taps of layers, found none");
  const bool rounds = learns_rounded(options_);
  tables_ = read_target_tables(target, config_, options_.max_tokens + options_.steps + 1, low_,
                               device_, rounds);
  parameters_.emplace(parameter_shapes(shape_), torch::kFloat, low_, device_, rounds);
  set_values(target);
  model_.emplace(shape_, *parameters_, tables_);
  optimizer_.emplace(*parameters_, optimizer_options(options_));
  loss_options_ = loss_options(options_, state_.scales.last);
  if (options_.ranks > 1) exchange_ = make_exchange(options_.rank, options_.ranks, options_.meet);
}

void HeadTrainer::set_values(const Checkpoint& target) {
  if (!options_.start.empty()) {
    load_start(options_.start, shape_, data_.info(), config_, *parameters_);
    drafted_before_ = drafted_tokens(options_.start, config_.vocabulary);
    return;
  }
  const auto random =
      set_initial_values(*parameters_, shape_, target, config_, state_.scales, options_.seed);
  parameters_->refresh_low();
  if (random.empty() || !leads() || std::filesystem::exists(at("checkpoint.safetensors"))) return;
  hooks_.log(
      fmt::format("the head starts at random where the target's layer is of another form: {}",
                  fmt::join(random, ", ")));
}

/// Values are kept in the scales that they were trained with.
void HeadTrainer::set_scales() {
  std::optional<FeatureScales> scales = stored_scales(at("checkpoint.safetensors"));
  if (!scales && !options_.start.empty()) scales = stored_scales(options_.start);
  const FeatureScales measured = measure_features(data_);
  if (scales && scales->taps.size() != measured.taps.size()) {
    fail("train head: data with vectors of {} layers: expected those of {}, as its start has",
         measured.taps.size(), scales->taps.size());
  }
  state_.scales = scales.value_or(measured);
}

void HeadTrainer::start_or_resume() {
  std::error_code problem;
  std::filesystem::create_directories(options_.out, problem);
  if (problem) fail("train head: cannot make {}: {}", options_.out, problem.message());
  const auto file = at("checkpoint.safetensors");
  if (std::filesystem::exists(file)) {
    load_checkpoint(file, settings_of(options_, data_.info().model_sha256), state_, *parameters_,
                    *optimizer_);
    hooks_.log(
        fmt::format("resumed at iteration {}, {} pairs", optimizer_->iterations, state_.pairs));
    order_ = data_.shuffled(options_.seed + static_cast<std::uint64_t>(state_.epoch));
    if (data_.size() != state_.epoch_size) open_epoch();  // the data has grown
    if (leads()) check_measure();
  } else {
    state_.measured_with = hooks_.measured_with;
    count_tokens();
    state_.data_pairs = usable_pairs(data_, batch_options_);
    state_.epoch = -1;
    open_epoch();
  }
  if (state_.data_pairs > 0) {  // older checkpoints keep what they planned
    state_.planned =
        static_cast<std::int64_t>(options_.epochs * static_cast<double>(state_.data_pairs));
  }
  if (leads()) {
    curve_.emplace(at("curve.csv"), optimizer_->iterations);
    const bool ends_here = is_over() && state_.concluded != optimizer_->iterations;
    evaluations_.emplace(at("evaluations.csv"), optimizer_->iterations - (ends_here ? 1 : 0));
  }
  mark_ = Clock::now();
}

/// Scores under other settings say nothing, nor do those of a head that is gone.
void HeadTrainer::check_measure() {
  const bool is_same = state_.measured_with == hooks_.measured_with;
  state_.measured_with = hooks_.measured_with;
  const bool is_there = std::filesystem::exists(at("head/config.json"));
  if (state_.best_facts.is_null() || (is_same && is_there)) return;
  const auto aside = at(fmt::format("evaluations_until_{}.csv", optimizer_->iterations));
  std::error_code there_are_none;
  std::filesystem::rename(at("evaluations.csv"), aside, there_are_none);
  hooks_.log(fmt::format("{}: the best head so far is forgotten, its evaluations are now {}",
                         is_same ? "there is no head" : "heads are measured otherwise than before",
                         aside.string()));
  state_.best = 0;
  state_.best_scores.clear();
  state_.best_facts = nullptr;
  state_.since_best = 0;
  state_.concluded = -1;
}

void HeadTrainer::count_tokens() {
  state_.counts.assign(static_cast<std::size_t>(config_.vocabulary), 0);
  std::vector<std::size_t> sample = data_.shuffled(options_.seed);
  sample.resize(std::min(sample.size(), kCountedConversations));
  state_.frequent = frequent_tokens(count_responses(data_, sample, config_.vocabulary),
                                    static_cast<std::size_t>(options_.loss_tokens));
}

double HeadTrainer::progress() const {
  double share = static_cast<double>(state_.pairs) / static_cast<double>(state_.planned);
  if (options_.minutes > 0) share = std::max(share, state_.seconds / (60 * options_.minutes));
  return share;
}

/// Few unrolled steps first, since they are cheaper: docs/methods.md 7.2.
int HeadTrainer::steps_now() const {
  const bool at_once = kind_ == HeadKind::medusa || guesses_blocks(kind_);
  if (at_once || !options_.start.empty()) return options_.steps;
  const double share = progress();
  return share < 0.45 ? 1 : std::min(options_.steps, share < 0.7 ? 2 : options_.steps);
}

void HeadTrainer::open_epoch() {
  const bool may_grow = optimizer_->iterations > 0 && options_.ranks == 1;  // else all must agree
  if (may_grow) data_ = Dataset(folders(options_));
  if (usable_pairs(data_, batch_options_) == 0)
    fail("train head: the data has no response of two tokens or more");
  ++state_.epoch;
  order_ = data_.shuffled(options_.seed + static_cast<std::uint64_t>(state_.epoch));
  state_.epoch_size = order_.size();
  state_.next = 0;
}

Batch HeadTrainer::next_batch() {
  std::vector<std::size_t> chosen;
  // Processes take turns: each builds the batches of all and keeps its own, so that they agree on
  // where the epoch is.
  for (int rank = 0; rank < options_.ranks; ++rank) {
    std::vector<std::size_t> batch;
    std::int64_t pairs = 0;
    while (pairs < options_.batch) {
      if (state_.next == order_.size()) open_epoch();
      const std::size_t index = order_[state_.next++];
      const ConversationSize size = data_.size_of(index);
      if (!usable(size, batch_options_)) continue;
      batch.push_back(index);
      pairs += pairs_of(size, batch_options_);
    }
    state_.pairs += pairs;
    if (rank == options_.rank) chosen = std::move(batch);
  }
  BatchOptions now = batch_options_;
  now.steps = steps_now();
  Batch batch = pack_batch(data_, chosen, now, torch::kFloat, device_);
  if (state_.epoch == 0) {
    for (const TokenId token : batch.response_tokens)
      ++state_.counts[static_cast<std::size_t>(token)];
  }
  if (guesses_blocks(kind_)) {
    const auto iteration = static_cast<std::uint64_t>(optimizer_->iterations);
    return with_anchors(batch, options_.anchors, options_.seed * 1000003 + iteration);
  }
  return batch;
}

HeadLoss HeadTrainer::loss_of(const Batch& batch, bool count_right) {
  const std::vector<TokenId> tokens =
      union_of(state_.frequent, batch.response_tokens, kLossTokensMultiple, config_.vocabulary);
  const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
  const Tensor chosen = torch::tensor(ids, torch::kLong).to(device_);
  return head_loss(*model_, tables_, batch, chosen, static_cast<int>(batch.step_token.size()),
                   loss_options_,
                   options_.seed + static_cast<std::uint64_t>(optimizer_->iterations), count_right);
}

void HeadTrainer::train_once() {
  Batch batch = next_batch();
  if (options_.noise > 0 && kind_ == HeadKind::eagle) {
    add_noise(batch, options_.noise * state_.scales.last,
              options_.seed + static_cast<std::uint64_t>(optimizer_->iterations));
  }
  const bool log = (optimizer_->iterations + 1) % options_.log_every == 0;
  const HeadLoss loss = loss_of(batch, log);
  loss.total.backward();
  if (exchange_) {
    exchange_->sum(parameters_->gradients());
    parameters_->gradients().div_(options_.ranks);
  }
  const double norm = optimizer_->step(progress());
  if (!std::isfinite(norm)) {
    fail(
        "train head: iteration {}: the loss is {} and its gradient not finite: lower --rate, or "
        "look at the data; the last good checkpoint is kept in {}",
        optimizer_->iterations + 1, loss.total.item<double>(), options_.out);
  }
  const auto now = Clock::now();
  state_.seconds += std::chrono::duration<double>(now - mark_).count();
  mark_ = now;
  if (log && leads()) log_progress(loss, norm);
}

void HeadTrainer::log_progress(const HeadLoss& loss, double norm) {
  CurveRow row = {{"iteration", static_cast<double>(optimizer_->iterations)},
                  {"pairs", static_cast<double>(state_.pairs)},
                  {"seconds", state_.seconds},
                  {"epoch", static_cast<double>(state_.epoch)},
                  {"rate", optimizer_->rate_at(progress())},
                  {"norm", norm}};
  add_steps(row, "loss", loss.step_loss, options_.steps);
  add_steps(row, "right", loss.step_right, options_.steps);
  curve_->append(row);
  hooks_.log(fmt::format(
      "iteration {}: {:.2f} M pairs, {:.0f} pairs/s, {:.0f} %, loss {:.3f}, right {:.3f}",
      optimizer_->iterations, static_cast<double>(state_.pairs) / 1e6,
      static_cast<double>(state_.pairs) / state_.seconds, 100 * progress(), loss.step_loss.front(),
      fmt::join(loss.step_right, " ")));
}

/// Exports the values, measures them and keeps them if they are the best so far.
void HeadTrainer::evaluate(const Tensor& values, const char* what) {
  if (!leads() || is_stopped()) return;
  const auto trial = at("trial");
  export_to(trial, values);
  const HeadScores scores = hooks_.evaluate ? hooks_.evaluate(trial) : HeadScores{};
  if (is_stopped()) return;
  state_.evaluated = optimizer_->iterations;
  const double score =
      scores.empty() ? static_cast<double>(optimizer_->iterations) : scores[0].second;
  CurveRow row = {{"iteration", static_cast<double>(optimizer_->iterations)},
                  {"pairs", static_cast<double>(state_.pairs)},
                  {"seconds", state_.seconds}};
  std::string line;
  for (const auto& [name, value] : scores) {
    row.emplace_back(name, value);
    line += fmt::format(" {} {:.3f}", name, value);
  }
  if (!scores.empty()) {
    evaluations_->append(row);
    hooks_.log(fmt::format("{} at iteration {}:{}", what, optimizer_->iterations, line));
  }
  const bool better = state_.best_scores.empty() ? score >= state_.best : score > state_.best;
  state_.since_best = better ? 0 : state_.since_best + 1;
  if (better) {
    state_.best = score;
    state_.best_scores = scores;
    state_.best_facts = facts();
    export_to(at("head"), values);
  }
  write_curve_page(at("curves.html"), {curve_->path(), evaluations_->path()});
  mark_ = Clock::now();
}

void HeadTrainer::evaluate_if_due() {
  if (every(options_.evaluate_every) && state_.evaluated < optimizer_->iterations)
    evaluate(optimizer_->average, "average");
}

/// The last values are measured and exported. Unless it is stopped meanwhile, the run is over then.
void HeadTrainer::conclude() {
  const int since_best = state_.since_best;  // --patience counts no more
  save();
  evaluate(optimizer_->average, "average");
  evaluate(parameters_->values(), "final values");
  if (!leads() || is_stopped()) return;
  std::filesystem::remove_all(at("trial"));
  if (state_.best_facts.is_null()) state_.best_facts = facts();  // of an older checkpoint
  write_model_card({at("head"), state_.best_scores, state_.best_facts}, evaluations_->path());
  state_.since_best = since_best;
  state_.concluded = optimizer_->iterations;
  save();
}

void HeadTrainer::export_to(const std::filesystem::path& folder, const Tensor& values) {
  const bool is_whole = options_.draft_vocabulary == config_.vocabulary;
  const auto drafted = is_whole ? std::vector<TokenId>{} : drafted_now();
  export_head({shape_, *parameters_, values, tables_, drafted, config_, options_.steps, facts()},
              folder);
}

/// The most frequent tokens, those of the head that it started from before most others.
std::vector<TokenId> HeadTrainer::drafted_now() const {
  return frequent_tokens(seen_before(state_.counts, drafted_before_),
                         static_cast<std::size_t>(options_.draft_vocabulary));
}

Json HeadTrainer::facts() const {
  const DatasetInfo& info = data_.info();
  std::vector<int> taps(info.taps.begin(), info.taps.end() - (info.taps.empty() ? 0 : 1));
  return {{"target", info.model},
          {"target_sha256", info.model_sha256},
          {"target_fingerprint", fingerprint_},
          {"tap_layers", taps},
          {"conversations", data_.size()},
          {"response_tokens", data_.response_tokens()},
          {"pairs_trained", state_.pairs},
          {"epochs", state_.epoch},
          {"iterations", optimizer_->iterations},
          {"seconds", std::round(state_.seconds)},
          {"draft_vocabulary", options_.draft_vocabulary},
          {"draft_vocabulary_coverage", coverage(state_.counts, drafted_now())},
          {"settings", settings_of(options_, info.model_sha256)}};
}

void HeadTrainer::save() {
  if (leads()) {
    save_checkpoint(at("checkpoint.safetensors"), state_,
                    settings_of(options_, data_.info().model_sha256), *parameters_, *optimizer_);
  }
  mark_ = Clock::now();
}

bool HeadTrainer::is_over() const {
  return progress() >= 1 || (options_.patience > 0 && state_.since_best >= options_.patience);
}

HeadTrainResult HeadTrainer::run() {
  evaluate_if_due();  // again, where the run was stopped meanwhile
  while (!is_over() && !is_stopped()) {
    train_once();
    evaluate_if_due();
    if (every(options_.checkpoint_every)) save();
  }
  if (is_stopped()) {
    save();
    return {{}, {}, facts()};
  }
  if (state_.concluded != optimizer_->iterations) conclude();
  if (is_stopped()) return {{}, {}, facts()};
  if (!leads()) return {};
  return {at("head"), state_.best_scores, state_.best_facts};
}

}  // namespace

HeadTrainResult train_head(const HeadTrainOptions& options, const Checkpoint& target,
                           const HeadTrainHooks& hooks) {
  return HeadTrainer(options, target, hooks).run();
}

}  // namespace talon
