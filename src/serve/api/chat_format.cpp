#include "serve/api/chat_format.h"

#include <map>
#include <set>
#include <utility>

#include "serve/api/answer_json.h"

namespace talon {
namespace {

class ChatFormat final : public AnswerFormat {
 public:
  explicit ChatFormat(AnswerHead head) : head_(std::move(head)), readers_(head_.fields.style) {}

  std::string whole(const std::vector<ChoiceResult>& choices) override {
    Json list = Json::array();
    for (const ChoiceResult& choice : choices) {
      const ReadAnswer said = readers_.whole(choice);
      Json entry = {{"index", choice.choice},
                    {"message", message(said)},
                    {"logprobs", logprobs(choice)},
                    {"finish_reason", finish_json(choice.finish, !said.calls.empty())}};
      if (head_.fields.returns_tokens) entry["token_ids"] = choice.tokens;
      add_rounds(entry, head_, choice);
      list.push_back(std::move(entry));
    }
    Json answer = outline("chat.completion");
    answer["choices"] = std::move(list);
    answer["usage"] = usage_json(head_, choices);
    if (head_.fields.returns_tokens) answer["prompt_token_ids"] = head_.prompts[0];
    add_statistics(answer, head_, choices);
    return to_text(answer);
  }

  std::string begin() override { return ""; }

  std::string piece(const ChoiceNews& news) override {
    std::string pieces;
    if (begun_.insert(news.choice).second) {
      Json first = chunk(news.choice, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
      if (head_.fields.returns_tokens) first["prompt_token_ids"] = head_.prompts[0];
      pieces += event(first);
    }
    AnswerReader::Parts parts = readers_.read(news);
    if (parts.empty() && head_.fields.shows_tokens() && !news.tokens.empty()) parts.push_back({});
    bool is_first = true;
    for (const AnswerPart& part : parts) {
      // Tokens stand with the first of the parts that they made.
      const bool shows = std::exchange(is_first, false);
      Json piece =
          chunk(news.choice, delta(news.choice, part), shows ? logprobs(news) : Json(), nullptr);
      if (shows && head_.fields.returns_tokens) piece["choices"][0]["token_ids"] = news.tokens;
      if (shows) add_rounds(piece["choices"][0], head_, news);
      pieces += event(piece);
    }
    if (news.finish != FinishReason::none) {
      const bool calls = calls_[news.choice] > 0;
      pieces += event(chunk(news.choice, Json::object(), nullptr, finish_json(news.finish, calls)));
    }
    return pieces;
  }

  std::string end(const std::vector<ChoiceResult>& choices) override {
    return stream_end(outline("chat.completion.chunk"), head_, choices);
  }

 private:
  Json message(const ReadAnswer& said) const {
    Json json = {{"role", "assistant"}, {"content", said.content}, {"refusal", nullptr}};
    if (!said.reasoning.empty()) json["reasoning_content"] = said.reasoning;
    if (said.calls.empty()) return json;
    if (said.content.empty()) json["content"] = nullptr;
    for (const ReadAnswer::Call& call : said.calls) {
      json["tool_calls"].push_back(
          {{"id", new_call_id(head_.fields.style.dialect)},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return json;
  }
  Json delta(int choice, const AnswerPart& part) {
    switch (part.kind) {
      case AnswerPart::Kind::content:
        return {{"content", part.text}};
      case AnswerPart::Kind::reasoning:
        return {{"reasoning_content", part.text}};
      case AnswerPart::Kind::call:
        return {{"tool_calls",
                 Json::array({{{"index", calls_[choice]++},
                               {"id", new_call_id(head_.fields.style.dialect)},
                               {"type", "function"},
                               {"function", {{"name", part.text}, {"arguments", ""}}}}})}};
      case AnswerPart::Kind::arguments:
        return {{"tool_calls", Json::array({{{"index", calls_[choice] - 1},
                                             {"function", {{"arguments", part.text}}}}})}};
    }
    return Json::object();
  }
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
  ChoiceReaders readers_;
  std::set<int> begun_;
  std::map<int, int> calls_;  // that were begun, by choice
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head) {
  return std::make_unique<ChatFormat>(std::move(head));
}

}  // namespace talon
