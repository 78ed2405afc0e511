#include "serve/api/anthropic.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "serve/api/answer_json.h"
#include "serve/api/messages.h"
#include "serve/tools/tool_use.h"
#include "text/detokenizer.h"

namespace talon {
namespace {

constexpr std::array<std::string_view, 1> kTextBlocks = {"text"};
constexpr std::array<std::string_view, 3> kAnthropicRoles = {"user", "assistant", "system"};
constexpr std::size_t kMostBlocks = 1024;
constexpr std::array<std::string_view, 2> kAnthropicLengths = {"max_tokens", "n_predict"};
/// Of a thought. There is nothing to sign, but some clients give back no thought without one.
constexpr const char* kSignature = "talon";
constexpr FieldNames kAnthropicNames = {kAnthropicLengths, "stop_sequences"};

std::string_view anthropic_type(int status) {
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

/// Errors have no code, so clients that shorten their chats know one that is too long by its words.
std::string message_of(const ApiError& error) {
  const bool is_too_long = error.code() == "context_length_exceeded";
  return std::string(is_too_long ? "prompt is too long: " : "") + error.what();
}

Json error_body(const ApiError& error) {
  return {{"type", "error"},
          {"error", {{"type", anthropic_type(error.status())}, {"message", message_of(error)}}}};
}

std::string named_event(const Json& json) {
  return fmt::format("event: {}\n{}", json["type"].get_ref<const std::string&>(), event(json));
}

/// Blocks of a turn of the assistant: texts, thoughts and calls, whose keys are in the order of
/// `written`.
void read_assistant_blocks(const std::string& path, const Json& blocks, const OrderedJson& written,
                           std::vector<ChatMessage>& messages) {
  ChatMessage message{"assistant", ""};
  std::vector<ChatMessage> with_calls = {message};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!blocks[i].is_object()) refuse_field(at, "an object", blocks[i]);
    const Fields block(blocks[i], at + ".");
    const std::string type = block.text("type").value_or("");
    if (type == "tool_use") {
      const auto name = block.text("name");
      if (!name) block.refuse("name", "a text");
      const Json* input = block.find("input");
      if (input && !input->is_object()) block.refuse("input", "an object");
      add_call(with_calls, block.text("id").value_or(""), *name,
               input ? written[i]["input"].dump() : "{}");
    } else if (type == "thinking") {
      add_thought(with_calls[0], block.text("thinking").value_or(""));
    } else if (type != "redacted_thinking") {
      with_calls[0].content += read_part(at, blocks[i], kTextBlocks);
    }
  }
  messages.push_back(std::move(with_calls[0]));
}

/// Whether the first line of a text has the word in any case.
bool speaks_of_error(std::string_view text) {
  std::string line(text.substr(0, text.find('\n')));
  for (char& c : line) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return line.find("error") != std::string::npos;
}

/// What a call gave. Templates have no place for `is_error`, so the text says it.
std::string read_result(const std::string& path, const Fields& block) {
  const Json* content = block.find("content");
  std::string text = content ? read_content(path + ".content", *content, kTextBlocks) : "";
  if (!block.flag("is_error").value_or(false) || speaks_of_error(text)) return text;
  return text.empty() ? "Error" : "Error: " + text;
}

/// Blocks of a turn of the user: what calls gave, and texts.
void read_user_blocks(const std::string& path, const Json& blocks,
                      std::vector<ChatMessage>& messages) {
  std::string said;
  bool has_results = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    const bool is_result =
        blocks[i].is_object() && blocks[i].value("type", Json()) == "tool_result";
    if (!is_result) {
      said += read_part(at, blocks[i], kTextBlocks);
      continue;
    }
    has_results = true;
    const Fields block(blocks[i], at + ".");
    messages.push_back(call_result(block.text("tool_use_id").value_or(""), read_result(at, block)));
  }
  if (!said.empty() || !has_results) messages.push_back({"user", std::move(said)});
}

