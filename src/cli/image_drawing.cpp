#include "cli/image_drawing.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "engine/stopwatch.h"
#include "image/prompt_words.h"

namespace talon {
namespace {

constexpr std::size_t kTogether = 16;  // pictures at most

const ImagePlan& plan_of(const Model& model, ImagePlan::Prompt prompt) {
  const auto& image = model.config.image;
  if (!image) {
    throw UsageError(
        fmt::format("-m: expected a model that draws pictures, got {}, which writes text",
                    model.source.string()));
  }
  if (image->prompt != prompt) {
    const bool by_class = image->prompt == ImagePlan::Prompt::class_number;
    throw UsageError(fmt::format("{}: expected a prompt by {}", model.source.string(),
                                 by_class ? "--class" : "-p"));
  }
  return *image;
}

}  // namespace

CacheOptions picture_cache(const LoadedModel& loaded, const std::vector<Request>& requests,
                           std::optional<KvType> type) {
  const ModelConfig& config = loaded.model.config;
  std::size_t positions = 0;
  for (std::size_t i = 0; i < std::min(requests.size(), kTogether); ++i) {
    positions += positions_for(static_cast<std::size_t>(config.context)) *
                 static_cast<std::size_t>(requests[i].streams());
  }
  return {kv_cache_bytes(config, cache_type(loaded.model, type), positions), type};
}

PicturePrompt class_prompt(const Model& model, int number) {
  plan_of(model, ImagePlan::Prompt::class_number);
  const int classes = model.config.input_count() - model.config.vocabulary - 1;
  if (number < 0 || number >= classes) {
    throw UsageError(
        fmt::format("--class: expected a number from 0 to {}, got {}", classes - 1, number));
  }
  return {{model.config.vocabulary + number}, {model.config.vocabulary + classes}};
}

PicturePrompt words_prompt(const Model& model, std::string_view text) {
  const ImagePlan& plan = plan_of(model, ImagePlan::Prompt::words);
  const auto file = model.source / "words.json";
  const PromptWords words = PromptWords::read(file);
  const int rows = model.config.input_count() - model.config.vocabulary;
  if (words.rows() != rows) {
    fail("read {}: expected words and styles for {} rows of the model, found {}", file.string(),
         rows, words.rows());
  }
  PicturePrompt prompt;
  for (const int row : words.rows_of(text, plan.prompt_tokens))
    prompt.own.push_back(model.config.vocabulary + row);
  prompt.guide.assign(prompt.own.size(), model.config.vocabulary + words.null_word());
  return prompt;
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
