#include "learn/learner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/machine/processors.h"
#include "draft/head/head_config.h"
#include "draft/registry.h"
#include "learn/learned_heads.h"
#include "learn/ordinary_texts.h"
#include "learn/trainer_process.h"

namespace talon {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 500ms;    // between looks at what has been kept
constexpr auto kPeriod = 200ms;  // of training and pausing
constexpr auto kSlice = 8ms;     // of measuring
constexpr long kMeasuredTokens = 5000;
constexpr long kOrdinaryTokens = 150'000;  // of `keep` that are trained on
constexpr double kVocabularyGrowth = 1.25;

const char* const kRun = "run";  // of the trainer

double processors() { return std::max(available_processors(), 1); }

/// Of the time in which something on `threads` threads may work so that it has a share of the
/// machine.
double share_of_time(double share, int threads) {
  return std::clamp(share * processors() / std::max(threads, 1), 0.01, 1.0);
}

Learner::Clock::duration scaled(Learner::Clock::duration time, double factor) {
  return std::chrono::duration_cast<Learner::Clock::duration>(std::chrono::duration<double>(time) *
                                                              factor);
}

}  // namespace

std::string_view name_of(LearnPhase phase) {
  constexpr std::string_view kNames[] = {"gathering", "training", "measuring"};
  return kNames[static_cast<std::size_t>(phase)];
}

Learner::Learner(const LoadedModel& loaded, DecodeSettings& settings, LearnOptions options)
    : options_(std::move(options)),
      loaded_(loaded),
      head_(take_learning_head(settings)),
      form_(form_of(head_.path)),
      others_(settings.heads),
      turn_(options_.folder),
      manifest_(served_manifest(loaded, taps_to_keep(head_, loaded.model.config))),
      texts_(loaded, manifest_, {options_.folder, options_.room_bytes}, options_.note) {
  if (!options_.keep.empty()) {
    import_ordinary_texts(options_.keep, options_.folder, manifest_, kOrdinaryTokens);
  }
  state_ = read_state(options_.folder, {.target_fingerprint = loaded.fingerprint,
                                        .kind = head_.trained_as,
                                        .head = "",
                                        .rounds = 0,
                                        .swaps = 0,
                                        .fresh_tokens = 0,
                                        .ordinary_tau = 0});
  saved_ = state_;
  state_.head = usable_head(
      options_.folder, state_, [&](const auto& head) { check_head(head); }, options_.note);
  statistics_.rounds = state_.rounds;
  statistics_.swaps = state_.swaps;
  statistics_.fresh_tokens = state_.fresh_tokens;
  settings.heads = heads_with(head_, current_head(), others_);
}

Learner::~Learner() { stop(); }

void Learner::start(Host host) {
  host_ = std::move(host);
  if (!options_.trainer.empty()) thread_ = std::thread([this] { run(); });
}

void Learner::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::filesystem::path Learner::current_head() const {
  return state_.head.empty() ? head_.path : at(state_.head);
}

/// Throws if it is none, or not one for this model.
void Learner::check_head(const std::filesystem::path& head) const {
  make_drafter(fmt::format("{}:head={}", head_.drafter, head.string()),
               {.target = &loaded_.model, .cache_positions = ServedRecorder::kMostTokens});
}

// On the engine's thread:

void Learner::began(SequenceId sequence, ServedAnswer answer) {
  texts_.began(sequence, std::move(answer));
  std::unique_lock lock(mutex_);
  ++answering_;
  lock.unlock();
  changed_.notify_all();
}

void Learner::ended(SequenceId sequence, bool failed) {
  std::unique_lock lock(mutex_);
  --answering_;
  rest_ends_ = Clock::now() + options_.rest;
  lock.unlock();
  texts_.ended(sequence, failed);
}

Learner::Clock::time_point Learner::next_work() const {
  const std::lock_guard lock(mutex_);
  const bool has_work = measurement_ && !is_measured_ && !stopping_;
  return has_work ? std::max(next_slice_, rest_ends_) : Clock::time_point::max();
}