/// roles: that it may have.
void read_turn(const std::string& path, const Json& json, const OrderedJson& written,
               std::span<const std::string_view> roles, std::vector<ChatMessage>& messages) {
  const Json* content = json.is_object() && json.contains("content") ? &json["content"] : nullptr;
  const bool has_blocks = content && content->is_array() && content->size() <= kMostBlocks;
  const Json role = json.is_object() ? json.value("role", Json()) : Json();
  if (has_blocks && role == "assistant") {
    read_assistant_blocks(path + ".content", *content, written["content"], messages);
  } else if (has_blocks && role == "user") {
    read_user_blocks(path + ".content", *content, messages);
  } else {
    messages.push_back(read_message(path, json, roles, kTextBlocks));
  }
}

/// The system's words, without the line for the bill that some clients begin them with: it is
/// another in each request, so the cache would know nothing that follows it.
std::string read_system(const Json& system) {
  std::string text = read_content("system", system, kTextBlocks);
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  const std::size_t block =
      system.is_array() ? system[0]["text"].get_ref<const std::string&>().size() : text.size();
  const std::size_t line = text.find('\n');
  text.erase(0, line < block ? line + 1 : block);
  return text;
}

/// Turns of one role that follow each other are one, as in Anthropic's interface.
void add_turn(std::vector<ChatMessage> turn, std::vector<ChatMessage>& messages) {
  auto next = turn.begin();
  const bool goes_on = !messages.empty() && messages.back().role == next->role;
  if (goes_on && next->role != "tool") add_message(messages.back(), *next++, "\n");
  std::move(next, turn.end(), std::back_inserter(messages));
}

std::vector<ChatMessage> read_turns(const Fields& fields, const OrderedJson& body,
                                    const RequestLimits& limits) {
  std::vector<ChatMessage> messages;
  if (const Json* system = fields.find("system")) {
    messages.push_back({"system", read_system(*system)});
  }
  const Json* list = fields.array("messages", static_cast<std::size_t>(limits.messages));
  if (!list || list->empty()) fields.refuse("messages", "an array of at least one message");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto roles = std::span(kAnthropicRoles).first(i == 0 ? 2 : 3);  // no system at first
    std::vector<ChatMessage> turn;
    read_turn(fmt::format("messages[{}]", i), (*list)[i], body["messages"][i], roles, turn);
    add_turn(std::move(turn), messages);
  }
  return messages;
}

/// The budget of a thought is not kept to: it ends where the model ends it. It is told as a whole,
/// since a client can give nothing else back.
void read_thinking(const Fields& fields, ChatRenderOptions& options) {
  const auto thinking = fields.object("thinking");
  if (!thinking) return;
  const std::string type = thinking->text("type").value_or("");
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    thinking->refuse("type", "one of enabled, adaptive, disabled");
  }
  thinking->integer("budget_tokens", 0, std::numeric_limits<int>::max());
  const std::string display = thinking->text("display").value_or("summarized");
  if (display != "summarized" && display != "omitted") {
    thinking->refuse("display", "summarized or omitted");
  }
  ask_to_think(type != "disabled", options);
}

/// What would give the model tools that the server itself calls.
void refuse_servers_tools(const Fields& fields) {
  const Json* servers = fields.array("mcp_servers", 64);
  if (servers && !servers->empty()) fields.refuse("mcp_servers", "none: the server calls no tools");
  if (fields.find("container")) fields.refuse("container", "none: the server runs no code");
}

ChatAsk read_ask(const Json& json, const std::string& text, const RequestLimits& limits) {
  const Fields fields(json);
  refuse_servers_tools(fields);
  const OrderedJson body = ordered_body(json, text);
  const auto output = fields.object("output_config");
  ChatAsk ask;
  ask.messages = read_turns(fields, body, limits);
  ask.options = read_render_options(fields);
  if (output) read_effort(*output, "effort", ask.options);
  read_thinking(fields, ask.options);
  ask.options.continues_last = ask.messages.back().role == "assistant";
  ask.tools = read_tools(ToolShape::messages, fields, body, limits);
  ask.grammar = read_grammar(fields, body, limits);
  return ask;
}

