#include "serve/api/responses.h"

#include <array>

#include "serve/api/answer_json.h"
#include "serve/api/messages.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 3> kTextParts = {"input_text", "output_text", "text"};
constexpr std::array<std::string_view, 4> kRoles = {"system", "developer", "user", "assistant"};
constexpr FieldNames kNames = {{"max_output_tokens", ""}, "stop"};

std::vector<ChatMessage> read_input(const Fields& fields, const RequestLimits& limits) {
  std::vector<ChatMessage> messages;
  if (const auto instructions = fields.text("instructions")) {
    messages.push_back({"system", *instructions});
  }
  const Json* input = fields.find("input");
  if (!input) fields.refuse("input", "a text or a list of messages");
  if (input->is_string()) {
    messages.push_back({"user", input->get<std::string>()});
    return messages;
  }
  const Json* list = fields.array("input", static_cast<std::size_t>(limits.messages));
  if (list->empty()) fields.refuse("input", "at least one message");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& item = (*list)[i];
    const std::string path = fmt::format("input[{}]", i);
    if (item.is_object() && item.value("type", Json("message")) != "message") {
      refuse_field(path + ".type", "\"message\"", item["type"]);
    }
    messages.push_back(read_message(path, item, kRoles, kTextParts));
  }
  return messages;
}

void refuse_unserved(const Fields& fields) {
  refuse_constraints(fields);
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.find(name)) fields.refuse(name, "none: the server keeps no answers");
  }
  if (fields.flag("background").value_or(false)) fields.refuse("background", "false");
  if (const auto text = fields.object("text")) {
    const auto format = text->object("format");
    if (format && format->text("type").value_or("") != "text") format->refuse("type", "\"text\"");
  }
}

class ResponseFormat final : public AnswerFormat {
 public:
  explicit ResponseFormat(AnswerHead head) : head_(std::move(head)), message_id_(new_id("msg_")) {}

  Json whole(const std::vector<ChoiceResult>& choices) override {
    const ChoiceResult& choice = choices[0];
    const bool is_cut = finish_json(choice.finish) == "length";
    Json response = outline(is_cut ? "incomplete" : "completed");
    if (is_cut) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["output"] = Json::array({message(choice.text, is_cut ? "incomplete" : "completed")});
    response["usage"] = usage(choices);
    add_statistics(response, head_, choices);
    return response;
  }
  std::string begin() override {
    std::string events = told("response.created", {{"response", outline("in_progress")}});
    events += told("response.in_progress", {{"response", outline("in_progress")}});
    events += told("response.output_item.added",
                   {{"output_index", 0}, {"item", message(std::nullopt, "in_progress")}});
    events += told("response.content_part.added", at_part({{"part", part("")}}));
    return events;
  }
  std::string piece(const ChoiceNews& news) override {
    if (news.text.empty()) return "";
    return told("response.output_text.delta",
                at_part({{"delta", news.text}, {"logprobs", Json::array()}}));
  }
  std::string end(const std::vector<ChoiceResult>& choices) override {
    const std::string& text = choices[0].text;
    Json response = whole(choices);
    const std::string type = "response." + response["status"].get<std::string>();
    std::string events =
        told("response.output_text.done", at_part({{"text", text}, {"logprobs", Json::array()}}));
    events += told("response.content_part.done", at_part({{"part", part(text)}}));
    events +=
        told("response.output_item.done", {{"output_index", 0}, {"item", response["output"][0]}});
    events += told(type, {{"response", std::move(response)}});
    return events;
  }
  std::string failure(const ApiError& error) override {
    Json response = outline("failed");
    response["error"] = {{"code", "server_error"}, {"message", error.what()}};
    return told("response.failed", {{"response", std::move(response)}});
  }

 private:
  Json outline(std::string_view status) const {
    const AnswerFields& fields = head_.fields;
    return {{"id", head_.id},
            {"object", "response"},
            {"created_at", head_.created},
            {"status", status},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"instructions", nullptr},
            {"max_output_tokens", fields.max_new ? Json(*fields.max_new) : Json()},
            {"metadata", Json::object()},
            {"model", head_.model->name},
            {"output", Json::array()},
            {"parallel_tool_calls", true},
            {"previous_response_id", nullptr},
            {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
            {"store", false},
            {"temperature", fields.sampler.temperature},
            {"text", {{"format", {{"type", "text"}}}}},
            {"tool_choice", "auto"},
            {"tools", Json::array()},
            {"top_p", fields.sampler.top_p},
            {"truncation", "disabled"},
            {"usage", nullptr}};
  }
  static Json part(const std::string& text) {
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}};
  }
  Json message(const std::optional<std::string>& text, std::string_view status) const {
    return {{"type", "message"},
            {"id", message_id_},
            {"status", status},
            {"role", "assistant"},
            {"content", text ? Json::array({part(*text)}) : Json::array()}};
  }
  Json at_part(Json more) const {
    more.update({{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}});
    return more;
  }
  std::string told(const std::string& type, Json json) {
    json["type"] = type;
    json["sequence_number"] = next_++;
    return "event: " + type + "\n" + event(json);
  }
  Json usage(const std::vector<ChoiceResult>& choices) const {
    const SequenceStatistics& statistics = choices[0].statistics;
    return {{"input_tokens", statistics.prompt_tokens},
            {"input_tokens_details", {{"cached_tokens", statistics.reused_tokens}}},
            {"output_tokens", statistics.answer_tokens},
            {"output_tokens_details", {{"reasoning_tokens", 0}}},
            {"total_tokens", statistics.prompt_tokens + statistics.answer_tokens}};
  }

  AnswerHead head_;
  std::string message_id_;
  long next_ = 0;
};

std::unique_ptr<AnswerFormat> make_response_format(AnswerHead head) {
  return std::make_unique<ResponseFormat>(std::move(head));
}

}  // namespace

void serve_responses(const GenerateInput& input) {
  const Fields fields(*input.body);
  refuse_unserved(fields);
  AnswerFields answer = read_common(input, fields, kNames);
  if (answer.choices != 1) fields.refuse("n", "1");
  const std::vector<ChatMessage> messages = read_input(fields, *input.limits);
  ChatRenderOptions options = read_render_options(fields);
  if (const auto reasoning = fields.object("reasoning")) {
    if (const auto effort = reasoning->text("effort")) {
      options.variables["reasoning_effort"] = *effort;
    }
  }
  AnswerHead head = make_head("resp_", *input.model, std::move(answer));
  head.prompts.push_back(chat_tokens(*input.model, messages, options, *input.limits));
  start_answer(input, std::move(head), make_response_format);
}

}  // namespace talon
