#include "serve/api/responses.h"

#include <algorithm>
#include <array>

#include "serve/api/answer_json.h"
#include "serve/api/messages.h"
#include "serve/api/response_items.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 3> kResponsesTexts = {"input_text", "output_text", "text"};
constexpr std::array<std::string_view, 4> kResponsesRoles = {"system", "developer", "user",
                                                             "assistant"};
constexpr std::array<std::string_view, 1> kThoughtTexts = {"reasoning_text"};
constexpr std::array<std::string_view, 1> kSummaryTexts = {"summary_text"};
constexpr std::array<std::string_view, 2> kResponsesLengths = {"max_output_tokens", "n_predict"};
constexpr FieldNames kResponsesNames = {kResponsesLengths, "stop"};

/// What a call gave: a text, or text parts.
std::string read_output(const std::string& path, const Fields& item) {
  const Json* output = item.find("output");
  if (!output) item.refuse("output", "a text or a list of text parts");
  return read_content(path + ".output", *output, kResponsesTexts);
}

/// What a model thought; where that is not told, its summary.
std::string read_thought(const std::string& path, const Fields& item) {
  const Json* content = item.find("content");
  const Json* summary = item.find("summary");
  std::string thought;
  if (content) thought = read_content(path + ".content", *content, kThoughtTexts);
  if (thought.empty() && summary) {
    thought = read_content(path + ".summary", *summary, kSummaryTexts);
  }
  return thought;
}

/// thoughts: of the items just before, which belong to the assistant's message or call after them.
void read_item(const std::string& path, const Json& json, std::vector<ChatMessage>& messages,
               std::vector<std::string>& thoughts) {
  if (!json.is_object()) refuse_field(path, "an object", json);
  const Fields item(json, path + ".");
  const std::string type = item.text("type").value_or("message");
  const std::string call = item.text("call_id").value_or("");
  if (type == "reasoning") return thoughts.push_back(read_thought(path, item));
  if (type == "function_call") {
    const auto name = item.text("name");
    if (!name) item.refuse("name", "a text");
    add_call(messages, call, *name, item.text("arguments").value_or("{}"));
  } else if (type == "function_call_output") {
    messages.push_back(call_result(call, read_output(path, item)));
  } else if (type == "message") {
    messages.push_back(read_message(path, json, kResponsesRoles, kResponsesTexts));
  } else {
    item.refuse("type", "message, function_call, function_call_output or reasoning");
  }
  if (messages.back().role == "assistant") {
    for (const std::string& thought : thoughts) add_thought(messages.back(), thought);
  }
  thoughts.clear();
}

/// Many templates write the first message of the system alone.
void join_first_systems(std::vector<ChatMessage>& messages) {
  const auto other = std::ranges::find_if(
      messages, [](const ChatMessage& message) { return message.role != "system"; });
  if (other - messages.begin() < 2) return;
  for (auto more = messages.begin() + 1; more != other; ++more) {
    messages[0].content += "\n\n" + more->content;
  }
  messages.erase(messages.begin() + 1, other);
}

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
  const std::size_t before = messages.size();
  std::vector<std::string> thoughts;
  for (std::size_t i = 0; i < list->size(); ++i) {
    read_item(fmt::format("input[{}]", i), (*list)[i], messages, thoughts);
  }
  if (messages.size() == before) fields.refuse("input", "an item beside those of reasoning");
  join_first_systems(messages);
  return messages;
}

/// A message's text has no places for those of its tokens.
void refuse_logprobs(const Fields& fields) {
  if (fields.integer("top_logprobs", 0, 20).value_or(0) > 0) {
    fields.refuse("top_logprobs", "0: /v1/chat/completions has logprobs");
  }
  const Json* include = fields.array("include", 64);
  for (std::size_t i = 0; include && i < include->size(); ++i) {
    const std::string path = fmt::format("include[{}]", i);
    if (!(*include)[i].is_string()) refuse_field(path, "a text", (*include)[i]);
    if ((*include)[i] != "message.output_text.logprobs") continue;
    refuse_field(path, "no logprobs: /v1/chat/completions has them", (*include)[i]);
  }
}

/// Fields that a response repeats, as they were given or as what is so where they were not.
Json asked_of(const Fields& fields) {
  const auto given = [&](const char* name, Json otherwise) {
    const Json* value = fields.find(name);
    return value ? *value : std::move(otherwise);
  };
  Json asked;
  asked["instructions"] = given("instructions", nullptr);
  asked["metadata"] = given("metadata", Json::object());
  asked["parallel_tool_calls"] = given("parallel_tool_calls", true);
  asked["tool_choice"] = given("tool_choice", "auto");
  asked["truncation"] = given("truncation", "disabled");
  const Json reasoning = given("reasoning", Json::object());
  asked["reasoning"] = {{"effort", reasoning.value("effort", Json())}, {"summary", nullptr}};
  asked["text"] = {{"format", {{"type", "text"}}}};
  const Json text = given("text", Json::object());
  for (const char* name : {"format", "verbosity"}) {
    if (!text.value(name, Json()).is_null()) asked["text"][name] = text[name];
  }
  asked["tools"] = Json::array();
  for (const Json& tool : given("tools", Json::array())) {
    if (!is_function_tool(ToolShape::responses, tool)) continue;
    Json told = {{"type", "function"}};
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      told[name] = tool.value(name, Json());
    }
    asked["tools"].push_back(std::move(told));
  }
  return asked;
}

