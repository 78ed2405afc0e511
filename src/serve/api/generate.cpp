#include "serve/api/generate.h"

#include <algorithm>
#include <chrono>

#include "serve/api/answer_json.h"
#include "serve/api/answering.h"
#include "serve/api/chat_format.h"
#include "serve/api/messages.h"
#include "text/prompt.h"

namespace talon {
namespace {

/// Whether a prompt leaves the model in the middle of a thought, which such a mark begins.
bool ends_thinking(std::string_view prompt, std::string_view mark) {
  const std::size_t end = prompt.find_last_not_of(" \n");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with(mark);
}

/// Whether what a message says so far does; marks: of a thought.
bool leaves_thought_open(std::string_view said, std::span<const std::string_view> marks) {
  const std::size_t begin = said.rfind(marks[0]);
  return begin != std::string_view::npos && said.find(marks[1], begin) == std::string_view::npos;
}

bool has_later_system(std::span<const ChatMessage> messages) {
  return std::ranges::count(messages.subspan(1), "system", &ChatMessage::role) > 0;
}

bool has_tools(const ChatAsk& ask) {
  const auto calls = [](const ChatMessage& message) { return message.more.contains("tool_calls"); };
  return ask.tools.is_offered() || std::ranges::any_of(ask.messages, calls);
}

/// The template of a chat; null: the model has none.
const ChatTemplate* chat_of(const ServedModel& model, const ChatAsk& ask) {
  const auto& chat = has_tools(ask) && model.tool_chat ? model.tool_chat : model.chat;
  return chat ? &*chat : nullptr;
}

/// Whether the template tells the model of the tools, and so in which words they are called.
bool tells_tools(const ChatTemplate& chat, const ChatAsk& ask) {
  if (!knows_tools(chat.source())) return false;
  return !has_tools(ask) || writes_tools(chat, ask.messages.front().role == "system");
}

ToolDialect dialect_for(const ChatTemplate& chat, const ChatAsk& ask) {
  return tells_tools(chat, ask) ? dialect_of(chat.source()) : ToolDialect::hermes;
}

void check_can_continue(const ChatAsk& ask) {
  const ChatMessage& last = ask.messages.back();
  const bool has_calls = last.more.contains("tool_calls");
  if (last.role != "assistant" || has_calls) {
    const std::string found = has_calls ? "calls in it" : fmt::format("one of the {}", last.role);
    throw ApiError(400, ask.field,
                   fmt::format("{}: expected a last message of the assistant without calls, to go "
                               "on from it, found {}",
                               ask.field, found),
                   "invalid_value");
  }
  if (ask.tools.choice == ToolUse::Choice::required) {
    throw ApiError(400, "tool_choice",
                   "tool_choice: expected none or auto where the last message is gone on from, "
                   "found a call that must be made",
                   "invalid_value");
  }
}

Request make_request(const AnswerFields& fields, const ServedModel& model) {
  Request request;
  request.max_new = fields.max_new.value_or(model.config().context);
  request.min_new = std::min(fields.min_new, request.max_new);
  request.sampler = fields.sampler;
  request.seed = fields.seed;
  request.stop_texts = fields.stop_texts;
  request.end_tokens = fields.stop_tokens;
  if (!fields.ignore_end) {
    const std::vector<TokenId>& ends = model.host->loaded().end_tokens;
    request.end_tokens.insert(request.end_tokens.end(), ends.begin(), ends.end());
  }
  request.tenant = fields.tenant;
  request.priority = fields.priority;
  request.logprobs = fields.logprobs;
  request.constraint = fields.constraint;
  request.expected = fields.expected;
  request.shows_special = fields.style.shows_special();
  return request;
}

/// came: when the request did.
std::vector<Job> make_jobs(const AnswerHead& head, std::chrono::steady_clock::time_point came) {
  const AnswerFields& fields = head.fields;
  Job job;
  job.request = make_request(fields, *head.model);
  job.method = fields.method;
  if (fields.deadline_ms) {
    job.request.deadline = came + std::chrono::milliseconds(*fields.deadline_ms);
  }
  std::vector<Job> jobs;
  for (const std::vector<TokenId>& prompt : head.prompts) {
    job.request.prompt = prompt;
    for (int choice = 0; choice < fields.choices; ++choice) {
      job.request.choice = static_cast<std::uint32_t>(choice);
      jobs.push_back(job);
    }
  }
  return jobs;
}

std::vector<TokenId> prompt_tokens(const std::string& path, const Json& prompt,
                                   const EncodeOptions& options, const ServedModel& model,
                                   const RequestLimits& limits) {
  if (prompt.is_array()) return read_tokens(path, prompt, model.config().vocabulary);
  if (!prompt.is_string()) refuse_field(path, "a text or a list of token ids", prompt);
  try {
    const std::string& text = prompt.get_ref<const std::string&>();
    check_prompt_bytes(model.tokenizer(), text, most_tokens(model, limits));
    return model.tokenizer().encode(text, options);
  } catch (const BusyError&) {
    throw;
  } catch (const PromptTooLong& error) {
    throw prompt_too_long(path, error.what(), most_tokens(model, limits));
  } catch (const Error& error) {
    throw ApiError(400, path, path + ": " + error.what(), "context_length_exceeded");
  }
}

/// One text, one list of token ids, or a list of either.
std::vector<std::vector<TokenId>> read_prompts(const Fields& fields, const ServedModel& model,
                                               const RequestLimits& limits, int most) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) fields.refuse("prompt", "a text, a list of token ids, or a list of these");
  const EncodeOptions options = {.parse_special = fields.flag("parse_special").value_or(true),
                                 .add_start = fields.flag("add_special_tokens").value_or(true)};
  const bool is_list = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  if (!is_list) return {prompt_tokens("prompt", *prompt, options, model, limits)};
  if (prompt->size() > static_cast<std::size_t>(most)) {
    fields.refuse("prompt",
                  fmt::format("at most {} prompts, for whose answers the queue has room", most));
  }
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < prompt->size(); ++i) {
    const std::string path = fmt::format("prompt[{}]", i);
    prompts.push_back(prompt_tokens(path, (*prompt)[i], options, model, limits));
  }
  return prompts;
}

