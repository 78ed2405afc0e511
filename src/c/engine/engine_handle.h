#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "c/engine/news.h"
#include "c/handles.h"
#include "engine/engine.h"
#include "runtime/decode_settings.h"
#include "runtime/named_methods.h"

/// An engine with its cache and its methods. What computes has the turn of the model, all else the
/// engine's own; callbacks come with the engine's turn alone.
struct talon_engine {
 public:
  talon_engine(std::shared_ptr<talon::SharedModel> model, const talon_engine_options& options);
  ~talon_engine();

  const std::string& drafter() const { return drafter_; }
  std::uint64_t submit(const talon_request& request);
  void step(talon_news_fn news, void* user);
  void run(talon_news_fn news, void* user, const talon_cancel* cancel);
  void cancel(talon::SequenceId id);
  talon::EngineLoad load();
  talon_statistics statistics(talon::SequenceId id);

 private:
  talon::DecodeSettings settings_of(const talon_engine_options& options);
  void make(const talon_engine_options& options, const talon::DecodeSettings& settings);
  talon::MethodId method_of(const char* text);
  template <typename Work>
  void then_warn(Work&& work);
  void log_warnings() noexcept;
  void cancel_all();
  void step_in_turn(talon_news_fn news, void* user);
  void show_rounds();
  void deliver(const talon::Progress& progress, talon_news_fn news, void* user);
  void log_faults();

  std::shared_ptr<talon::SharedModel> model_;
  talon::Log log_;
  talon_round_fn round_ = nullptr;
  void* round_user_ = nullptr;
  std::vector<talon::RoundOf> rounds_;  // of the last step, to be shown after the model's turn
  talon::Turns turns_;
  std::unique_ptr<talon::KvCache> cache_;
  std::unique_ptr<talon::Engine> engine_;
  std::unique_ptr<talon::NamedMethods> methods_;
  std::string drafter_;
  std::optional<talon::RecentMethods> recent_methods_;  // of methods_
  std::set<talon::SequenceId> active_;
  talon::EngineStatistics logged_;
  std::vector<std::string> warnings_;  // to be told after the model's turn

  std::mutex mutex_;  // of the one below
  std::vector<talon::SequenceId> cancelled_;
};
