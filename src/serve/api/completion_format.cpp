#include <algorithm>
#include <utility>

#include "serve/api/answer_json.h"
#include "serve/api/chat_format.h"
#include "text/detokenizer.h"

namespace talon {
namespace {

/// How far the text of a choice has come, token by token.
struct TextPlace {
  Detokenizer text;
  std::size_t characters = 0;
  bool has_begun = false;
};

std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

class CompletionFormat final : public AnswerFormat {
 public:
  explicit CompletionFormat(AnswerHead head) : head_(std::move(head)) {}

  std::string whole(const std::vector<ChoiceResult>& choices) override {
    Json list = Json::array();
    for (const ChoiceResult& choice : choices) {
      TextPlace place = beginning();
      list.push_back(entry(choice, place));
    }
    Json answer = outline();
    answer["choices"] = std::move(list);
    answer["usage"] = usage_json(head_, choices);
    add_statistics(answer, head_, choices);
    return to_text(answer);
  }

  std::string begin() override { return ""; }

  std::string piece(const ChoiceNews& news) override {
    const bool is_news = !news.text.empty() || news.finish != FinishReason::none ||
                         (head_.fields.shows_tokens() && !news.tokens.empty());
    if (!is_news) return "";
    const auto place = static_cast<std::size_t>(news.choice);
    if (places_.size() <= place) places_.resize(place + 1, beginning());
    Json answer = outline();
    answer["choices"] = Json::array({entry(news, places_[place])});
    return event(answer);  // without "usage", which the description of this path has no null for
  }

  std::string end(const std::vector<ChoiceResult>& choices) override {
    return stream_end(outline(), head_, choices);
  }

 private:
  Json outline() const {
    return {{"id", head_.id},
            {"object", "text_completion"},
            {"created", head_.created},
            {"model", head_.model->name}};
  }
  const std::vector<TokenId>& prompt_of(const ChoiceNews& news) const {
    return head_.prompts[static_cast<std::size_t>(news.choice / head_.fields.choices)];
  }
  TextPlace beginning() const {
    return {Detokenizer(head_.model->tokenizer(), !head_.fields.style.shows_special())};
  }
  /// place: before `news`; moved on.
  Json entry(const ChoiceNews& news, TextPlace& place) const {
    Json json = {{"index", news.choice},
                 {"text", news.text},
                 {"logprobs", logprobs(news, place)},
                 {"finish_reason", finish_json(news.finish)}};
    const bool is_first = !std::exchange(place.has_begun, true);
    if (head_.fields.returns_tokens) {
      json["token_ids"] = news.tokens;
      if (is_first) json["prompt_token_ids"] = prompt_of(news);
    }
    add_rounds(json, head_, news);
    return json;
  }
  /// A token that ends a character which others began is told at the place of that character.
  Json logprobs(const ChoiceNews& news, TextPlace& place) const {
    if (head_.fields.logprobs < 0) return nullptr;
    const Tokenizer& tokenizer = head_.model->tokenizer();
    Json tokens = Json::array(), token_logprobs = Json::array(), top = Json::array(),
         offsets = Json::array();
    for (const TokenLogprobs& token : news.logprobs) {
      Json best = Json::object();
      for (const auto& [id, log_p] : token.top) {
        best.emplace(token_text(tokenizer, id), finite_log_p(log_p));
      }
      // The token that was drawn is among them, so there may be one more than was asked for.
      if (!best.empty())
        best.emplace(token_text(tokenizer, token.token), finite_log_p(token.log_p));
      tokens.push_back(token_text(tokenizer, token.token));
      token_logprobs.push_back(finite_log_p(token.log_p));
      top.push_back(std::move(best));
      offsets.push_back(place.characters);
      place.characters += characters_in(place.text.push(token.token));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(token_logprobs)},
            {"top_logprobs", std::move(top)},
            {"text_offset", std::move(offsets)}};
  }

  AnswerHead head_;
  std::vector<TextPlace> places_;  // of the choices of a stream
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head) {
  return std::make_unique<CompletionFormat>(std::move(head));
}

}  // namespace talon
