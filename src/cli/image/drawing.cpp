#include "cli/image/drawing.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "core/stopwatch.h"
#include "draw/picture_facts.h"

namespace talon {
namespace {

/// The engine, and which of its sequences is which picture.
class Easel {
 public:
  Easel(const LoadedModel& loaded, const DecodeSettings& settings, const Drawing& drawing)
      : drawing_(drawing),
        together_(drawing.room.pictures),
        cache_(open_cache(loaded.model, drawing.room.cache)),
        engine_(loaded.model, *cache_, options_of(loaded, settings)),
        methods_(engine_, loaded.model, *cache_, settings) {}

  double draw(const StopFlag* stop) {
    const Stopwatch watch;
    bool stopped = false;
    for (;;) {
      stopped = stopped || (stop && stop->requested());
      if (stopped) cancel_all();
      while (!stopped && static_cast<int>(under_way_.size()) < together_ && begin_next()) {
      }
      if (engine_.idle()) break;
      for (const Progress& news : engine_.step()) hear(news);
    }
    return watch.ms() - others_ms_;
  }

 private:
  struct UnderWay {
    std::size_t picture = 0;
    double relaxed = 0;  // in all that `grew` was told
    Answer answer;
  };

  EngineOptions options_of(const LoadedModel& loaded, const DecodeSettings& settings) const {
    EngineOptions options = engine_options(settings, loaded.model, nullptr);
    options.max_rows *= together_;
    return options;
  }

  bool begin_next() {
    const Stopwatch watch;
    std::optional<Request> request = drawing_.next();
    others_ms_ += watch.ms();
    if (!request) return false;
    const auto submitted = engine_.submit(*std::move(request));
    if (const auto* refusal = std::get_if<Refusal>(&submitted)) {
      if (refusal->reason == Refusal::Reason::bad_request) throw UsageError(refusal->message);
      throw Error(refusal->message);
    }
    under_way_[std::get<SequenceId>(submitted)].picture = next_++;
    return true;
  }

  void cancel_all() {
    for (const auto& [sequence, picture] : under_way_) engine_.cancel(sequence);
  }

  void hear(const Progress& news) {
    const auto found = under_way_.find(news.sequence);
    auto& [picture, relaxed, answer] = found->second;
    answer.tokens.insert(answer.tokens.end(), news.tokens.begin(), news.tokens.end());
    answer.finish = news.finish;
    if (news.finish == FinishReason::failed) throw Error(std::string(news.error));
    const bool ends = news.finish != FinishReason::none;
    const SequenceStatistics& statistics = engine_.statistics(news.sequence);
    if (ends) answer.statistics = statistics;
    const Stopwatch watch;
    if (drawing_.grew && !news.tokens.empty()) {
      const double before = std::exchange(relaxed, statistics.relaxed);
      drawing_.grew(picture, news.tokens, relaxed - before);
    }
    if (ends) drawing_.drawn(picture, std::move(answer));
    others_ms_ += watch.ms();
    if (ends) under_way_.erase(found);
  }

  const Drawing& drawing_;
  int together_;
  std::unique_ptr<KvCache> cache_;
  Engine engine_;
  NamedMethods methods_;
  std::map<SequenceId, UnderWay> under_way_;
  std::size_t next_ = 0;
  double others_ms_ = 0;
};

}  // namespace

PngTexts computed_by(const LoadedModel& loaded, const VqDecoder& decoder,
                     const ModelOptions& options) {
  return computed_by(loaded, decoder, options.backend, cache_type(loaded.model, options.kv));
}

double draw(const LoadedModel& loaded, const DecodeSettings& settings, const Drawing& drawing,
            const StopFlag* stop) {
  return Easel(loaded, settings, drawing).draw(stop);
}

}  // namespace talon
