#include "serve/host/model_host.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/faults.h"

namespace talon {
namespace {

// Kinds of notes.
constexpr std::string_view kLearning = "learning threw";
constexpr std::string_view kDeaf = "who asked could not be told";

EngineOptions options_of(const LoadedModel& loaded, const HostOptions& host) {
  EngineOptions options = engine_options(
      host.decode, loaded.model, loaded.model.config.image ? nullptr : loaded.tokenizer_or_null());
  options.max_rows = std::max(options.max_rows, EngineOptions{}.max_rows);
  options.step_ms = host.step_ms;
  return options;
}

DecodeSettings for_strangers(DecodeSettings settings) {
  settings.shares_costs = true;
  return settings;
}

/// Changes the drafter and the heads of `host` to those that learn.
std::unique_ptr<Learner> make_learner(const LoadedModel& loaded, HostOptions& host) {
  if (!host.learn) return nullptr;
  return std::make_unique<Learner>(loaded, host.decode, *host.learn);
}

}  // namespace

ModelHost::ModelHost(LoadedModel loaded, std::unique_ptr<KvCache> cache, HostOptions options)
    : loaded_(std::move(loaded)),
      cache_(std::move(cache)),
      max_rows_(options_of(loaded_, options).max_rows),
      learner_(make_learner(loaded_, options)),
      engine_(loaded_.model, *cache_, watched(options_of(loaded_, options))),
      methods_(engine_, loaded_.model, *cache_, for_strangers(options.decode)),
      most_waiting_(options.queue),
      notes_(options.note) {
  if (loaded_.tokenizer && !loaded_.model.config.image)
    grammars_.emplace(*loaded_.tokenizer, loaded_.model.config.vocabulary);
  thread_ = std::thread([this] { run(); });
  if (learner_) learn();
}

void ModelHost::learn() {
  Learner::Host host;
  host.use_heads = [this](HeadFinder heads) {
    {
      const std::lock_guard lock(mutex_);
      new_heads_ = std::move(heads);
    }
    changed_.notify_one();
  };
  host.wake = [this] {
    { const std::lock_guard lock(mutex_); }  // it sleeps, or will look
    changed_.notify_one();
  };
  learner_->start(std::move(host));
}

EngineOptions ModelHost::watched(EngineOptions options) {
  options.observer = [this](const RoundReport& report) { see(report); };
  if (learner_) options.listener = &learner_->listener();
  return options;
}

ModelHost::~ModelHost() {
  if (learner_) learner_->stop();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

long ModelHost::cache_positions() const {
  return static_cast<long>(cache_->total_pages()) * kPageRows;
}

std::optional<std::vector<JobId>> ModelHost::submit(std::vector<Job>&& jobs) {
  std::vector<JobId> ids;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || waiting_ + static_cast<int>(jobs.size()) > most_waiting_) return std::nullopt;
    ids.reserve(jobs.size());
    inbox_.reserve(inbox_.size() + jobs.size());  // from here on nothing throws: all or none
    for (Job& job : jobs) {
      ids.push_back(next_id_);
      JobProgress progress;
      progress.id = next_id_++;
      progress.came = std::chrono::steady_clock::now();
      progress.prompt_tokens = static_cast<int>(job.request.prompt.size());
      inbox_.push_back({std::move(job), progress});
    }
    waiting_ += static_cast<int>(jobs.size());
    jobs_ += static_cast<int>(jobs.size());
  }
  changed_.notify_one();
  return ids;
}

void ModelHost::cancel(JobId job) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(job);
  }
  changed_.notify_one();
}

void ModelHost::cancel_all() {
  const std::lock_guard lock(mutex_);
  cancels_all_ = true;
}

HostStatistics ModelHost::statistics() const {
  const std::lock_guard lock(mutex_);
  HostStatistics statistics = statistics_;
  statistics.waiting = std::max(0, jobs_ - statistics_.running);
  if (learner_) statistics.learning = learner_->statistics();
  return statistics;
}

bool ModelHost::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_ == 0;
}

// On the engine's thread from here on. What is thrown here would end the server with all its
// answers.

/// Runs `work`, and says whether it came to its end. Notes what it throws.
template <typename Work>
bool ModelHost::contain(std::string_view kind, Work&& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    notes_.add(kind, error.what());
  } catch (...) {
    notes_.add(kind, "unknown fault");
  }
  return false;
}

