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
  return request;
}

std::vector<Job> make_jobs(const AnswerHead& head) {
  const AnswerFields& fields = head.fields;
  Job job;
  job.request = make_request(fields, *head.model);
  job.method = fields.method;
  if (fields.deadline_ms) {
    job.request.deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(*fields.deadline_ms);
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
                                   const ServedModel& model) {
  if (prompt.is_array()) return read_tokens(path, prompt, model.config().vocabulary);
  if (!prompt.is_string()) refuse_field(path, "a text or a list of token ids", prompt);
  try {
    return encode_prompt(model.tokenizer(), prompt.get_ref<const std::string&>(),
                         model.config().context);
  } catch (const Error& error) {
    throw ApiError(400, path, path + ": " + error.what(), "context_length_exceeded");
  }
}

/// One text, one list of token ids, or a list of either.
std::vector<std::vector<TokenId>> read_prompts(const Fields& fields, const ServedModel& model,
                                               int most) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) fields.refuse("prompt", "a text, a list of token ids, or a list of these");
  const bool is_list = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  if (!is_list) return {prompt_tokens("prompt", *prompt, model)};
  if (prompt->size() > static_cast<std::size_t>(most)) {
    fields.refuse("prompt", fmt::format("at most {} prompts, times n", most));
  }
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < prompt->size(); ++i) {
    prompts.push_back(prompt_tokens(fmt::format("prompt[{}]", i), (*prompt)[i], model));
  }
  return prompts;
}

}  // namespace

AnswerFields read_common(const GenerateInput& input, const Fields& fields,
                         const FieldNames& names) {
  AnswerFields answer =
      read_answer_fields(fields, *input.limits, input.model->config().vocabulary, names);
  answer.returns_metrics |= input.returns_metrics;
  return answer;
}

void refuse_constraints(const Fields& fields) {
  for (const char* name : {"tools", "functions"}) {
    const Json* tools = fields.array(name, 1024);
    if (tools && !tools->empty()) fields.refuse(name, "none: tool calls are not served");
  }
  if (const auto format = fields.object("response_format")) {
    if (format->text("type").value_or("") != "text") format->refuse("type", "\"text\"");
  }
  for (const char* name : {"structured_outputs", "grammar"}) {
    if (fields.find(name)) fields.refuse(name, "none: constraints are not served");
  }
}

void check_prompt_length(const std::string& param, std::size_t tokens, const ServedModel& model,
                         const RequestLimits& limits) {
  long most = std::min<long>(model.config().context, model.host->cache_positions()) - 1;
  if (limits.prompt_tokens > 0) most = std::min<long>(most, limits.prompt_tokens);
  if (tokens == 0) {
    throw ApiError(400, param, param + ": expected at least one token, found none",
                   "invalid_value");
  }
  if (static_cast<long>(tokens) > most) {
    throw ApiError(400, param,
                   fmt::format("{}: expected at most {} tokens, found {}", param, most, tokens),
                   "context_length_exceeded");
  }
}

std::vector<TokenId> chat_tokens(const ServedModel& model, std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options, const RequestLimits& limits) {
  if (!model.chat) {
    throw ApiError(400, "messages",
                   "messages: expected a model with a chat template, found one without: use "
                   "/v1/completions",
                   "no_chat_template");
  }
  ChatPrompt prompt;
  try {
    prompt = encode_chat(model.tokenizer(), *model.chat, messages, options, model.config().context);
  } catch (const Error& error) {
    throw ApiError(400, "messages", fmt::format("messages: {}", error.what()), "invalid_value");
  }
  check_prompt_length("messages", prompt.tokens.size(), model, limits);
  return std::move(prompt.tokens);
}

void start_answer(const GenerateInput& input, AnswerHead head,
                  std::unique_ptr<AnswerFormat> (*make_format)(AnswerHead)) {
  std::vector<Job> jobs = make_jobs(head);
  const bool streams = head.fields.streams, traces = head.fields.traces;
  Answering::start({input.exchange, input.model, make_format(std::move(head)), streams, traces,
                    input.limits->unread_bytes},
                   std::move(jobs));
}

void serve_chat(const GenerateInput& input) {
  const Fields fields(*input.body);
  refuse_constraints(fields);
  AnswerFields answer = read_common(input, fields);
  const int top =
      static_cast<int>(fields.integer("top_logprobs", 0, input.limits->top_logprobs).value_or(0));
  if (fields.flag("logprobs").value_or(false)) {
    answer.logprobs = top;
  } else if (top > 0) {
    fields.refuse("top_logprobs", "logprobs to be true beside it");
  }
  const std::vector<ChatMessage> messages = read_messages(fields, *input.limits);
  const ChatRenderOptions options = read_render_options(fields);
  AnswerHead head = make_head("chatcmpl-", *input.model, std::move(answer));
  head.prompts.push_back(chat_tokens(*input.model, messages, options, *input.limits));
  start_answer(input, std::move(head), make_chat_format);
}

void serve_completion(const GenerateInput& input) {
  const Fields fields(*input.body);
  refuse_constraints(fields);
  AnswerFields answer = read_common(input, fields);
  if (fields.flag("echo").value_or(false)) fields.refuse("echo", "false");
  if (!fields.text("suffix").value_or("").empty()) fields.refuse("suffix", "none");
  if (const auto best = fields.integer("best_of", 1, input.limits->choices)) {
    if (*best != answer.choices) fields.refuse("best_of", "the same as n");
  }
  if (const auto top = fields.integer("logprobs", 0, input.limits->top_logprobs)) {
    answer.logprobs = static_cast<int>(*top);
  }
  if (!fields.find("max_tokens"))
    answer.max_new = std::max(16, answer.min_new);  // as OpenAI has it
  auto prompts = read_prompts(fields, *input.model, input.limits->choices / answer.choices);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string param = prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    check_prompt_length(param, prompts[i].size(), *input.model, *input.limits);
  }
  AnswerHead head = make_head("cmpl-", *input.model, std::move(answer));
  head.prompts = std::move(prompts);
  start_answer(input, std::move(head), make_completion_format);
}

}  // namespace talon
