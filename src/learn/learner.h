#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "learn/folder_turn.h"
#include "learn/learn_state.h"
#include "learn/learning_head.h"
#include "learn/measurement.h"
#include "learn/text_keeper.h"
#include "runtime/decode_settings.h"

namespace talon {

struct LearnOptions {
  std::filesystem::path folder;   // of all that is kept; made if it is missing
  std::filesystem::path trainer;  // the program talon-train; empty: texts are kept and no more
  std::filesystem::path keep;     // of `talon train data`: answers to ordinary questions; or empty
  double share = 0.25;            // of the machine's processors, while nobody is served
  std::size_t room_bytes = TextKeeperOptions{}.room_bytes;
  long least_tokens = 20'000;  // of answers, before a head learns from them
  double epochs = 2;           // of a round of training
  double rate = 5e-4;          // its highest learning rate
  double margin = 0.02;        // by which tau on held-out texts must grow for a head to be used
  double allowance = 0.03;     // by which it may fall on ordinary texts, all rounds together
  std::chrono::milliseconds rest{1000};  // after an answer, before the machine counts as idle
  std::chrono::milliseconds save_every{60'000};  // between writings of what changed in the state
  std::chrono::milliseconds again{600'000};      // after a head that could not be moved, or a round
                                                 // whose folder could not be removed
  LearnNote note = [](const std::string&) {};
};

enum class LearnPhase { gathering, training, measuring };
std::string_view name_of(LearnPhase phase);

/// What a round of training brought: tokens per check of the head before it and of the new one.
struct LearnRound {
  double before = 0, after = 0;  // on texts of the server, held out
  double ordinary_before = 0;    // of the head that the folder began with; 0: not measured
  double ordinary_after = 0;
  bool used = false;
};

struct LearnStatistics {
  TextStatistics texts;
  LearnPhase phase = LearnPhase::gathering;
  long rounds = 0, swaps = 0;
  long fresh_tokens = 0;  // of answers since the last round
  std::optional<LearnRound> last;
  std::string problem;  // why the last round came to nothing
};

/// What a server does to draft better for those whom it serves (docs/serving/learning.md): it keeps
/// the texts that it writes, and while nobody is served a program of low priority trains the head
/// on them; the new head is used where it is measured better on texts that it has not seen, and not
/// worse on ordinary ones.
class Learner {
 public:
  using Clock = std::chrono::steady_clock;
  struct Host {
    /// From then on new requests are drafted for by the heads that this finds. Any thread.
    std::function<void(HeadFinder)> use_heads;
    /// The engine's thread is to look at next_work(). Any thread.
    std::function<void()> wake;
  };

  /// `loaded` is borrowed; of `settings` the drafter and the heads are changed to those that learn.
  /// Throws Error for a folder that cannot be used, or that another server uses, UsageError for a
  /// drafter without a head that can learn.
  Learner(const LoadedModel& loaded, DecodeSettings& settings, LearnOptions options);
  /// What trains is ended; the next learner of the folder goes on with it.
  ~Learner();
  /// Begins to learn. Call it once.
  void start(Host host);
  /// Nothing is learned from then on, and `host` is not called.
  void stop();

  // On the engine's thread:
  CommitListener& listener() { return texts_.listener(); }
  void began(SequenceId sequence, ServedAnswer answer);
  void ended(SequenceId sequence, bool failed);
  /// When work() shall be called if nobody is served by then; Clock::time_point::max() for never.
  Clock::time_point next_work() const;
  /// Some milliseconds of measuring.
  void work();
  /// The heads of Host::use_heads were no use.
  void could_not_use(const std::string& problem);

  // From any thread:
  LearnStatistics statistics() const;

 private:
  void run();
  bool wants_round();
  bool has_trained_head() const;
  void train();
  std::vector<std::string> trainer_command() const;
  std::optional<int> run_trainer();
  bool may_train() const;
  void measure();
  std::vector<Measurement::Item> items_to_measure() const;
  bool is_better(const std::vector<Measurement::Item>& items, LearnRound& round);
  bool use_trained_head();
  void put_off_round(const std::string& problem);
  void end_round(const std::string& problem);
  bool wait_for_rest();
  bool look_at_texts();
  void look_at_ordinary_texts();
  void open_measured_texts();
  std::filesystem::path current_head() const;
  std::filesystem::path at(const std::string& name) const { return options_.folder / name; }
  void count_fresh_tokens();
  void save_state();
  void save_changed_state();
  void check_head(const std::filesystem::path& head) const;

  LearnOptions options_;
  const LoadedModel& loaded_;
  LearningHead head_;  // with the path of the head that the folder began with
  HeadForm form_;      // of that one
  HeadFinder others_;
  FolderTurn turn_;
  Manifest manifest_;
  TextKeeper texts_;
  LearnState state_;  // of the learner's thread, once it runs
  LearnState saved_;  // as it was last written
  Clock::time_point next_save_ = Clock::time_point::min();
  Clock::time_point next_round_ = Clock::time_point::min();
  RepeatedProblem saving_fails_;
  Host host_;
  long counted_tokens_ = 0;  // of TextStatistics::answer_tokens, those in state_.fresh_tokens
  long trained_tokens_ = 0;  // of state_.fresh_tokens, those that the round began with
  bool failed_round_ = false;
  std::optional<Dataset> recent_, ordinary_;  // that are being measured on

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool stopping_ = false;
  int answering_ = 0;
  Clock::time_point rest_ends_ = Clock::time_point::min();
  Clock::time_point next_slice_ = Clock::time_point::min();
  std::unique_ptr<Measurement> measurement_;
  bool is_measured_ = false;
  LearnStatistics statistics_;

  std::thread thread_;
};

}  // namespace talon