void ModelHost::run() {
  while (take_orders()) {
    for (const Progress& progress : engine_.step()) deliver(progress);
    ++steps_;
    note_faults();
    contain("statistics are incomplete", [&] { publish(); });
  }
}

/// Waits for work. False once everything has ended and nothing more is to come.
bool ModelHost::take_orders() noexcept {
  std::vector<Active> jobs;
  std::vector<JobId> cancelled;
  bool stops = false, cancels_all = false;
  std::optional<HeadFinder> heads;
  {
    std::unique_lock lock(mutex_);
    wait_for_orders(lock);
    heads = std::exchange(new_heads_, std::nullopt);
    jobs.swap(inbox_);
    cancelled.swap(cancelled_);
    stops = stopping_;
    cancels_all = cancels_all_;
  }
  if (heads) use_heads(*std::move(heads));
  for (Active& job : jobs) begin(std::move(job));
  for (const JobId job : cancelled) cancel_now(job);
  if (stops || cancels_all) {
    for (const auto& [sequence, active] : active_) engine_.cancel(sequence);
  }
  return !stops || !engine_.idle();
}

/// Measures for the learner while there is nothing else to do.
void ModelHost::wait_for_orders(std::unique_lock<std::mutex>& lock) noexcept {
  const auto is_called = [&] {
    return stopping_ || !inbox_.empty() || !cancelled_.empty() || new_heads_ || !engine_.idle();
  };
  while (!is_called()) {
    const auto next = learner_ ? learner_->next_work() : Learner::Clock::time_point::max();
    if (next == Learner::Clock::time_point::max()) {
      changed_.wait(lock);
    } else if (Learner::Clock::now() < next) {
      changed_.wait_until(lock, next);
    } else {
      lock.unlock();
      contain(kLearning, [&] { learner_->work(); });
      lock.lock();
    }
  }
}

/// Answers under way keep those that they have.
void ModelHost::use_heads(HeadFinder heads) noexcept {
  contain(kLearning, [&] {
    try {
      methods_.use_heads(std::move(heads));
    } catch (const std::exception& error) {
      learner_->could_not_use(error.what());
    }
  });
}

/// Whatever is thrown on the way is this job's alone.
void ModelHost::begin(Active active) noexcept {
  const std::shared_ptr<AnswerListener> listener = active.job.listener;
  Refusal refusal{Refusal::Reason::bad_request, {}};
  bool is_fault = false;  // not of the request
  try {
    std::optional<Refusal> refused = hand_over(std::move(active));
    if (!refused) return;
    refusal = *std::move(refused);
  } catch (const Error& error) {
    assign_or_say_why_not(refusal.message, error.what());
  } catch (const std::bad_alloc&) {
    refusal.reason = Refusal::Reason::queue_full;
    assign_or_say_why_not(refusal.message, "memory: expected enough for this request, found none");
  } catch (const std::exception& error) {
    is_fault = true;
    assign_or_say_why_not(refusal.message, error.what());
  } catch (...) {
    is_fault = true;
    assign_or_say_why_not(refusal.message, "unknown fault");
  }
  {
    const std::lock_guard lock(mutex_);
    --waiting_;
    --jobs_;
  }
  if (!is_fault) return listener->refused(refusal);
  notes_.add("an answer could not be begun", refusal.message);
  Progress end;
  end.finish = FinishReason::failed;
  end.error = refusal.message;
  contain(kDeaf, [&] { listener->news(end, {}); });
}

/// The engine has the job from then on, unless this throws or says why it is refused.
std::optional<Refusal> ModelHost::hand_over(Active active) {
  const std::optional<MethodId> method = method_of(active.job.method);
  if (!method) {
    return Refusal{Refusal::Reason::queue_full,
                   fmt::format("talon: expected one of the {} methods in use, found another",
                               RecentMethods::kMost)};
  }
  active.job.request.method = *method;
  if (active.job.prepare) active.job.prepare(active.job.request);
  std::optional<ServedAnswer> answer;
  if (learner_) {
    answer.emplace(active.job.request);
    answer->races = engine_.knows_noise(*method);
  }
  auto submitted = engine_.submit(std::move(active.job.request));
  if (Refusal* refusal = std::get_if<Refusal>(&submitted)) return std::move(*refusal);
  const SequenceId sequence = std::get<SequenceId>(submitted);
  Active* begun = nullptr;
  try {
    begun = &active_.emplace(sequence, std::move(active)).first->second;
  } catch (...) {
    engine_.cancel(sequence);  // nobody hears of it
    throw;
  }
  const auto learn = [&] { learner_->began(sequence, *std::move(answer)); };
  begun->is_learned_from = answer && contain(kLearning, learn);
  if (!contain(kDeaf, [&] { begun->job.listener->taken(); })) engine_.cancel(sequence);
  return std::nullopt;
}