void Learner::work() {
  const auto begin = Clock::now();
  Measurement* measurement = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (is_measured_) return;
    measurement = measurement_.get();
  }
  if (measurement == nullptr) return;
  bool is_over = false;
  while (!is_over && Clock::now() - begin < kSlice) is_over = !measurement->step();
  const auto now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    is_measured_ = is_over;
    next_slice_ = now + scaled(now - begin, 1 / share_of_time(options_.share, loaded_.threads) - 1);
  }
  changed_.notify_all();
}

void Learner::could_not_use(const std::string& problem) {
  options_.note(fmt::format("learn: the new head: {}", problem));
  const std::lock_guard lock(mutex_);
  statistics_.problem = problem;
}

LearnStatistics Learner::statistics() const {
  const std::lock_guard lock(mutex_);
  LearnStatistics statistics = statistics_;
  statistics.texts = texts_.statistics();
  return statistics;
}

// On the learner's own thread from here on:

void Learner::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLook, [&] { return stopping_; });
      if (stopping_) break;
    }
    try {
      if (wants_round()) train();
    } catch (const std::exception& error) {
      end_round(error.what());
    }
    save_changed_state();
  }
  save_state();
}

void Learner::count_fresh_tokens() {
  const long kept = texts_.statistics().answer_tokens;
  state_.fresh_tokens += kept - std::exchange(counted_tokens_, kept);
  {
    const std::lock_guard lock(mutex_);
    statistics_.fresh_tokens = state_.fresh_tokens;
  }
}

/// A round that was broken off, or enough new texts: more after a round that came to nothing. A
/// trained head waits for texts to be measured on.
bool Learner::wants_round() {
  count_fresh_tokens();
  if (Clock::now() < next_round_) return false;
  if (has_trained_head()) return texts_.statistics().held_out > 0;
  if (std::filesystem::exists(at(kRun))) return true;
  return state_.fresh_tokens >= options_.least_tokens * (failed_round_ ? 2 : 1);
}

/// A whole one, as the trainer left it or in the form of the first head.
bool Learner::has_trained_head() const { return is_whole_head(at(kRun) / "head"); }

void Learner::train() {
  if (!look_at_texts()) return;
  trained_tokens_ = state_.fresh_tokens;
  if (!has_trained_head()) {
    std::filesystem::create_directories(at(kRun));
    {
      const std::lock_guard lock(mutex_);
      statistics_.phase = LearnPhase::training;
    }
    options_.note(fmt::format("learn: training on {} new tokens of answers", state_.fresh_tokens));
    const std::optional<int> code = run_trainer();
    if (!code) return;  // stopped; its checkpoint stays
    if (*code != 0) {
      return end_round(
          fmt::format("the trainer ended with {}: see {}", *code, at("trainer.log").string()));
    }
  }
  if (!look_at_texts()) return;
  bring_into_form(at(kRun) / "head", loaded_.path, form_);
  if (texts_.statistics().held_out > 0) return measure();
  const std::lock_guard lock(mutex_);
  statistics_.phase = LearnPhase::gathering;
}

/// Waits until nobody is served. False if the server ends before.
bool Learner::wait_for_rest() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !may_train()) {
    lock.unlock();
    count_fresh_tokens();
    save_changed_state();
    lock.lock();
    changed_.wait_for(lock, kPeriod, [&] { return stopping_; });
  }
  return !stopping_;
}

/// What is damaged is put aside: it would end the round. All is read, so nobody is to be served
/// when it begins. False if the server ends before.
bool Learner::look_at_texts() {
  if (!wait_for_rest()) return false;
  texts_.flush();
  texts_.drop_damaged();
  look_at_ordinary_texts();
  return true;
}

void Learner::look_at_ordinary_texts() {
  if (!put_damaged_ordinary_texts_aside(options_.folder, options_.note)) return;
  state_.ordinary_tau = 0;
  if (options_.keep.empty()) return options_.note("learn: --learn-keep copies others");
  try {
    import_ordinary_texts(options_.keep, options_.folder, manifest_, kOrdinaryTokens);
  } catch (const std::exception& error) {
    options_.note(fmt::format("learn: {}", error.what()));
  }
}

