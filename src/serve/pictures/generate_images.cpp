#include "serve/pictures/generate_images.h"

#include <openssl/evp.h>

#include <chrono>

#include "draw/picture_prompt.h"
#include "image/png.h"
#include "serve/api/answer_json.h"
#include "serve/api/answering.h"

namespace talon {
namespace {

constexpr double kUsualGuidance = 2, kMostGuidance = 1e6;
constexpr long long kMostClasses = 1 << 22;

std::string base64(std::span<const std::byte> bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and the zero that it writes
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

/// What a request for pictures asks beside what all ask.
struct PictureAsk {
  PicturePrompt prompt;
  std::string shown_prompt;  // in the pictures' files
  float guidance = 1;
};

class PictureFormat final : public AnswerFormat {
 public:
  PictureFormat(AnswerHead head, PictureAsk ask, WorkQueue& workers)
      : head_(std::move(head)), ask_(std::move(ask)), workers_(workers) {}

  WorkQueue* workshop() override { return &workers_; }

  Json whole(const std::vector<ChoiceResult>& choices) override {
    Json data = Json::array();
    for (const ChoiceResult& choice : choices) data.push_back({{"b64_json", base64(png(choice))}});
    const PictureStudio& studio = *head_.model->pictures;
    Json answer = {{"created", head_.created},
                   {"data", std::move(data)},
                   {"output_format", "png"},
                   {"size", fmt::format("{}x{}", studio.width(), studio.height())}};
    const Json usage = usage_json(head_, choices);
    answer["usage"] = {{"input_tokens", usage["prompt_tokens"]},
                       {"output_tokens", usage["completion_tokens"]},
                       {"total_tokens", usage["total_tokens"]}};
    add_statistics(answer, head_, choices);
    return answer;
  }

  // Requests for streams are refused.
  std::string begin() override { return ""; }
  std::string piece(const ChoiceNews&) override { return ""; }
  std::string end(const std::vector<ChoiceResult>&) override { return ""; }

 private:
  std::vector<std::byte> png(const ChoiceResult& choice) const {
    const ImagePlan& plan = *head_.model->config().image;
    const int cells = plan.answer_tokens();
    if (std::ssize(choice.tokens) != cells) {
      throw ApiError(503, "",
                     fmt::format("picture: expected {} codes, found {}: it ended early", cells,
                                 choice.tokens.size()),
                     "incomplete");
    }
    return encode_png(head_.model->pictures->decode(codes_of(plan, choice.tokens)),
                      {{"prompt", ask_.shown_prompt},
                       {"seed", fmt::to_string(head_.fields.seed + seed_offset(choice))},
                       {"guidance", fmt::to_string(ask_.guidance)},
                       {"temperature", fmt::to_string(head_.fields.sampler.temperature)},
                       {"model", head_.model->name},
                       {"drafter", head_.drafter}});
  }
  static std::uint64_t seed_offset(const ChoiceResult& choice) {
    return static_cast<std::uint64_t>(choice.choice);
  }

  AnswerHead head_;
  PictureAsk ask_;
  WorkQueue& workers_;
};

/// Fields of OpenAI's interface that ask for what no picture here can be.
void refuse_others(const Fields& fields, const PictureStudio& studio) {
  const std::string size = fmt::format("{}x{}", studio.width(), studio.height());
  const auto one_of = [&](std::string_view name, const std::string& only) {
    const auto found = fields.text(name);
    if (found && *found != "auto" && *found != only) fields.refuse(name, only);
  };
  one_of("size", size);
  one_of("response_format", "b64_json");
  one_of("output_format", "png");
  if (fields.flag("stream").value_or(false)) fields.refuse("stream", "false");
}

PictureAsk read_ask(const Fields& fields, const LoadedModel& loaded) {
  const Model& model = loaded.model;
  const auto text = fields.text("prompt");
  const auto number = fields.integer("class", 0, kMostClasses);
  if (text.has_value() == number.has_value()) fields.refuse("prompt", "a text, or else class");
  PictureAsk ask;
  ask.guidance =
      static_cast<float>(fields.number("guidance", 0, kMostGuidance).value_or(kUsualGuidance));
  ask.shown_prompt = text ? *text : fmt::format("class {}", *number);
  try {
    ask.prompt = text ? text_prompt(model, loaded.tokenizer_or_null(), *text)
                      : class_prompt(model, static_cast<int>(*number));
  } catch (const UsageError& error) {
    throw ApiError(400, text ? "prompt" : "class", error.what(), "invalid_value");
  }
  return ask;
}

/// A job for each picture, with a seed of its own: the request's, the next one, ...
std::vector<Job> make_jobs(const AnswerFields& fields, const PictureAsk& ask, const Model& model) {
  Job job;
  ask_for(model, ask.prompt, ask.guidance, job.request);
  job.request.sampler = fields.sampler;
  job.request.tenant = fields.tenant;
  job.request.priority = fields.priority;
  job.method = fields.method;
  if (fields.deadline_ms) {
    job.request.deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(*fields.deadline_ms);
  }
  std::vector<Job> jobs(static_cast<std::size_t>(fields.choices), job);
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].request.seed = fields.seed + i;
  return jobs;
}

}  // namespace

void serve_images(const GenerateInput& input) {
  ServedModel& model = *input.model;
  const Fields fields(*input.body);
  refuse_others(fields, *model.pictures);
  AnswerFields answer = read_common(input, fields);
  PictureAsk ask = read_ask(fields, model.host->loaded());
  std::vector<Job> jobs = make_jobs(answer, ask, model.host->loaded().model);
  AnswerHead head = make_head("img-", model, std::move(answer));
  head.prompts.push_back(ask.prompt.own);
  Answering::start(
      {input.exchange, input.model,
       std::make_unique<PictureFormat>(std::move(head), std::move(ask), *input.workers), false,
       false, input.limits->unread_bytes},
      std::move(jobs));
}

}  // namespace talon
