#include "serve/pictures/picture_ask.h"

#include <fmt/format.h>

#include "draw/usual_sampling.h"
#include "io/codec/base64.h"
#include "runtime/cache_budget.h"
#include "serve/api/api_error.h"

namespace talon {
namespace {

constexpr double kMostGuidance = 1e6;
constexpr long long kMostClasses = 1 << 22;

/// What pictures here cannot be.
void refuse_others(const Fields& fields, const AnswerFields& answer, const PictureStudio& studio) {
  const std::string size = fmt::format("{}x{}", studio.width(), studio.height());
  const auto one_of = [&](std::string_view name, const std::string& only) {
    const auto found = fields.text(name);
    if (found && *found != "auto" && *found != only) fields.refuse(name, only);
  };
  one_of("size", size);
  one_of("response_format", "b64_json");
  one_of("output_format", "png");
  one_of("background", "opaque");
  one_of("moderation", "low");
  if (answer.sampler.repetition_penalty != 1)
    fields.refuse("repetition_penalty", "1, since prompts of pictures hold no codes");
}

int read_partial_images(const Fields& fields, const AnswerFields& answer, const ImagePlan& plan) {
  const auto partial = fields.integer("partial_images", 0, plan.rows);
  if (partial.value_or(0) > 0 && !answer.streams)
    fields.refuse("partial_images", "stream to be true beside it");
  return static_cast<int>(partial.value_or(0));
}

/// Names the field in what `read` finds wrong.
template <typename Read>
void name_field(const char* field, const Read& read) {
  try {
    read();
  } catch (const UsageError& error) {
    throw ApiError(400, field, error.what(), "invalid_value");
  }
}

/// The rows of a caption are computed once for all pictures, on the engine's thread.
void ask_by_caption(const std::string& encoded, const Model& model, PictureAsk& ask) {
  const auto bytes = from_base64(encoded);
  if (!bytes) {
    throw ApiError(400, "caption_features",
                   "caption_features: expected safetensors in base64, found other letters",
                   "invalid_value");
  }
  const auto features = std::make_shared<CaptionFeatures>();
  try {
    *features = read_caption(model, *bytes, "caption_features");
  } catch (const Error& error) {
    throw ApiError(400, "caption_features", error.what(), "invalid_value");
  }
  ask.caption_hash = hash_of(*features);
  ask.prompt = caption_tokens(model, *features);
  const auto prompt = std::make_shared<PicturePrompt>();
  ask.prepare = [&model, features, prompt](Request& request) {
    if (!prompt->vectors) *prompt = caption_prompt(model, *features);
    request.prompt_vectors = prompt->vectors;
  };
}

/// A class by number or name.
void ask_by_class(const Fields& fields, const Model& model, PictureAsk& ask) {
  if (fields.find("class")->is_string()) {
    class_prompt(model, 0);  // one that is asked by classes
    ask.shown_prompt = *fields.text("class");
    ask.prompt = text_prompt(model, nullptr, ask.shown_prompt);
    return;
  }
  const auto number = *fields.integer("class", 0, kMostClasses);
  ask.shown_prompt = fmt::format("class {}", number);
  ask.prompt = class_prompt(model, static_cast<int>(number));
}

void read_prompt(const Fields& fields, const LoadedModel& loaded, PictureAsk& ask) {
  const Model& model = loaded.model;
  const auto text = fields.text("prompt");
  const auto caption = fields.text("caption_features");
  const bool has_class = fields.find("class");
  if (caption) {
    if (has_class) fields.refuse("class", "none beside caption_features");
    ask.shown_prompt = text.value_or("a caption");
    return ask_by_caption(*caption, model, ask);
  }
  if (text.has_value() == has_class) fields.refuse("prompt", "a text, or else class");
  if (has_class) return name_field("class", [&] { ask_by_class(fields, model, ask); });
  ask.shown_prompt = *text;
  name_field("prompt", [&] { ask.prompt = text_prompt(model, loaded.tokenizer_or_null(), *text); });
}

/// Half a picture is none: what cannot be drawn to its end is not begun.
void check_room(const ServedModel& model, const PictureAsk& ask) {
  try {
    require_room(model.host->loaded().model, ask.prompt);
  } catch (const UsageError& error) {
    throw ApiError(400, "prompt", error.what(), "context_length_exceeded");
  }
  const std::size_t streams = ask.guidance > 1 ? 2 : 1;
  const std::size_t length =
      ask.prompt.own.size() + static_cast<std::size_t>(model.config().image->answer_tokens());
  const std::size_t needed = streams * positions_for(length);
  const auto there = static_cast<std::size_t>(model.host->cache_positions());
  if (needed <= there) return;
  throw ApiError(400, streams > 1 ? "guidance" : "model",
                 fmt::format("picture: expected a cache of {} positions, found {}: serve it with "
                             "more --cache-mb{}",
                             needed, there, streams > 1 ? ", or ask with guidance 1" : ""),
                 "context_length_exceeded");
}

}  // namespace

PictureAsk read_picture_ask(const Fields& fields, const ServedModel& model, AnswerFields& answer) {
  refuse_others(fields, answer, *model.pictures);
  PictureAsk ask;
  ask.partial_images = read_partial_images(fields, answer, *model.config().image);
  const UsualSampling usual = usual_sampling(model.config());
  ask.guidance =
      static_cast<float>(fields.number("guidance", 0, kMostGuidance).value_or(usual.guidance));
  if (!fields.find("top_k")) answer.sampler.top_k = usual.top_k;
  ask.guidance_tokens =
      static_cast<int>(fields.integer("guidance_tokens", 0, model.config().context).value_or(0));
  read_prompt(fields, model.host->loaded(), ask);
  check_room(model, ask);
  return ask;
}

PictureFacts facts_of(const PictureAsk& ask, const AnswerFields& answer, const ServedModel& model,
                      const std::string& drafter, int index) {
  PictureFacts facts = model.pictures->usual();
  facts.prompt = ask.shown_prompt;
  facts.seed = answer.seed + static_cast<std::uint64_t>(index);
  facts.guidance = ask.guidance;
  facts.guidance_tokens = ask.guidance_tokens;
  facts.sampler = answer.sampler;
  facts.drafter = drafter;
  if (!answer.method.verify.empty()) facts.verify = answer.method.verify;
  if (!answer.method.policy.empty()) facts.policy = answer.method.policy;
  facts.caption = ask.caption_hash;
  return facts;
}

std::vector<Job> picture_jobs(const PictureAsk& ask, const AnswerFields& answer,
                              const ServedModel& model,
                              std::chrono::steady_clock::time_point came) {
  Job job;
  ask_for(model.host->loaded().model, ask.prompt, ask.guidance, job.request);
  job.prepare = ask.prepare;
  job.request.guidance_tokens = ask.guidance_tokens;
  job.request.sampler = answer.sampler;
  job.request.tenant = answer.tenant;
  job.request.priority = answer.priority;
  job.method = answer.method;
  if (answer.deadline_ms) {
    job.request.deadline = came + std::chrono::milliseconds(*answer.deadline_ms);
  }
  std::vector<Job> jobs(static_cast<std::size_t>(answer.choices), job);
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].request.seed = answer.seed + i;
  return jobs;
}

}  // namespace talon