/// What would change the answer of a chat and is not there.
void refuse_unserved_of_chat(const Fields& fields) {
  if (fields.flag("echo").value_or(false)) fields.refuse("echo", "false");
  if (const Json* functions = fields.array("functions", 1024); functions && !functions->empty()) {
    fields.refuse("functions", "none: tools have them");
  }
  if (fields.flag("add_special_tokens").value_or(false)) {
    fields.refuse("add_special_tokens", "false: the template writes such tokens");
  }
  if (fields.object("web_search_options")) {
    fields.refuse("web_search_options", "none: the server searches nothing");
  }
  const std::string thoughts = fields.text("reasoning_format").value_or("auto");
  if (thoughts != "auto" && thoughts != "deepseek") {
    fields.refuse("reasoning_format", "auto or deepseek");
  }
  const Json* kinds = fields.array("modalities", 16);
  for (std::size_t i = 0; kinds && i < kinds->size(); ++i) {
    if ((*kinds)[i] != "text") refuse_field(fmt::format("modalities[{}]", i), "text", (*kinds)[i]);
  }
}

/// OpenAI's predicted output: {"type": "content", "content": a text or text parts}.
std::shared_ptr<const std::vector<TokenId>> read_prediction(const Fields& fields,
                                                            const ServedModel& model) {
  constexpr std::string_view kText[] = {"text"};
  const auto prediction = fields.object("prediction");
  if (!prediction) return nullptr;
  if (prediction->text("type") != "content") prediction->refuse("type", "content");
  const Json* content = prediction->find("content");
  if (!content) prediction->refuse("content", "a text or text parts");
  const std::string text = read_content("prediction.content", *content, kText);
  try {
    check_prompt_bytes(model.tokenizer(), text, model.config().context);
  } catch (const PromptTooLong& error) {
    throw ApiError(400, "prediction.content", fmt::format("prediction.content: {}", error.what()),
                   "context_length_exceeded");
  }
  std::vector<TokenId> tokens = model.tokenizer().encode(text, {.parse_special = false});
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(model.config().context)));
  return std::make_shared<const std::vector<TokenId>>(std::move(tokens));
}

}  // namespace