/// None: there are too many, and requests have them all.
std::optional<MethodId> ModelHost::method_of(const MethodChoice& choice) {
  check_choice(choice);
  try {
    const MethodId method = recent_methods_.get(text_of(choice, methods_.drafter()));
    if (!recent_methods_.are_too_many()) return method;
    recent_methods_.forget_newest();
    return std::nullopt;
  } catch (const Error& error) {
    throw UsageError(problem_of(choice, error.what()));
  }
}

void ModelHost::cancel_now(JobId job) {
  const auto found = std::find_if(active_.begin(), active_.end(), [&](const auto& entry) {
    return entry.second.progress.id == job;
  });
  if (found != active_.end()) engine_.cancel(found->first);
}

/// Comes before the news of the same tokens.
void ModelHost::see(const RoundReport& report) {
  const auto found = active_.find(report.sequence);
  if (found == active_.end()) return;
  found->second.progress.drafted += report.tree->draft_nodes();
  found->second.job.listener->drafted(report);
}

void ModelHost::deliver(const Progress& progress) noexcept {
  const auto found = active_.find(progress.sequence);
  if (found == active_.end()) return;
  Active& active = found->second;
  const SequenceStatistics& statistics = engine_.statistics(progress.sequence);
  const bool ends = progress.finish != FinishReason::none;
  const auto tokens = static_cast<int>(progress.tokens.size());
  active.progress.answer_tokens += tokens;
  active.progress.accepted += progress.accepted;
  answer_tokens_ += tokens;
  count(statistics, active);
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(active.has_begun, true)) --waiting_;
    if (ends) --jobs_;
  }
  const auto tell = [&] { active.job.listener->news(progress, statistics); };
  if (!contain(kDeaf, tell)) engine_.cancel(progress.sequence);
  if (!ends) return;
  const bool failed = progress.finish == FinishReason::failed;
  if (failed) notes_.add("an answer failed", progress.error);
  if (active.is_learned_from) {
    contain(kLearning, [&] { learner_->ended(progress.sequence, failed); });
  }
  preemptions_ += statistics.preemptions;
  active_.erase(found);
}

/// What is new in the statistics of an answer.
void ModelHost::count(const SequenceStatistics& statistics, Active& active) {
  if (!active.has_begun) {
    prompt_tokens_ += statistics.prompt_tokens;
    reused_tokens_ += statistics.reused_tokens;
  }
  for (std::size_t& round = active.rounds; round < statistics.drafted.size(); ++round) {
    if (statistics.drafted[round] == 0) continue;
    const int accepted = statistics.accepted[round];
    ++speculation_.drafts;
    speculation_.drafted += statistics.drafted[round];
    speculation_.accepted += accepted;
    const auto places = std::min(static_cast<std::size_t>(accepted), SpeculationSums::kPositions);
    for (std::size_t place = 0; place < places; ++place) ++speculation_.accepted_at[place];
  }
}

void ModelHost::note_faults() {
  if (engine_.statistics().dropped == statistics_.faults.dropped) return;
  notes_.add("a drafter or policy threw, and its answers go on without drafts",
             engine_.drop_reason());
}

void ModelHost::publish() {
  const double pages = cache_->total_pages();
  const std::lock_guard lock(mutex_);
  statistics_.load = engine_.load();
  statistics_.running = statistics_.load.running;
  statistics_.cache_used = 1 - cache_->free_pages() / pages;
  statistics_.steps = steps_;
  statistics_.preemptions = preemptions_;
  statistics_.prompt_tokens = prompt_tokens_;
  statistics_.reused_tokens = reused_tokens_;
  statistics_.answer_tokens = answer_tokens_;
  statistics_.speculation = speculation_;
  statistics_.faults = engine_.statistics();
  statistics_.jobs.clear();
  for (const auto& [sequence, active] : active_) statistics_.jobs.push_back(active.progress);
}

}  // namespace talon
