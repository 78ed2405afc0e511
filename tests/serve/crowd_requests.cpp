#include "crowd_requests.h"

#include <array>
#include <utility>

namespace talon::test {
namespace {

constexpr std::array<const char*, 5> kPrompts = {"Once upon a time", "Tom", "a a a a a a a a",
                                                 "The big dog", "Lily saw a cat. Lily saw a"};
constexpr std::array<double, 4> kTemperatures = {0, 0.7, 1, 1.5};

const Json kAnimal = Json::parse(
    R"({"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}, "says": {"type":
        "string", "maxLength": 20}}, "required": ["kind", "says"]})");
const Json kTool = Json::parse(
    R"({"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer",
        "minimum": 1, "maximum": 9}}, "required": ["city", "days"],
        "additionalProperties": false}}})");
constexpr const char* kSentence = R"(start: word (" " word){2,6} "."
word: /[a-z]{1,8}/)";

/// Until the context is full.
bool is_long(int i) { return i % 25 == 24 && i % 9 != 2 && i % 18 != 13; }

void set_sampler(int i, Json& body) {
  body["temperature"] = kTemperatures[static_cast<std::size_t>(i) % kTemperatures.size()];
  body["seed"] = i;
  body["max_tokens"] = is_long(i) ? 5000 : 1 + (i * 37) % 160;
  if (is_long(i)) body["ignore_eos"] = true;
  if (i % 3 == 1) body["top_p"] = 0.9;
  if (i % 4 == 2) body["top_k"] = 20;
  if (i % 5 == 2) body["min_p"] = 0.05;
  if (i % 5 == 3) body["repetition_penalty"] = 1.2;
  if (i % 5 == 4) body["presence_penalty"] = 0.5;
  if (i % 7 == 4) body["logit_bias"] = {{"10", 5}, {"261", -100}};
  if (i % 6 == 5 && !is_long(i)) body["stop"] = {"the", "."};
  if (i % 8 == 3) body["min_tokens"] = 1;
}

/// Of completions and chats alike.
void set_grammar(int i, Json& body) {
  if (i % 9 == 2) body["structured_outputs"] = {{"regex", "[a-z ]{5,40}\\."}};
  if (i % 9 == 7) body["json_schema"] = kAnimal;
  if (i % 18 == 4) body["structured_outputs"] = {{"grammar", kSentence}};
  if (i % 18 == 13) body["structured_outputs"] = {{"choice", {"a cat", "a dog", "a big dog"}}};
}

Json completion(int i) {
  Json body = {{"prompt", kPrompts[static_cast<std::size_t>(i) % kPrompts.size()]}};
  set_sampler(i, body);
  set_grammar(i, body);
  if (i % 11 == 6) body["n"] = 2;
  if (i % 10 == 1) body["logprobs"] = 2;
  return body;
}

Json chat(int i) {
  Json body = {
      {"messages",
       {{{"role", "user"}, {"content", kPrompts[static_cast<std::size_t>(i) % kPrompts.size()]}}}}};
  set_sampler(i, body);
  if (i % 2 == 0) {
    body["tools"] = {kTool};
    body["tool_choice"] = i % 4 == 0 ? "required" : "auto";
    body["parallel_tool_calls"] = i % 8 == 0;
  } else {
    set_grammar(i, body);
    body["logprobs"] = true;
    body["top_logprobs"] = 2;
  }
  return body;
}

struct Choice {
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;
  Json finish;
  Json logprobs = Json::array();
};

void add_text(const Json& part, const char* name, Choice& to) {
  if (part.contains(name) && part[name].is_string()) to.text += part[name].get<std::string>();
}

void add_calls(const Json& part, Choice& to) {
  if (!part.contains("tool_calls")) return;
  std::size_t place = 0;
  for (const Json& call : part["tool_calls"]) {
    const std::size_t index = call.value("index", place++);
    if (to.calls.size() <= index) to.calls.resize(index + 1);
    to.calls[index].first += call["function"].value("name", "");
    to.calls[index].second += call["function"].value("arguments", "");
  }
}

/// `choice`: whole, or the part of it that an event brings.
void add(const Json& choice, Choice& to) {
  add_text(choice, "text", to);
  for (const char* name : {"message", "delta"}) {
    if (!choice.contains(name)) continue;
    add_text(choice[name], "content", to);
    add_calls(choice[name], to);
  }
  if (!choice["finish_reason"].is_null()) to.finish = choice["finish_reason"];
  if (!choice.contains("logprobs") || choice["logprobs"].is_null()) return;
  const Json& logprobs = choice["logprobs"];
  for (const Json& one : logprobs.value("token_logprobs", Json::array()))
    to.logprobs.push_back(one);
  for (const Json& one : logprobs.value("content", Json::array())) {
    to.logprobs.push_back(one["logprob"]);
  }
}

}  // namespace

std::vector<CrowdRequest> crowd_requests(int count) {
  std::vector<CrowdRequest> requests;
  for (int i = 0; i < count; ++i) {
    const bool is_chat = i % 4 == 1 || i % 12 == 4;
    requests.push_back({.path = is_chat ? "/v1/chat/completions" : "/v1/completions",
                        .body = is_chat ? chat(i) : completion(i),
                        .streams = i % 2 == 0,
                        .leaves = i % 9 == 8,
                        .is_slow = i % 10 == 4});
  }
  return requests;
}

Json said(const Reply& reply, bool streams) {
  if (reply.status != 200) return "refused: " + reply.body;
  std::vector<Choice> choices;
  for (const Json& part : streams ? reply.events() : std::vector<Json>{reply.json()}) {
    for (const Json& choice : part["choices"]) {
      const std::size_t index = choice["index"];
      if (choices.size() <= index) choices.resize(index + 1);
      add(choice, choices[index]);
    }
  }
  Json all = Json::array();
  for (Choice& choice : choices) {
    all.push_back({{"text", std::move(choice.text)},
                   {"calls", std::move(choice.calls)},
                   {"finish", std::move(choice.finish)},
                   {"logprobs", std::move(choice.logprobs)}});
  }
  return all;
}

}  // namespace talon::test