std::vector<std::string> Learner::trainer_command() const {
  const Checkpoint checkpoint = open_checkpoint(current_head());
  const HeadConfig config = read_head_config(checkpoint, HeadTensors(checkpoint));
  const int threads = std::max(1, static_cast<int>(options_.share * processors()));
  const auto vocabulary = static_cast<int>(kVocabularyGrowth * form_.draft_vocabulary);
  std::vector<std::string> command = {options_.trainer.string(), "train", "head"};
  const auto add = [&](const char* flag, const std::string& value) {
    command.insert(command.end(), {flag, value});
  };
  add("-m", loaded_.path.string());
  add("--kind", head_.trained_as);
  add("--start", std::filesystem::weakly_canonical(current_head()).string());  // a run keeps it
  add("-o", at(kRun).string());
  add("--epochs", fmt::format("{}", options_.epochs));
  add("--rate", fmt::format("{}", options_.rate));
  add("--steps", "4");
  add("--batch", "1024");
  add("--checkpoint-every", "50");
  add("--intermediate", fmt::format("{}", config.intermediate));
  if (form_.in_four_bits) add("--weights", "int4");
  add("--draft-vocab", fmt::format("{}", std::min(vocabulary, loaded_.model.config.vocabulary)));
  add("--threads", fmt::format("{}", threads));
  add("--data", recent_folder(options_.folder).string());
  if (std::filesystem::exists(ordinary_folder(options_.folder))) {
    command.push_back(ordinary_folder(options_.folder).string());
  }
  return command;
}

bool Learner::may_train() const { return answering_ == 0 && Clock::now() >= rest_ends_; }

/// Its exit code; nothing if it was stopped by the end of the server.
std::optional<int> Learner::run_trainer() {
  const auto command = trainer_command();
  TrainerProcess process(command, at("trainer.log"));
  const int threads = std::max(1, static_cast<int>(options_.share * processors()));
  const auto on = scaled(kPeriod, share_of_time(options_.share, threads));
  const auto is_disturbed = [&] { return stopping_ || answering_ > 0; };
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    count_fresh_tokens();
    save_changed_state();
    lock.lock();
    if (const std::optional<int> code = process.ended()) return code;
    if (!may_train()) {
      changed_.wait_for(lock, kPeriod, [&] { return stopping_; });
      continue;
    }
    process.let_work(true);
    changed_.wait_for(lock, on, is_disturbed);
    if (on >= kPeriod && !is_disturbed()) continue;
    process.let_work(false);
    changed_.wait_for(lock, kPeriod - on, is_disturbed);
  }
  lock.unlock();
  return std::nullopt;
}

/// The engine's thread does it, with the drafters and kernels that serve.
void Learner::measure() {
  open_measured_texts();
  std::unique_lock lock(mutex_);
  statistics_.phase = LearnPhase::measuring;
  measurement_ = std::make_unique<Measurement>(loaded_.model, head_, items_to_measure());
  is_measured_ = false;
  next_slice_ = Clock::time_point::min();
  lock.unlock();
  host_.wake();
  lock.lock();
  changed_.wait(lock, [&] { return stopping_ || is_measured_; });
  if (!is_measured_) return;  // the next server measures again
  const std::unique_ptr<Measurement> measured = std::move(measurement_);
  lock.unlock();
  if (!measured->problem().empty()) return end_round(measured->problem());
  LearnRound round;
  round.used = is_better(measured->items(), round);
  if (round.used && !use_trained_head()) return;
  {
    const std::lock_guard again(mutex_);
    statistics_.last = round;
  }
  const std::string ordinary =
      round.ordinary_before > 0 ? fmt::format(", on ordinary ones {:.3f} (the first head {:.3f})",
                                              round.ordinary_after, round.ordinary_before)
                                : "";
  options_.note(fmt::format("learn: tokens per check on held-out texts {:.3f} -> {:.3f}{}: {}",
                            round.before, round.after, ordinary,
                            round.used ? "the new head is used" : "the old head stays"));
  failed_round_ = !round.used;
  end_round("");
}