/// The input of a call, as an object with its keys as they were written.
OrderedJson input_of(const std::string& arguments) {
  OrderedJson json = object_in(arguments);
  return json.is_null() ? OrderedJson::object() : json;
}

class MessageFormat final : public AnswerFormat {
 public:
  explicit MessageFormat(AnswerHead head) : head_(std::move(head)), readers_(head_.fields.style) {}

  std::string whole(const std::vector<ChoiceResult>& choices) override {
    const std::vector<Said> said = joined_blocks(readers_.parts(choices[0]));
    OrderedJson content = OrderedJson::array();
    for (const Said& block : said) {
      content.push_back(block_json(block));
      has_calls_ |= block.kind == Block::call;
    }
    Json message = outline();
    message.update(ending(choices[0]));
    message["usage"] =
        usage(choices[0].statistics.reused_tokens, choices[0].statistics.answer_tokens);
    add_statistics(message, head_, choices);
    OrderedJson whole = message;
    whole["content"] = std::move(content);
    return whole.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }
  std::string begin() override { return ""; }
  std::string piece(const ChoiceNews& news) override {
    std::string events = std::exchange(has_begun_, true) ? "" : start(news.reused_tokens);
    for (const AnswerPart& part : readers_.read(news)) events += block_events(part);
    return events;
  }
  std::string end(const std::vector<ChoiceResult>& choices) override {
    const SequenceStatistics& statistics = choices[0].statistics;
    std::string events = block_ == Block::none ? begin_block({Block::text, "", ""}) : "";
    events += end_block();
    Json last = {{"type", "message_delta"},
                 {"delta", ending(choices[0])},
                 {"usage", usage(statistics.reused_tokens, statistics.answer_tokens)}};
    add_statistics(last, head_, choices);
    return events + named_event(last) + named_event({{"type", "message_stop"}});
  }
  std::string failure(const ApiError& error) override { return named_event(error_body(error)); }
  std::string ping() const override { return named_event({{"type", "ping"}}); }
  HttpResponse refusal(const ApiError& error) override { return anthropic_error(error); }

 private:
  enum class Block { none, text, thinking, call };
  /// A block as far as it goes: its text, or the name and the arguments of a call.
  struct Said {
    Block kind = Block::text;
    std::string name, text;
  };