AnswerFields read_common(const GenerateInput& input, const Fields& fields,
                         const FieldNames& names) {
  refuse_foreign_fields(fields);
  AnswerFields answer =
      read_answer_fields(fields, *input.limits, input.model->config().vocabulary, names);
  answer.returns_metrics |= input.returns_metrics;
  if (input.model->pictures) return answer;
  if (fields.object("moderation")) fields.refuse("moderation", "none: the server judges no texts");
  answer.expected = read_prediction(fields, *input.model);
  return answer;
}

int most_tokens(const ServedModel& model, const RequestLimits& limits) {
  const int context = model.config().context;
  return limits.prompt_tokens > 0 ? std::min(limits.prompt_tokens, context) : context;
}

void check_prompt_length(const std::string& param, std::size_t tokens, const ServedModel& model,
                         const RequestLimits& limits) {
  long context = std::min<long>(model.config().context, model.host->cache_positions());
  long most = context - 1;
  if (limits.prompt_tokens > 0) {
    most = std::min<long>(most, limits.prompt_tokens);
    context = std::min<long>(context, limits.prompt_tokens);
  }
  if (tokens == 0) {
    throw ApiError(400, param, param + ": expected at least one token, found none",
                   "invalid_value");
  }
  if (static_cast<long>(tokens) > most) {
    throw prompt_too_long(param, fmt::format("expected at most {} tokens, found {}", most, tokens),
                          context);
  }
}

void check_answer_count(const AnswerHead& head) {
  const std::size_t answers = head.prompts.size() * static_cast<std::size_t>(head.fields.choices);
  const int most = head.model->host->most_waiting();
  if (answers <= static_cast<std::size_t>(most)) return;
  const char* field = head.prompts.size() > 1 ? "prompt" : "n";
  throw ApiError(400, field,
                 fmt::format("{}: expected at most {} answers, all that the queue holds, found {}",
                             field, most, answers),
                 "invalid_value");
}

ChatPrompt chat_prompt(const ServedModel& model, ChatAsk ask, const RequestLimits& limits) {
  const ChatTemplate* chat = chat_of(model, ask);
  if (!chat) {
    throw ApiError(400, ask.field,
                   ask.field +
                       ": expected a model with a chat template, found one without: use "
                       "/v1/completions",
                   "no_chat_template");
  }
  if (ask.options.continues_last) check_can_continue(ask);
  name_results(ask.messages);
  const bool is_told = tells_tools(*chat, ask);
  if (is_told) fit_calls(*chat, ask.messages);
  name_thoughts_twice(ask.messages);
  if (has_later_system(ask.messages) && !takes_later_system(*chat)) {
    tell_as_user(ask.messages, "system", 1);
  }
  if (!is_told) {
    spell_tools(ask.messages, ask.tools, !ask.tools.is_offered() || takes_system(*chat));
  } else if (ask.tools.is_offered()) {
    ask.options.variables["tools"] = ask.tools.for_template();
  }
  if (has_repeated_turns(ask.messages) && !takes_repeated_turns(*chat)) join_turns(ask.messages);
  ChatPrompt prompt;
  try {
    prompt = encode_chat(model.tokenizer(), *chat, ask.messages, ask.options,
                         most_tokens(model, limits));
  } catch (const PromptTooLong& error) {
    throw prompt_too_long(ask.field, error.what(), most_tokens(model, limits));
  } catch (const BusyError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, ask.field, fmt::format("{}: {}", ask.field, error.what()), "invalid_value");
  }
  return prompt;
}

std::shared_ptr<const ConstraintSource> compile_grammar(const ServedModel& model,
                                                        const AskedGrammar& asked) {
  try {
    return model.host->grammars().compile(asked.text);
  } catch (const BusyError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, asked.field, fmt::format("{}: {}", asked.field, error.what()),
                   "invalid_grammar");
  }
}

