#include "serve/api/anthropic.h"

#include <array>

#include "serve/api/answer_json.h"
#include "serve/api/messages.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 1> kTextBlocks = {"text"};
constexpr std::array<std::string_view, 2> kRoles = {"user", "assistant"};
constexpr FieldNames kNames = {{"max_tokens", ""}, "stop_sequences"};

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 500:
      return "api_error";
    case 503:
      return "overloaded_error";
    default:
      return "invalid_request_error";
  }
}

Json error_body(const ApiError& error) {
  return {{"type", "error"},
          {"error", {{"type", type_of(error.status())}, {"message", error.what()}}}};
}

std::string named_event(const Json& json) {
  return fmt::format("event: {}\n{}", json["type"].get_ref<const std::string&>(), event(json));
}

std::vector<ChatMessage> read_turns(const Fields& fields, const RequestLimits& limits) {
  std::vector<ChatMessage> messages;
  if (const Json* system = fields.find("system")) {
    messages.push_back({"system", read_content("system", *system, kTextBlocks)});
  }
  const Json* list = fields.array("messages", static_cast<std::size_t>(limits.messages));
  if (!list || list->empty()) fields.refuse("messages", "an array of at least one message");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    messages.push_back(read_message(path, (*list)[i], kRoles, kTextBlocks));
  }
  return messages;
}

class MessageFormat final : public AnswerFormat {
 public:
  explicit MessageFormat(AnswerHead head) : head_(std::move(head)) {}

  Json whole(const std::vector<ChoiceResult>& choices) override {
    Json message = outline();
    message["content"] = Json::array({{{"type", "text"}, {"text", choices[0].text}}});
    message["stop_reason"] = reason(choices[0].finish);
    message["stop_sequence"] = stop_text(choices[0].finish);
    message["usage"] = usage(choices);
    add_statistics(message, head_, choices);
    return message;
  }
  std::string begin() override {
    Json message = outline();
    message["content"] = Json::array();
    message["stop_reason"] = message["stop_sequence"] = nullptr;
    message["usage"] = {{"input_tokens", head_.prompts[0].size()}, {"output_tokens", 0}};
    return named_event({{"type", "message_start"}, {"message", std::move(message)}}) +
           named_event({{"type", "content_block_start"},
                        {"index", 0},
                        {"content_block", {{"type", "text"}, {"text", ""}}}});
  }
  std::string piece(const ChoiceNews& news) override {
    if (news.text.empty()) return "";
    return named_event({{"type", "content_block_delta"},
                        {"index", 0},
                        {"delta", {{"type", "text_delta"}, {"text", news.text}}}});
  }
  std::string end(const std::vector<ChoiceResult>& choices) override {
    const FinishReason finish = choices[0].finish;
    return named_event({{"type", "content_block_stop"}, {"index", 0}}) +
           named_event(
               {{"type", "message_delta"},
                {"delta", {{"stop_reason", reason(finish)}, {"stop_sequence", stop_text(finish)}}},
                {"usage", usage(choices)}}) +
           named_event({{"type", "message_stop"}});
  }
  std::string failure(const ApiError& error) override { return named_event(error_body(error)); }
  HttpResponse refusal(const ApiError& error) override { return anthropic_error(error); }

 private:
  Json outline() const {
    return {
        {"id", head_.id}, {"type", "message"}, {"role", "assistant"}, {"model", head_.model->name}};
  }
  static Json reason(FinishReason finish) {
    if (finish == FinishReason::stop_token) return "end_turn";
    return finish == FinishReason::stop_text ? "stop_sequence" : "max_tokens";
  }
  /// The engine tells that a stop text came, not which.
  Json stop_text(FinishReason finish) const {
    const std::vector<std::string>& texts = head_.fields.stop_texts;
    const bool is_known = finish == FinishReason::stop_text && texts.size() == 1;
    return is_known ? Json(texts[0]) : Json();
  }
  Json usage(const std::vector<ChoiceResult>& choices) const {
    const SequenceStatistics& statistics = choices[0].statistics;
    return {{"input_tokens", statistics.prompt_tokens - statistics.reused_tokens},
            {"cache_read_input_tokens", statistics.reused_tokens},
            {"cache_creation_input_tokens", 0},
            {"output_tokens", statistics.answer_tokens}};
  }

  AnswerHead head_;
};

std::unique_ptr<AnswerFormat> make_message_format(AnswerHead head) {
  return std::make_unique<MessageFormat>(std::move(head));
}

}  // namespace

HttpResponse anthropic_error(const ApiError& error) {
  HttpResponse response = error_response(error);
  response.body = to_text(error_body(error));
  return response;
}

void serve_messages(const GenerateInput& input) {
  const Fields fields(*input.body);
  refuse_constraints(fields);
  AnswerFields answer = read_common(input, fields, kNames);
  if (!answer.max_new) fields.refuse("max_tokens", "a whole number of at least 1");
  if (answer.choices != 1) fields.refuse("n", "1");
  const std::vector<ChatMessage> messages = read_turns(fields, *input.limits);
  const ChatRenderOptions options = read_render_options(fields);
  AnswerHead head = make_head("msg_", *input.model, std::move(answer));
  head.prompts.push_back(chat_tokens(*input.model, messages, options, *input.limits));
  start_answer(input, std::move(head), make_message_format);
}

Json count_message_tokens(const ServedModel& model, const Json& body, const RequestLimits& limits) {
  const Fields fields(body);
  const std::vector<ChatMessage> messages = read_turns(fields, limits);
  const auto tokens = chat_tokens(model, messages, read_render_options(fields), limits);
  return {{"input_tokens", tokens.size()}};
}

}  // namespace talon