void Learner::open_measured_texts() {
  recent_.emplace(held_out_folder(options_.folder));
  const auto ordinary = ordinary_held_out_folder(options_.folder);
  if (std::filesystem::exists(ordinary)) ordinary_.emplace(ordinary);
}

/// The head in use and the new one on recent texts; where there are ordinary ones the new head on
/// these, and the first head unless that is known.
std::vector<Measurement::Item> Learner::items_to_measure() const {
  const auto trained = at(kRun) / "head";
  const ReplayTexts recent = newest_texts(*recent_, kMeasuredTokens);
  std::vector<Measurement::Item> items = {{current_head(), recent}, {trained, recent}};
  if (!ordinary_) return items;
  const ReplayTexts ordinary = spread_texts(*ordinary_, kMeasuredTokens);
  items.push_back({trained, ordinary});
  if (state_.ordinary_tau == 0) items.push_back({head_.path, ordinary});
  return items;
}

bool Learner::is_better(const std::vector<Measurement::Item>& items, LearnRound& round) {
  round.before = items[0].tau;
  round.after = items[1].tau;
  if (items.size() > 3) state_.ordinary_tau = items[3].tau;
  if (items.size() > 2) {
    round.ordinary_before = state_.ordinary_tau;
    round.ordinary_after = items[2].tau;
  }
  return items[0].rounds > 0 && round.after >= (1 + options_.margin) * round.before &&
         round.ordinary_after >= (1 - options_.allowance) * round.ordinary_before;
}

/// The head before it goes when the next comes. False if it could not be moved.
bool Learner::use_trained_head() {
  const std::string before = state_.head;
  try {
    state_ = saved_ = adopt_head(options_.folder, at(kRun) / "head", state_);
  } catch (const std::exception& error) {
    put_off_round(error.what());
    return false;
  }
  drop_other_heads(options_.folder, state_, before);
  host_.use_heads(heads_with(head_, current_head(), others_));
  return true;
}

/// The trained head stays, and is measured again later.
void Learner::put_off_round(const std::string& problem) {
  recent_.reset();
  ordinary_.reset();
  trained_tokens_ = 0;
  next_round_ = Clock::now() + options_.again;
  options_.note(fmt::format("learn: the new head cannot be used yet: {}", problem));
  const std::lock_guard lock(mutex_);
  statistics_.phase = LearnPhase::gathering;
  statistics_.problem = problem;
}

/// The texts that it learned from count no more, also where nothing came of it.
void Learner::end_round(const std::string& problem) {
  recent_.reset();
  ordinary_.reset();
  std::error_code error;
  std::filesystem::remove_all(at(kRun), error);
  if (error) next_round_ = Clock::now() + options_.again;  // what is left would begin one at once
  ++state_.rounds;
  state_.fresh_tokens -= std::exchange(trained_tokens_, 0);
  failed_round_ = failed_round_ || !problem.empty();
  if (!problem.empty()) options_.note(fmt::format("learn: {}", problem));
  {
    const std::lock_guard lock(mutex_);
    measurement_.reset();
    statistics_.phase = LearnPhase::gathering;
    statistics_.rounds = state_.rounds;
    statistics_.swaps = state_.swaps;
    statistics_.fresh_tokens = state_.fresh_tokens;
    statistics_.problem = problem;
  }
  save_state();
}

/// Not more often than the options say.
void Learner::save_changed_state() {
  if (state_ != saved_ && Clock::now() >= next_save_) save_state();
}

void Learner::save_state() {
  next_save_ = Clock::now() + options_.save_every;
  try {
    write_state(options_.folder, state_);
    saved_ = state_;
  } catch (const std::exception& error) {
    if (saving_fails_.came()) options_.note(fmt::format("learn: {}", error.what()));
  }
}

}  // namespace talon