  static Block block_of(const AnswerPart& part) {
    return part.kind == AnswerPart::Kind::content     ? Block::text
           : part.kind == AnswerPart::Kind::reasoning ? Block::thinking
                                                      : Block::call;
  }
  static std::vector<Said> joined_blocks(const AnswerReader::Parts& parts) {
    std::vector<Said> blocks;
    for (const AnswerPart& part : parts) {
      const bool is_call = part.kind == AnswerPart::Kind::call;
      if (is_call || blocks.empty() || blocks.back().kind != block_of(part)) {
        blocks.push_back({block_of(part), is_call ? part.text : "", ""});
      }
      if (!is_call) blocks.back().text += part.text;
    }
    if (blocks.empty()) blocks.emplace_back();
    return blocks;
  }
  static OrderedJson block_json(const Said& said) {
    switch (said.kind) {
      case Block::thinking:
        return {{"type", "thinking"}, {"thinking", said.text}, {"signature", kSignature}};
      case Block::call:
        return {{"type", "tool_use"},
                {"id", new_id("toolu_")},
                {"name", said.name},
                {"input", input_of(said.text)}};
      default:
        return {{"type", "text"}, {"text", said.text}};
    }
  }
  std::string start(int reused) {
    Json message = outline();
    message["content"] = Json::array();
    message["stop_reason"] = message["stop_sequence"] = nullptr;
    message["usage"] = usage(reused, 0);
    return named_event({{"type", "message_start"}, {"message", std::move(message)}});
  }
  std::string block_events(const AnswerPart& part) {
    const bool is_call = part.kind == AnswerPart::Kind::call;
    const Block block = block_of(part);
    std::string events;
    if (is_call || block != block_) events = begin_block({block, is_call ? part.text : "", ""});
    if (is_call) return events;
    Json delta = {{"type", "text_delta"}, {"text", part.text}};
    if (block == Block::thinking) delta = {{"type", "thinking_delta"}, {"thinking", part.text}};
    if (block == Block::call) delta = {{"type", "input_json_delta"}, {"partial_json", part.text}};
    return events + delta_event(std::move(delta));
  }
  std::string delta_event(Json delta) const {
    return named_event(
        {{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
  }
  std::string begin_block(const Said& said) {
    std::string events = block_ == Block::none ? "" : end_block();
    block_ = said.kind;
    has_calls_ |= said.kind == Block::call;
    Json block = block_json(said);
    if (said.kind == Block::thinking) block["signature"] = "";  // comes at the block's end
    return events + named_event({{"type", "content_block_start"},
                                 {"index", index_},
                                 {"content_block", std::move(block)}});
  }
  std::string end_block() {
    std::string events;
    if (block_ == Block::thinking) {
      events = delta_event({{"type", "signature_delta"}, {"signature", kSignature}});
    }
    block_ = Block::none;
    return events + named_event({{"type", "content_block_stop"}, {"index", index_++}});
  }
  Json outline() const {
    return {
        {"id", head_.id}, {"type", "message"}, {"role", "assistant"}, {"model", head_.model->name}};
  }
  static Json reason(FinishReason finish, bool calls) {
    if (finish == FinishReason::stop_token || finish == FinishReason::complete) {
      return calls ? "tool_use" : "end_turn";
    }
    return finish == FinishReason::stop_text ? "stop_sequence" : "max_tokens";
  }
  Json ending(const ChoiceResult& choice) const {
    return {{"stop_reason", reason(choice.finish, has_calls_)},
            {"stop_sequence", stop_text(choice)}};
  }
  /// The engine tells that a stop text came, not which: it is the one that its tokens go on with
  /// where the answer's text ends. Of several the shortest was complete first.
  Json stop_text(const ChoiceResult& choice) const {
    if (choice.finish != FinishReason::stop_text) return nullptr;
    Detokenizer detokenizer(head_.model->tokenizer(), !head_.fields.style.shows_special());
    std::string all;
    for (const TokenId token : choice.tokens) all += detokenizer.push(token);
    const auto rest = std::string_view(all).substr(std::min(choice.text.size(), all.size()));
    const std::string* found = nullptr;
    for (const std::string& text : head_.fields.stop_texts) {
      if (rest.starts_with(text) && (!found || text.size() < found->size())) found = &text;
    }
    return found ? Json(*found) : Json();
  }
  /// input_tokens are those of the prompt that the cache did not have.
  Json usage(int reused, int answer_tokens) const {
    return {{"input_tokens", static_cast<int>(head_.prompts[0].size()) - reused},
            {"cache_read_input_tokens", reused},
            {"cache_creation_input_tokens", 0},
            {"output_tokens", answer_tokens}};
  }

  AnswerHead head_;
  ChoiceReaders readers_;
  Block block_ = Block::none;  // that is being written
  int index_ = 0;
  bool has_calls_ = false;
  bool has_begun_ = false;
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
  AnswerFields answer = read_common(input, fields, kAnthropicNames);
  if (!answer.max_new) fields.refuse("max_tokens", "a whole number of at least 1");
  if (answer.choices != 1) fields.refuse("n", "1");
  if (const auto metadata = fields.object("metadata")) metadata->text("user_id");
  ChatAsk ask = read_ask(*input.body, *input.text, *input.limits);
  AnswerHead head = make_head("msg_", *input.model, std::move(answer));
  ask_chat(input, std::move(ask), head);
  start_answer(input, std::move(head), make_message_format);
}

Json count_message_tokens(const ServedModel& model, const Json& body, const std::string& text,
                          const RequestLimits& limits) {
  const ChatPrompt prompt = chat_prompt(model, read_ask(body, text, limits), limits);
  return {{"input_tokens", prompt.tokens.size()}};
}

}  // namespace talon
