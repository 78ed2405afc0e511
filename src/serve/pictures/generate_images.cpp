#include "serve/pictures/generate_images.h"

#include <algorithm>
#include <ctime>

#include "draw/growth.h"
#include "image/png.h"
#include "io/codec/base64.h"
#include "serve/api/answer_json.h"
#include "serve/api/answering.h"
#include "serve/pictures/picture_ask.h"

namespace talon {
namespace {

/// The growth of one picture of a stream, and what was shown of it.
struct StreamedPicture {
  explicit StreamedPicture(const ImagePlan& plan) : growth(plan) {}
  bool is_due() const { return !growth.is_complete() && growth.cells() >= next_due; }

  PictureGrowth growth;
  int shown = 0;     // events
  int next_due = 0;  // cells from which on the next is sent
};

class PictureFormat final : public AnswerFormat {
 public:
  PictureFormat(AnswerHead head, PictureAsk ask, WorkQueue& workers)
      : head_(std::move(head)),
        ask_(std::move(ask)),
        workers_(workers),
        pictures_(static_cast<std::size_t>(head_.fields.choices), StreamedPicture(plan())) {
    for (StreamedPicture& picture : pictures_) picture.next_due = cells_between();
  }

  WorkQueue* workshop() override { return &workers_; }

  std::string whole(const std::vector<ChoiceResult>& choices) override {
    Json data = Json::array();
    int forwards = 0;
    for (const ChoiceResult& choice : choices) {
      PictureGrowth growth(plan());
      add_steps(choice, growth);
      Json picture = {{"b64_json", finished(choice.choice, growth)},
                      {"talon", told(choice.choice, growth)}};
      if (head_.fields.returns_tokens) picture["token_ids"] = choice.tokens;
      data.push_back(std::move(picture));
      forwards += growth.forwards();
    }
    const Json usage = usage_json(head_, choices);
    Json answer = {
        {"created", head_.created},
        {"data", std::move(data)},
        {"background", "opaque"},
        {"output_format", "png"},
        {"size", size()},
        {"usage", picture_usage(usage["prompt_tokens"], usage["completion_tokens"], forwards)}};
    add_statistics(answer, head_, choices);
    return to_text(answer);
  }

  std::string begin() override { return ""; }

  std::string piece(const ChoiceNews& news) override {
    StreamedPicture& picture = pictures_[static_cast<std::size_t>(news.choice)];
    add_steps(news, picture.growth);
    if (news.finish != FinishReason::none) return completed(news.choice, picture.growth);
    if (ask_.partial_images == 0 || !is_next(picture)) return "";
    return partial(news.choice, picture);
  }

  std::string end(const std::vector<ChoiceResult>&) override { return ""; }
  std::string failure(const ApiError& error) override { return event(error_json(error)); }

 private:
  const ImagePlan& plan() const { return *head_.model->config().image; }
  const PictureStudio& studio() const { return *head_.model->pictures; }
  std::string size() const { return fmt::format("{}x{}", studio().width(), studio().height()); }

  /// At least a row, so that events are few.
  int cells_between() const {
    const int parts = ask_.partial_images + 1;
    return std::max(plan().columns, (plan().cells() + parts - 1) / parts);
  }

  /// Previews are few where pictures are many: they take turns.
  bool is_next(const StreamedPicture& picture) const {
    const auto waits_longer = [&](const StreamedPicture& other) {
      return other.is_due() && other.shown < picture.shown;
    };
    return picture.is_due() && std::ranges::none_of(pictures_, waits_longer);
  }

  static void add_steps(const ChoiceNews& news, PictureGrowth& growth) {
    auto rest = std::span<const TokenId>(news.tokens);
    for (const int count : news.step_tokens) {
      growth.add(rest.first(static_cast<std::size_t>(count)));
      rest = rest.subspan(static_cast<std::size_t>(count));
    }
  }

  std::string partial(int index, StreamedPicture& picture) {
    const auto preview = studio().preview(plan(), picture.growth.codes());
    if (!preview) return "";  // the next news will do
    const int between = cells_between();
    picture.next_due = (picture.growth.cells() / between + 1) * between;
    Json json = outline("image_generation.partial_image", index, picture.growth);
    json["b64_json"] = to_base64(encode_png(*preview));
    json["partial_image_index"] = picture.shown++;
    return named_event(json);
  }

  std::string completed(int index, const PictureGrowth& growth) const {
    try {
      const std::string bytes = finished(index, growth);
      Json json = outline("image_generation.completed", index, growth);
      json["b64_json"] = bytes;
      json["usage"] = picture_usage(static_cast<int>(ask_.prompt.own.size()),
                                    static_cast<int>(growth.tokens().size()), growth.forwards());
      return named_event(json);
    } catch (const ApiError& error) {  // the others go on
      return event(error_json(error));
    }
  }

  /// The PNG file of a whole picture in base64.
  std::string finished(int index, const PictureGrowth& growth) const {
    if (!growth.is_complete()) {
      throw ApiError(503, "",
                     fmt::format("picture: expected {} codes, found {}: it ended early",
                                 plan().answer_tokens(), growth.tokens().size()),
                     "incomplete");
    }
    // Without tau: a request's pictures are the same bytes each time.
    const PngTexts texts =
        texts_of(facts_of(ask_, head_.fields, *head_.model, head_.drafter, index));
    return to_base64(encode_png(studio().decode(growth.codes()), texts));
  }

  Json outline(std::string_view type, int index, const PictureGrowth& growth) const {
    return {{"type", type},
            {"created_at", static_cast<long>(std::time(nullptr))},
            {"background", "opaque"},
            {"output_format", "png"},
            {"quality", "auto"},
            {"size", size()},
            {"talon", told(index, growth)}};
  }
  static std::string named_event(const Json& json) {
    return fmt::format("event: {}\n{}", json["type"].get_ref<const std::string&>(), event(json));
  }

  /// Which picture, and how its cells came.
  Json told(int index, const PictureGrowth& growth) const {
    Json depths = Json::array();
    for (const CellOrigin& origin : growth.origins()) depths.push_back(origin.depth);
    return {{"index", index},
            {"seed", seed_json(head_.fields.seed + static_cast<unsigned>(index))},
            {"drafter", head_.drafter},
            {"columns", plan().columns},
            {"rows", plan().rows},
            {"forwards", growth.forwards()},
            {"depths", std::move(depths)}};
  }

  static Json picture_usage(int input, int output, int forwards) {
    return {{"input_tokens", input},
            {"input_tokens_details", {{"image_tokens", 0}, {"text_tokens", input}}},
            {"output_tokens", output},
            {"total_tokens", input + output},
            {"forwards", forwards}};
  }

  AnswerHead head_;
  PictureAsk ask_;
  WorkQueue& workers_;
  std::vector<StreamedPicture> pictures_;
};

}  // namespace

void serve_images(const GenerateInput& input) {
  ServedModel& model = *input.model;
  const Fields fields(*input.body);
  AnswerFields answer = read_common(input, fields);
  PictureAsk ask = read_picture_ask(fields, model, answer);
  std::vector<Job> jobs = picture_jobs(ask, answer, model, input.came);
  const bool streams = answer.streams;
  AnswerHead head = make_head("img-", model, std::move(answer));
  head.prompts.push_back(ask.prompt.own);
  check_answer_count(head);
  Answering::start(
      {.exchange = input.exchange,
       .model = input.model,
       .format = std::make_unique<PictureFormat>(std::move(head), std::move(ask), *input.workers),
       .streams = streams,
       .unread_bytes = input.limits->unread_bytes,
       .came = input.came},
      std::move(jobs));
}

}  // namespace talon