void ask_chat(const GenerateInput& input, ChatAsk ask, AnswerHead& head) {
  const ServedModel& model = *input.model;
  const ToolUse tools = ask.tools;
  const std::optional<AskedGrammar> grammar = ask.grammar;
  const bool continues = ask.options.continues_last;
  const std::string said = continues ? ask.messages.back().content : "";
  const std::string field = ask.field;
  const ChatTemplate* chat = chat_of(model, ask);
  const ToolDialect dialect = chat ? dialect_for(*chat, ask) : ToolDialect::none;
  ChatPrompt prompt = chat_prompt(model, std::move(ask), *input.limits);
  check_prompt_length(field, prompt.tokens.size(), model, *input.limits);
  const std::string& source = chat->source();
  AnswerStyle& style = head.fields.style;
  if (tools.is_offered() || is_always_marked(dialect)) style.dialect = dialect;
  for (const Tool& tool : tools.tools) {
    style.tools.push_back(tool.name);
    style.schemas[tool.name] = tool.parameters;
  }
  style.thoughts = thought_marks_of(source);
  style.reasons = marks_reasoning(source) && dialect != ToolDialect::harmony;
  style.continues = continues;
  style.parallel = tools.parallel;
  style.said_tags = said_tags_of(source);
  const std::vector<std::string_view> marks = text_marks_of(style);
  style.begins_thinking =
      style.reasons && (continues ? leaves_thought_open(said, marks)
                                  : ends_thinking(prompt.chat.text, marks.front()));
  std::optional<GrammarText> otherwise;
  if (grammar) otherwise = grammar->text;
  if (const auto text = answer_grammar(tools, style, model.tokenizer(), otherwise)) {
    head.fields.constraint =
        compile_grammar(model, {grammar ? grammar->field : std::string("tools"), *text});
  }
  head.prompts.push_back(std::move(prompt.tokens));
}

void start_answer(const GenerateInput& input, AnswerHead head,
                  std::unique_ptr<AnswerFormat> (*make_format)(AnswerHead)) {
  check_answer_count(head);
  std::vector<Job> jobs = make_jobs(head, input.came);
  const bool streams = head.fields.streams, traces = head.fields.traces;
  Answering::start({input.exchange, input.model, make_format(std::move(head)), streams, traces,
                    input.limits->unread_bytes, input.workers, input.came},
                   std::move(jobs));
}

ChatAsk read_chat(const Json& json, const std::string& text, const RequestLimits& limits) {
  const Fields fields(json);
  const OrderedJson body = ordered_body(json, text);
  ChatAsk ask;
  ask.messages = read_messages(fields, limits);
  ask.options = read_render_options(fields);
  ask.tools = read_tools(ToolShape::chat, fields, body, limits);
  ask.grammar = read_grammar(fields, body, limits);
  return ask;
}

void serve_chat(const GenerateInput& input) {
  const Fields fields(*input.body);
  refuse_unserved_of_chat(fields);
  AnswerFields answer = read_common(input, fields);
  const int top =
      static_cast<int>(fields.integer("top_logprobs", 0, input.limits->top_logprobs).value_or(0));
  if (fields.flag("logprobs").value_or(false)) {
    answer.logprobs = top;
  } else if (top > 0) {
    fields.refuse("top_logprobs", "logprobs to be true beside it");
  }
  ChatAsk ask = read_chat(*input.body, *input.text, *input.limits);
  AnswerHead head = make_head("chatcmpl-", *input.model, std::move(answer));
  ask_chat(input, std::move(ask), head);
  start_answer(input, std::move(head), make_chat_format);
}

void serve_completion(const GenerateInput& input) {
  const Fields fields(*input.body);
  AnswerFields answer = read_common(input, fields);
  const OrderedJson body = ordered_body(*input.body, *input.text);
  if (const auto grammar = read_grammar(fields, body, *input.limits)) {
    answer.constraint = compile_grammar(*input.model, *grammar);
  }
  if (fields.flag("echo").value_or(false)) fields.refuse("echo", "false");
  if (!fields.text("suffix").value_or("").empty()) fields.refuse("suffix", "none");
  if (const auto best = fields.integer("best_of", 1, input.limits->choices)) {
    if (*best != answer.choices) fields.refuse("best_of", "the same as n");
  }
  if (const auto top = fields.integer("logprobs", 0, input.limits->top_logprobs)) {
    answer.logprobs = static_cast<int>(*top);
  }
  if (!answer.max_new && !answer.has_no_limit) {
    answer.max_new = std::max(16, answer.min_new);  // as OpenAI has it
  }
  const int most_prompts = std::max(1, input.model->host->most_waiting() / answer.choices);
  auto prompts = read_prompts(fields, *input.model, *input.limits, most_prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string param = prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    check_prompt_length(param, prompts[i].size(), *input.model, *input.limits);
  }
  AnswerHead head = make_head("cmpl-", *input.model, std::move(answer));
  head.prompts = std::move(prompts);
  start_answer(input, std::move(head), make_completion_format);
}

}  // namespace talon
