#include "serve/api/chat_format.h"

#include <set>

#include "serve/api/answer_json.h"

namespace talon {
namespace {

class ChatFormat final : public AnswerFormat {
 public:
  explicit ChatFormat(AnswerHead head) : head_(std::move(head)) {}

  Json whole(const std::vector<ChoiceResult>& choices) override {
    Json list = Json::array();
    for (const ChoiceResult& choice : choices) {
      Json entry = {
          {"index", choice.choice},
          {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
          {"logprobs", logprobs(choice)},
          {"finish_reason", finish_json(choice.finish)}};
      if (head_.fields.returns_tokens) entry["token_ids"] = choice.tokens;
      add_rounds(entry, head_, choice);
      list.push_back(std::move(entry));
    }
    Json answer = outline("chat.completion");
    answer["choices"] = std::move(list);
    answer["usage"] = usage_json(head_, choices);
    if (head_.fields.returns_tokens) answer["prompt_token_ids"] = head_.prompts[0];
    add_statistics(answer, head_, choices);
    return answer;
  }

  std::string begin() override { return ""; }

  std::string piece(const ChoiceNews& news) override {
    std::string pieces;
    if (begun_.insert(news.choice).second) {
      Json first = chunk(news.choice, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
      if (head_.fields.returns_tokens) first["prompt_token_ids"] = head_.prompts[0];
      pieces += event(first);
    }
    const bool shows_tokens =
        head_.fields.returns_tokens || head_.fields.logprobs >= 0 || head_.fields.traces;
    if (!news.text.empty() || (shows_tokens && !news.tokens.empty())) {
      Json delta = chunk(news.choice, {{"content", news.text}}, logprobs(news), nullptr);
      if (head_.fields.returns_tokens) delta["choices"][0]["token_ids"] = news.tokens;
      add_rounds(delta["choices"][0], head_, news);
      pieces += event(delta);
    }
    if (news.finish != FinishReason::none) {
      pieces += event(chunk(news.choice, Json::object(), nullptr, finish_json(news.finish)));
    }
    return pieces;
  }

  std::string end(const std::vector<ChoiceResult>& choices) override {
    Json last = outline("chat.completion.chunk");
    last["choices"] = Json::array();
    if (head_.fields.includes_usage) last["usage"] = usage_json(head_, choices);
    add_statistics(last, head_, choices);
    const bool says_more = head_.fields.includes_usage || head_.fields.returns_metrics;
    return (says_more ? event(last) : "") + "data: [DONE]\n\n";
  }

 private:
  Json outline(std::string_view object) const {
    return {{"id", head_.id},
            {"object", object},
            {"created", head_.created},
            {"model", head_.model->name}};
  }
  Json chunk(int choice, Json delta, Json logprobs, Json finish) const {
    Json json = outline("chat.completion.chunk");
    Json entry = {{"index", choice},
                  {"delta", std::move(delta)},
                  {"logprobs", std::move(logprobs)},
                  {"finish_reason", std::move(finish)}};
    json["choices"] = Json::array({std::move(entry)});
    if (head_.fields.includes_usage) json["usage"] = nullptr;
    return json;
  }
  Json logprobs(const ChoiceNews& news) const {
    if (head_.fields.logprobs < 0) return nullptr;
    Json content = Json::array();
    for (const TokenLogprobs& token : news.logprobs) {
      content.push_back(chat_logprob(head_.model->tokenizer(), token));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  AnswerHead head_;
  std::set<int> begun_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head) {
  return std::make_unique<ChatFormat>(std::move(head));
}

}  // namespace talon
