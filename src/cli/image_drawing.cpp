#include "cli/image_drawing.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "engine/stopwatch.h"

namespace talon {
namespace {

constexpr std::size_t kTogether = 16;  // pictures at most

}  // namespace

CacheOptions picture_cache(const LoadedModel& loaded, const std::vector<Request>& requests,
                           std::optional<KvType> type) {
  const ModelConfig& config = loaded.model.config;
  std::size_t positions = 0;
  for (std::size_t i = 0; i < std::min(requests.size(), kTogether); ++i) {
    const Request& request = requests[i];
    const std::size_t length = request.prompt.size() + static_cast<std::size_t>(request.max_new);
    positions += positions_for(length) * static_cast<std::size_t>(request.streams());
  }
  return {kv_cache_bytes(config, cache_type(loaded.model, type), positions), type};
}

DrawingResult draw(const LoadedModel& loaded, const DecodeSettings& settings,
                   const std::vector<Request>& requests, std::optional<KvType> type,
                   const std::function<void(std::size_t, std::size_t)>& progress,
                   const StopFlag* stop) {
  const auto cache = open_cache(loaded.model, picture_cache(loaded, requests, type));
  EngineOptions options = engine_options(settings, loaded.model, nullptr);
  options.max_rows *= static_cast<int>(std::min(requests.size(), kTogether));
  Engine engine(loaded.model, *cache, options);
  NamedMethods methods(engine, loaded.model, *cache, settings);
  DrawingResult result;
  result.pictures.resize(requests.size());
  std::map<SequenceId, Answer*> answers;
  std::size_t codes = 0, all = 0;
  const Stopwatch watch;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto submitted = engine.submit(requests[i]);
    if (const auto* refusal = std::get_if<Refusal>(&submitted)) {
      if (refusal->reason == Refusal::Reason::bad_request) throw UsageError(refusal->message);
      throw Error(refusal->message);
    }
    answers[std::get<SequenceId>(submitted)] = &result.pictures[i];
    all += static_cast<std::size_t>(requests[i].max_new);
  }
  while (!engine.idle()) {
    if (stop && stop->requested()) {
      for (const auto& [sequence, answer] : answers) engine.cancel(sequence);
    }
    for (const Progress& news : engine.step()) {
      Answer& answer = *answers.at(news.sequence);
      answer.tokens.insert(answer.tokens.end(), news.tokens.begin(), news.tokens.end());
      answer.finish = news.finish;
      codes += news.tokens.size();
      if (news.finish == FinishReason::failed) throw Error(std::string(news.error));
      if (news.finish != FinishReason::none) answer.statistics = engine.statistics(news.sequence);
    }
    if (progress) progress(codes, all);
  }
  result.ms = watch.ms();
  return result;
}

}  // namespace talon
