#include "c/engine/engine_handle.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "c/forms.h"
#include "c/head_warnings.h"
#include "c/request.h"
#include "runtime/cache_budget.h"
#include "runtime/cost_cache.h"

namespace {

using namespace talon;

talon_status status_of(Refusal::Reason reason) {
  switch (reason) {
    case Refusal::Reason::bad_request:
      return TALON_BAD_ARGUMENT;
    case Refusal::Reason::queue_full:
      return TALON_QUEUE_FULL;
    case Refusal::Reason::too_long:
    case Refusal::Reason::no_room:
      return TALON_TOO_LONG;
  }
  return TALON_BUG;
}

EngineOptions options_of(const talon_engine_options& given, const DecodeSettings& settings,
                         const LoadedModel& loaded) {
  EngineOptions options = engine_options(settings, loaded.model, loaded.tokenizer_or_null());
  options.max_rows = std::max(options.max_rows, EngineOptions{}.max_rows);
  options.most_waiting = given.most_waiting;
  options.step_ms = given.step_ms < 0 ? kUsualStep : given.step_ms;
  return options;
}

void check_options(const talon_engine_options& options) {
  const auto at_least_1 = [](std::int32_t value, const char* name) {
    require(value >= 1, fmt::format("options->{}", name), "at least 1", value);
  };
  at_least_1(options.chunk, "chunk");
  require(options.max_nodes >= 0 && options.max_nodes <= kMostTreeNodes, "options->max_nodes",
          fmt::format("0 to {}", kMostTreeNodes).c_str(), options.max_nodes);
  at_least_1(options.most_waiting, "most_waiting");
  require(!std::isnan(options.step_ms), "options->step_ms", "a number", options.step_ms);
  require_flag(options.cache_f32, "options->cache_f32");
}

std::optional<KvType> kv_of(const talon_engine_options& options) {
  return options.cache_f32 ? std::optional(KvType::f32) : std::nullopt;
}

}  // namespace

talon_engine::talon_engine(std::shared_ptr<SharedModel> model, const talon_engine_options& options)
    : model_(std::move(model)),
      log_{options.log, options.log_user},
      round_(options.round),
      round_user_(options.round_user) {
  check_options(options);
  if (model_->loaded.threads > 1) turns_.stay_in_process();
  const DecodeSettings settings = settings_of(options);
  then_warn([&] {
    make(options, settings);
    drafter_ = methods_->drafter();
    warn_of_heads(drafter_, *model_, warnings_);
  });
  log_(TALON_LOG_INFO, fmt::format("drafter {}, {} cache pages", drafter_, cache_->total_pages()));
}

void talon_engine::make(const talon_engine_options& options, const DecodeSettings& settings) {
  const LoadedModel& loaded = model_->loaded;
  const Turn turn(model_->turns);
  try {
    cache_ =
        open_cache(loaded.model, {static_cast<std::size_t>(options.cache_bytes), kv_of(options)});
    engine_ =
        std::make_unique<Engine>(loaded.model, *cache_, options_of(options, settings, loaded));
    naming("options->method", [&] {
      methods_ = std::make_unique<NamedMethods>(*engine_, loaded.model, *cache_, settings);
    });
    recent_methods_.emplace(*methods_);
  } catch (...) {  // what they free is the model's backend's, so it needs the turn, too
    methods_.reset();
    engine_.reset();
    cache_.reset();
    throw;
  }
}

talon_engine::~talon_engine() {
  const TurnToFree turn(model_->turns);
  methods_.reset();
  engine_.reset();
  cache_.reset();
}

DecodeSettings talon_engine::settings_of(const talon_engine_options& options) {
  DecodeSettings settings;
  settings.chunk = options.chunk;
  settings.max_nodes = options.max_nodes;
  if (options.method) {
    naming("options->method",
           [&] { settings = with_method(settings, parse_method(options.method)); });
  }
  if (round_) {
    settings.observer = [this](const RoundReport& report) { rounds_.emplace_back(report); };
  }
  settings.heads = find_heads(*model_, options.head_folders, options.head_folder_count, warnings_);
  settings.costs = cost_cache(model_->loaded, cache_type(model_->loaded.model, kv_of(options)),
                              path_or_empty(options.costs_folder));
  return settings;
}

