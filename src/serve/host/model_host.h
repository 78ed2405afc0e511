#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "learn/learner.h"
#include "runtime/loaded_model.h"
#include "runtime/named_methods.h"
#include "serve/fault_notes.h"
#include "serve/host/answer_listener.h"
#include "serve/host/method_choice.h"
#include "text/grammar/grammar.h"

namespace talon {

struct HostOptions {
  DecodeSettings decode;
  double step_ms = kUsualStep;  // EngineOptions::step_ms
  int queue = 64;               // most jobs that wait for their first token
  std::optional<LearnOptions> learn = {};
  FaultNotes::Write note = {};  // of answers that fail or lose their drafter
};

using JobId = std::uint64_t;

/// A request and who asked for it.
struct Job {
  Request request;  // its method is chosen by `method`
  MethodChoice method;
  std::shared_ptr<AnswerListener> listener;
  /// Completes the request with what needs the model's backend; called once, on the engine's
  /// thread. May be empty. An Error that it throws, or a want of memory, refuses the job; what else
  /// it throws ends it as failed.
  std::function<void(Request&)> prepare = {};
};

/// An answer that is under way.
struct JobProgress {
  JobId id = 0;
  std::chrono::steady_clock::time_point came;
  int prompt_tokens = 0;
  int answer_tokens = 0;
  int drafted = 0;   // draft nodes that were checked
  int accepted = 0;  // draft nodes that became text
};

/// Rounds that checked a draft.
struct SpeculationSums {
  static constexpr std::size_t kPositions = 16;

  long drafts = 0;                                // rounds
  long drafted = 0;                               // draft nodes that were checked
  long accepted = 0;                              // draft nodes that became text
  std::array<long, kPositions> accepted_at = {};  // by their place in the round
};

/// Sums since the start, and what there is to do.
struct HostStatistics {
  int running = 0;        // with room in the cache
  int waiting = 0;        // for room in the cache, those that were set back included
  double cache_used = 0;  // share of the cache's pages that running answers hold
  long steps = 0;
  long preemptions = 0;
  long prompt_tokens = 0;  // of answers that have begun
  long reused_tokens = 0;  // tokens of prompts that the cache had
  long answer_tokens = 0;
  SpeculationSums speculation;
  EngineStatistics faults;
  EngineLoad load;                // of the last step
  std::vector<JobProgress> jobs;  // the oldest first
  std::optional<LearnStatistics> learning;
};

/// One model with the thread that owns its engine: jobs go in and are cancelled from any thread,
/// and listeners hear of them.
class ModelHost {
 public:
  /// Throws as Answerer does for settings that cannot be meant.
  ModelHost(LoadedModel loaded, std::unique_ptr<KvCache> cache, HostOptions options);
  /// Ends all jobs as cancelled.
  ~ModelHost();
  ModelHost(const ModelHost&) = delete;
  ModelHost& operator=(const ModelHost&) = delete;

  const LoadedModel& loaded() const { return loaded_; }
  /// What drafts unless a request says otherwise.
  const std::string& drafter() const { return methods_.drafter(); }
  long cache_positions() const;
  /// Most rows of one forward.
  int max_rows() const { return max_rows_; }
  /// Most jobs that can wait, and so most of one call of submit().
  int most_waiting() const { return most_waiting_; }
  /// REQUIRES: the model has a tokenizer. Any thread.
  const GrammarCompiler& grammars() const { return *grammars_; }

  // From any thread:
  /// Nothing if the queue has no room for `jobs`: then none is taken.
  std::optional<std::vector<JobId>> submit(std::vector<Job>&& jobs);
  /// Within one step the job has ended as cancelled. Unknown ids are ignored.
  void cancel(JobId job);
  /// So do all jobs, also those that come later.
  void cancel_all();
  HostStatistics statistics() const;
  /// Whether no job is left.
  bool idle() const;

 private:
  struct Active {
    Job job;
    JobProgress progress;
    bool has_begun = false;
    bool is_learned_from = false;
    std::size_t rounds = 0;  // that are counted
  };

  EngineOptions watched(EngineOptions options);
  void learn();
  template <typename Work>
  bool contain(std::string_view kind, Work&& work) noexcept;
  void run();
  bool take_orders() noexcept;
  void wait_for_orders(std::unique_lock<std::mutex>& lock) noexcept;
  void use_heads(HeadFinder heads) noexcept;
  void begin(Active active) noexcept;
  std::optional<Refusal> hand_over(Active active);
  std::optional<MethodId> method_of(const MethodChoice& choice);
  void cancel_now(JobId job);
  void see(const RoundReport& report);
  void deliver(const Progress& progress) noexcept;
  void count(const SequenceStatistics& statistics, Active& active);
  void note_faults();
  void publish();

  LoadedModel loaded_;
  std::optional<GrammarCompiler> grammars_;  // none without a tokenizer
  std::unique_ptr<KvCache> cache_;
  int max_rows_ = 0;
  std::unique_ptr<Learner> learner_;  // or null
  Engine engine_;
  NamedMethods methods_;
  RecentMethods recent_methods_{methods_};  // that requests asked for
  int most_waiting_;
  std::map<SequenceId, Active> active_;
  long steps_ = 0, preemptions_ = 0, prompt_tokens_ = 0, reused_tokens_ = 0, answer_tokens_ = 0;
  SpeculationSums speculation_;
  FaultNotes notes_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<Active> inbox_;
  std::vector<JobId> cancelled_;
  HostStatistics statistics_;
  int waiting_ = 0;  // jobs that have no token yet, those in the inbox included: for the queue
  int jobs_ = 0;
  JobId next_id_ = 1;
  bool cancels_all_ = false;
  std::optional<HeadFinder> new_heads_;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all others
};

}  // namespace talon