void refuse_unserved(const Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.find(name)) fields.refuse(name, "none: the server keeps no answers");
  }
  if (fields.flag("background").value_or(false)) fields.refuse("background", "false");
  for (const char* name : {"text", "metadata"}) fields.object(name);
  refuse_logprobs(fields);
  const std::string truncation = fields.text("truncation").value_or("disabled");
  if (truncation != "disabled" && truncation != "auto") {
    fields.refuse("truncation", "disabled or auto");
  }
}

class ResponseFormat final : public AnswerFormat {
 public:
  explicit ResponseFormat(AnswerHead head) : head_(std::move(head)), readers_(head_.fields.style) {}

  std::string whole(const std::vector<ChoiceResult>& choices) override {
    const auto silent = [](const std::string&, const Json&) { return std::string(); };
    ResponseItems items;
    items.add(readers_.parts(choices[0]), silent);
    items.finish(is_cut(choices), silent);
    return to_text(response_of(choices, items));
  }
  std::string begin() override {
    std::string events = told("response.created", {{"response", outline("in_progress")}});
    return events += told("response.in_progress", {{"response", outline("in_progress")}});
  }
  std::string piece(const ChoiceNews& news) override {
    return items_.add(readers_.read(news), teller());
  }
  std::string end(const std::vector<ChoiceResult>& choices) override {
    std::string events = items_.finish(is_cut(choices), teller());
    Json response = response_of(choices, items_);
    const std::string type = "response." + response["status"].get<std::string>();
    return events + told(type, {{"response", std::move(response)}});
  }
  std::string failure(const ApiError& error) override {
    Json response = outline("failed");
    response["error"] = {{"code", "server_error"}, {"message", error.what()}};
    return told("response.failed", {{"response", std::move(response)}});
  }

 private:
  static bool is_cut(const std::vector<ChoiceResult>& choices) {
    return finish_json(choices[0].finish) == "length";
  }
  Json response_of(const std::vector<ChoiceResult>& choices, const ResponseItems& items) const {
    Json response = outline(is_cut(choices) ? "incomplete" : "completed");
    if (is_cut(choices)) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["output"] = items.output();
    response["usage"] = usage(choices);
    add_statistics(response, head_, choices);
    return response;
  }
  ResponseItems::Tell teller() {
    return [this](const std::string& type, Json json) { return told(type, std::move(json)); };
  }
  Json outline(std::string_view status) const {
    const AnswerFields& fields = head_.fields;
    Json json = {{"id", head_.id},
                 {"object", "response"},
                 {"created_at", head_.created},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"max_output_tokens", fields.max_new ? Json(*fields.max_new) : Json()},
                 {"model", head_.model->name},
                 {"output", Json::array()},
                 {"previous_response_id", nullptr},
                 {"store", false},
                 {"temperature", fields.sampler.temperature},
                 {"top_p", fields.sampler.top_p}};
    json.update(head_.asked);
    return json;  // no "usage" before the end: may be left out, not null
  }
  std::string told(const std::string& type, Json json) {
    json["type"] = type;
    json["sequence_number"] = next_++;
    return "event: " + type + "\n" + event(json);
  }
  Json usage(const std::vector<ChoiceResult>& choices) const {
    const SequenceStatistics& statistics = choices[0].statistics;
    return {{"input_tokens", statistics.prompt_tokens},
            {"input_tokens_details",
             {{"cached_tokens", statistics.reused_tokens},
              {"cache_write_tokens", statistics.prompt_tokens - statistics.reused_tokens}}},
            {"output_tokens", statistics.answer_tokens},
            {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens(head_, choices[0])}}},
            {"total_tokens", statistics.prompt_tokens + statistics.answer_tokens}};
  }

  AnswerHead head_;
  ChoiceReaders readers_;
  ResponseItems items_;
  long next_ = 0;
};

std::unique_ptr<AnswerFormat> make_response_format(AnswerHead head) {
  return std::make_unique<ResponseFormat>(std::move(head));
}

}  // namespace

void serve_responses(const GenerateInput& input) {
  const Fields fields(*input.body);
  refuse_unserved(fields);
  AnswerFields answer = read_common(input, fields, kResponsesNames);
  if (answer.choices != 1) fields.refuse("n", "1");
  const OrderedJson body = ordered_body(*input.body, *input.text);
  ChatAsk ask;
  ask.field = "input";
  ask.messages = read_input(fields, *input.limits);
  ask.options = read_render_options(fields);
  ask.tools = read_tools(ToolShape::responses, fields, body, *input.limits);
  ask.grammar = read_grammar(fields, body, *input.limits);
  if (const auto reasoning = fields.object("reasoning")) {
    read_effort(*reasoning, "effort", ask.options);
  }
  if (const auto text = fields.object("text")) read_verbosity(*text, ask.options);
  AnswerHead head = make_head("resp_", *input.model, std::move(answer));
  head.asked = asked_of(fields);
  ask_chat(input, std::move(ask), head);
  start_answer(input, std::move(head), make_response_format);
}

}  // namespace talon