std::uint64_t talon_engine::submit(const talon_request& given) {
  Request request = request_of(given, model_->loaded.end_tokens);
  request.constraint = constraint_of(given, *model_);
  const Turn turn(turns_);
  request.method = method_of(given.method);
  auto place = std::set<SequenceId>{0}.extract(0);  // room first: no request is lost
  const auto submitted = engine_->submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) {
    const bool is_of_request = refusal->reason != Refusal::Reason::queue_full;
    throw StatusError(status_of(refusal->reason),
                      is_of_request ? of_request(refusal->message) : refusal->message);
  }
  const SequenceId id = std::get<SequenceId>(submitted);
  place.value() = id;
  active_.insert(std::move(place));
  return id;
}

/// Making one may load a head and measure.
MethodId talon_engine::method_of(const char* text) {
  const std::string name = text ? text : "";
  MethodId method = 0;
  const auto get = [&] { naming("request->method", [&] { method = recent_methods_->get(name); }); };
  if (methods_->knows(name)) {
    get();
    return method;
  }
  then_warn([&] {
    const Turn turn(model_->turns);
    get();
    warn_of_heads(parse_method(name).drafter, *model_, warnings_);
  });
  return method;
}

/// What comes up in `work`, which may take the model's turn, is told after it, also where it
/// throws.
template <typename Work>
void talon_engine::then_warn(Work&& work) {
  try {
    work();
  } catch (...) {
    log_warnings();
    throw;
  }
  log_warnings();
}

void talon_engine::log_warnings() noexcept {
  for (const std::string& warning : std::exchange(warnings_, {})) log_(TALON_LOG_WARNING, warning);
}

void talon_engine::step(talon_news_fn news, void* user) {
  const Turn turn(turns_);
  step_in_turn(news, user);
}

void talon_engine::run(talon_news_fn news, void* user, const talon_cancel* cancel) {
  bool cancels = false;
  for (bool idle = false; !idle;) {
    const Turn turn(turns_);
    cancels = cancels || (cancel && cancel->flag.requested());
    if (cancels) cancel_all();  // also what others have submitted meanwhile
    if (!engine_->idle()) step_in_turn(news, user);
    idle = engine_->idle();
  }
  if (cancels) throw StatusError(TALON_CANCELLED, "cancelled");
}

void talon_engine::cancel_all() {
  for (const SequenceId id : active_) cancel(id);
}

void talon_engine::cancel(SequenceId id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
}

void talon_engine::step_in_turn(talon_news_fn news, void* user) {
  {
    const std::lock_guard lock(mutex_);
    for (const SequenceId id : std::exchange(cancelled_, {})) engine_->cancel(id);
  }
  std::span<const Progress> all;
  {
    const Turn turn(model_->turns);
    all = engine_->step();
  }
  show_rounds();
  std::exception_ptr
      thrown;  // by a callback for one request: the others' news are told all the same
  for (const Progress& progress : all) {
    if (progress.finish != FinishReason::none) active_.erase(progress.sequence);
    if (!news) continue;
    try {
      deliver(progress, news, user);
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
    }
  }
  log_faults();
  if (thrown) std::rethrow_exception(thrown);
}

void talon_engine::show_rounds() {
  bool threw = false;
  for (const RoundOf& shown : std::exchange(rounds_, {})) {
    try {
      round_(round_user_, &shown.round());
    } catch (...) {
      threw = true;
    }
  }
  if (threw) log_(TALON_LOG_WARNING, "a round callback threw");
}

void talon_engine::deliver(const Progress& progress, talon_news_fn news, void* user) {
  const NewsOf shown(progress, engine_->statistics(progress.sequence));
  if (news(user, &shown.news()) != 0) cancel(progress.sequence);
}

void talon_engine::log_faults() {
  const EngineStatistics& now = engine_->statistics();
  if (now.dropped > logged_.dropped) {
    log_(TALON_LOG_WARNING, fmt::format("a drafter or policy failed, and its requests go on "
                                        "without drafts: {}",
                                        engine_->drop_reason()));
  }
  if (now.failed > logged_.failed) log_(TALON_LOG_WARNING, "a request ended as failed");
  logged_ = now;
}

EngineLoad talon_engine::load() {
  const Turn turn(turns_);
  return engine_->load();
}

talon_statistics talon_engine::statistics(SequenceId id) {
  const Turn turn(turns_);
  try {
    return statistics_of(engine_->statistics(id));
  } catch (const Error&) {
    throw UsageError(fmt::format(
        "id: expected a request that waits, runs or ended in the last step, found {}", id));
  }
}
