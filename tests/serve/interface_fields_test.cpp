#include <gtest/gtest.h>

#include "test_server.h"

// Each field of each interface, wrong in its type or its range.
namespace talon::test::interface_fields_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

struct WrongField {
  const char* change;  // merged into a request that would be answered
  const char* name;    // of what is refused
};

/// Requests in all of which one field is wrong.
void expect_refused(const char* path, const Json& good, std::span<const WrongField> wrongs) {
  EXPECT_EQ(server().post(path, good).status, 200) << good;
  for (const WrongField& wrong : wrongs) {
    Json body = good;
    const Json change = Json::parse(wrong.change);
    for (const auto& [name, value] : change.items()) body[name] = value;
    const Reply reply = server().post(path, body);
    EXPECT_EQ(reply.status, 400) << path << " " << wrong.change << " " << reply.body;
    const Json error = reply.json().value("error", Json::object());
    if (error.contains("param")) {
      EXPECT_EQ(error["param"], wrong.name) << wrong.change;
    }
    const std::string begin = std::string(wrong.name) + ": expected ";
    EXPECT_TRUE(error.value("message", "").starts_with(begin)) << wrong.change << " " << error;
  }
  EXPECT_TRUE(server().becomes_idle());
}

constexpr WrongField kOfChats[] = {
    {R"({"tools": "time"})", "tools"},
    {R"({"tools": {"name": "time"}})", "tools"},
    {R"({"tools": [5]})", "tools[0]"},
    {R"({"tools": [{"type": 5}]})", "tools[0].type"},
    {R"({"tools": [{"function": {"name": "a", "parameters": []}}]})",
     "tools[0].function.parameters"},
    {R"({"tools": [{"function": {"name": "a", "parameters": "x"}}]})",
     "tools[0].function.parameters"},
    {R"({"tools": [{"function": {"name": "a", "description": 5}}]})",
     "tools[0].function.description"},
    {R"({"tools": [{"function": {"name": "a", "strict": "yes"}}]})", "tools[0].function.strict"},
    {R"({"tools": [{"function": {"name": "a"}}], "tool_choice": 5})", "tool_choice"},
    {R"({"tools": [{"function": {"name": "a"}}], "tool_choice": {"type": 5}})", "tool_choice.type"},
    {R"({"tools": [{"function": {"name": "a"}}], "tool_choice": {"type": "function"}})",
     "tool_choice.function"},
    {R"({"messages": [{"role": "tool", "content": "x", "tool_call_id": 5}]})",
     "messages[0].tool_call_id"},
    {R"({"messages": [{"role": "assistant", "refusal": 5}]})", "messages[0].refusal"},
    {R"({"messages": [{"role": "assistant", "reasoning_content": 5}]})",
     "messages[0].reasoning_content"},
    {R"({"messages": [{"role": "assistant", "content": [{"type": "refusal"}]}]})",
     "messages[0].content[0].refusal"},
    {R"({"messages": [{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}]})",
     "messages[0].content[0].type"},
    {R"({"add_generation_prompt": "no"})", "add_generation_prompt"},
    {R"({"continue_final_message": 1})", "continue_final_message"},
    {R"({"return_token_ids": 1})", "return_token_ids"},
    {R"({"talon": {"trace": 1}})", "talon.trace"},
    {R"({"talon": {"metrics": "yes"}})", "talon.metrics"},
    {R"({"stop_token_ids": 5})", "stop_token_ids"},
    {R"({"min_tokens": -1})", "min_tokens"},
    {R"({"n_predict": 0})", "n_predict"},
    {R"({"repeat_last_n": -2})", "repeat_last_n"},
    {R"({"repeat_penalty": "1.1"})", "repeat_penalty"},
    {R"({"chat_template": 5})", "chat_template"},
    {R"({"documents": 5})", "documents"},
    {R"({"echo": "no"})", "echo"},
    {R"({"functions": 5})", "functions"},
    {R"({"messages": [{"role": "assistant", "content": "x", "function_call": {"name": "a"}}]})",
     "messages[0].function_call"},
    {R"({"messages": [{"role": "assistant", "audio": {"id": "a"}}]})", "messages[0].audio"},
    {R"({"add_special_tokens": true})", "add_special_tokens"},
    {R"({"web_search_options": {}})", "web_search_options"},
    {R"({"moderation": {"model": "m"}})", "moderation"},
    {R"({"reasoning_format": "none"})", "reasoning_format"},
    {R"({"verbosity": "most"})", "verbosity"},
    {R"({"n_cmpl": 2})", "n_cmpl"},
    {R"({"modalities": "text"})", "modalities"},
    {R"({"response_format": 5})", "response_format"},
    {R"({"response_format": {"type": 5}})", "response_format.type"},
    {R"({"structured_outputs": 5})", "structured_outputs"},
    {R"({"structured_outputs": {"choice": "a"}})", "structured_outputs.choice"},
    {R"({"json_schema": 5})", "json_schema"},
    {R"({"grammar": 5})", "grammar"},
};

TEST(WrongFields, OfChatsAreNamed) {
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 4}};
  expect_refused("/v1/chat/completions", chat, kOfChats);
}

TEST(WrongFields, OfCallsInAChatAreNamed) {
  const std::pair<const char*, const char*> calls[] = {
      {"5", ""},
      {R"({"function": {"name": "a"}})", ""},
      {"[5]", "[0]"},
      {"[{}]", "[0].function"},
      {R"([{"function": "a"}])", "[0].function"},
      {R"([{"function": {}}])", "[0].function.name"},
      {R"([{"function": {"name": 5}}])", "[0].function.name"},
      {R"([{"function": {"name": "a", "arguments": 5}}])", "[0].function.arguments"},
      {R"([{"function": {"name": "a"}}, {"id": 5, "function": {"name": "a"}}])", "[1].id"}};
  for (const auto& [written, place] : calls) {
    const Json user = {{"role", "user"}, {"content", "Hi"}};
    Json silent = {{"role", "assistant"}, {"content", nullptr}};
    silent["tool_calls"] = Json::parse(written);
    const Json body = {{"messages", {user, silent, user}}, {"max_tokens", 4}};
    const Reply reply = server().post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400) << written << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], std::string("messages[1].tool_calls") + place)
        << written;
  }
}

constexpr WrongField kOfResponses[] = {
    {R"({"model": 5})", "model"},
    {R"({"input": null})", "input"},
    {R"({"input": 5})", "input"},
    {R"({"input": []})", "input"},
    {R"({"input": [5]})", "input[0]"},
    {R"({"input": [{"type": 5}]})", "input[0].type"},
    {R"({"input": [{"role": "king", "content": "x"}]})", "input[0].role"},
    {R"({"input": [{"role": "user"}]})", "input[0].content"},
    {R"({"input": [{"role": "user", "content": 5}]})", "input[0].content"},
    {R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})",
     "input[0].content[0].type"},
    {R"({"input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]})",
     "input[0].content[0].text"},
    {R"({"input": [{"type": "function_call", "call_id": "c"}]})", "input[0].name"},
    {R"({"input": [{"type": "function_call", "name": "a", "call_id": 5}]})", "input[0].call_id"},
    {R"({"input": [{"type": "function_call", "name": "a", "arguments": {}}]})",
     "input[0].arguments"},
    {R"({"input": [{"type": "function_call_output", "call_id": "c"}]})", "input[0].output"},
    {R"({"input": [{"type": "function_call_output", "call_id": "c", "output": 5}]})",
     "input[0].output"},
    {R"({"input": [{"type": "reasoning", "summary": 5}]})", "input[0].summary"},
    {R"({"instructions": 5})", "instructions"},
    {R"({"max_output_tokens": "x"})", "max_output_tokens"},
    {R"({"max_output_tokens": 0})", "max_output_tokens"},
    {R"({"temperature": "hot"})", "temperature"},
    {R"({"top_p": 2})", "top_p"},
    {R"({"seed": "x"})", "seed"},
    {R"({"n": 2})", "n"},
    {R"({"user": 5})", "user"},
    {R"({"stream": 5})", "stream"},
    {R"({"stream_options": 5})", "stream_options"},
    {R"({"tools": 5})", "tools"},
    {R"({"tools": [5]})", "tools[0]"},
    {R"({"tools": [{"type": "function", "name": "a b"}]})", "tools[0].name"},
    {R"({"tools": [{"type": "function", "name": "a", "parameters": []}]})", "tools[0].parameters"},
    {R"({"tools": [{"type": "function", "name": "a", "strict": 1}]})", "tools[0].strict"},
    {R"({"tools": [{"type": "function", "name": "a"}], "tool_choice": 5})", "tool_choice"},
    {R"({"tools": [{"type": "function", "name": "a"}], "tool_choice": "b"})", "tool_choice"},
    {R"({"tools": [{"type": "function", "name": "a"}], "tool_choice": {"type": "x"}})",
     "tool_choice.type"},
    {R"({"tools": [{"type": "function", "name": "a"}],
         "tool_choice": {"type": "function", "name": 5}})",
     "tool_choice.name"},
    {R"({"tools": [{"type": "function", "name": "a"}],
         "tool_choice": {"type": "allowed_tools", "mode": "x"}})",
     "tool_choice.mode"},
    {R"({"tools": [{"type": "function", "name": "a"}],
         "tool_choice": {"type": "allowed_tools", "tools": 5}})",
     "tool_choice.tools"},
    {R"({"parallel_tool_calls": 5})", "parallel_tool_calls"},
    {R"({"reasoning": 5})", "reasoning"},
    {R"({"reasoning": {"effort": 5}})", "reasoning.effort"},
    {R"({"text": 5})", "text"},
    {R"({"text": {"format": 5}})", "text.format"},
    {R"({"text": {"format": {"type": "xml"}}})", "text.format.type"},
    {R"({"text": {"format": {"type": "json_schema", "schema": 5}}})", "text.format.schema"},
    {R"({"metadata": 5})", "metadata"},
    {R"({"truncation": "none"})", "truncation"},
    {R"({"include": 5})", "include"},
    {R"({"include": [5]})", "include[0]"},
    {R"({"top_logprobs": -1})", "top_logprobs"},
    {R"({"background": true})", "background"},
    {R"({"moderation": {"model": "m"}})", "moderation"},
    {R"({"text": {"verbosity": "most"}})", "text.verbosity"},
    {R"({"previous_response_id": "x"})", "previous_response_id"},
    {R"({"conversation": "x"})", "conversation"},
    {R"({"prompt": {"id": "x"}})", "prompt"},
};

TEST(WrongFields, OfResponsesAreNamed) {
  expect_refused("/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 4}}, kOfResponses);
}

constexpr WrongField kOfMessages[] = {
    {R"({"messages": null})", "messages"},
    {R"({"messages": 5})", "messages"},
    {R"({"messages": []})", "messages"},
    {R"({"messages": [5]})", "messages[0]"},
    {R"({"messages": [{"content": "x"}]})", "messages[0].role"},
    {R"({"messages": [{"role": "king", "content": "x"}]})", "messages[0].role"},
    {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
    {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
    {R"({"messages": [{"role": "user", "content": [5]}]})", "messages[0].content[0]"},
    {R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
     "messages[0].content[0].type"},
    {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
     "messages[0].content[0].text"},
    {R"({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": 5}]}]})",
     "messages[0].content[0].tool_use_id"},
    {R"({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": 5}]}]})",
     "messages[0].content[0].content"},
    {R"({"messages": [{"role": "user", "content": [{"type": "tool_result", "is_error": 1}]}]})",
     "messages[0].content[0].is_error"},
    {R"({"messages": [{"role": "assistant", "content": [5]}]})", "messages[0].content[0]"},
    {R"({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]})",
     "messages[0].content[0].name"},
    {R"({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "a",
                                                         "id": 5}]}]})",
     "messages[0].content[0].id"},
    {R"({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "a",
                                                         "input": "x"}]}]})",
     "messages[0].content[0].input"},
    {R"({"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": 5}]}]})",
     "messages[0].content[0].thinking"},
    {R"({"system": 5})", "system"},
    {R"({"system": [5]})", "system[0]"},
    {R"({"system": [{"type": "image"}]})", "system[0].type"},
    {R"({"max_tokens": null})", "max_tokens"},
    {R"({"max_tokens": "x"})", "max_tokens"},
    {R"({"max_tokens": 0})", "max_tokens"},
    {R"({"stop_sequences": 5})", "stop_sequences"},
    {R"({"stop_sequences": [""]})", "stop_sequences[0]"},
    {R"({"temperature": -1})", "temperature"},
    {R"({"top_k": "x"})", "top_k"},
    {R"({"top_p": 1.1})", "top_p"},
    {R"({"n": 2})", "n"},
    {R"({"stream": "yes"})", "stream"},
    {R"({"metadata": 5})", "metadata"},
    {R"({"metadata": {"user_id": 5}})", "metadata.user_id"},
    {R"({"thinking": 5})", "thinking"},
    {R"({"thinking": {"type": "hard"}})", "thinking.type"},
    {R"({"thinking": {"type": "enabled", "budget_tokens": "x"}})", "thinking.budget_tokens"},
    {R"({"thinking": {"type": "adaptive", "display": "loud"}})", "thinking.display"},
    {R"({"mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]})", "mcp_servers"},
    {R"({"container": "x"})", "container"},
    {R"({"output_config": 5})", "output_config"},
    {R"({"output_config": {"format": 5}})", "output_config.format"},
    {R"({"output_config": {"effort": "most"}})", "output_config.effort"},
    {R"({"output_config": {"format": {"type": 5}}})", "output_config.format.type"},
    {R"({"tools": 5})", "tools"},
    {R"({"tools": [5]})", "tools[0]"},
    {R"({"tools": [{}]})", "tools[0].name"},
    {R"({"tools": [{"name": "a b"}]})", "tools[0].name"},
    {R"({"tools": [{"name": "a", "type": 5}]})", "tools[0].type"},
    {R"({"tools": [{"name": "a", "type": "function"}]})", "tools[0].type"},
    {R"({"tools": [{"name": "a", "description": 5}]})", "tools[0].description"},
    {R"({"tools": [{"name": "a", "input_schema": 5}]})", "tools[0].input_schema"},
    {R"({"tools": [{"name": "a"}], "tool_choice": "auto"})", "tool_choice"},
    {R"({"tools": [{"name": "a"}], "tool_choice": {"type": 5}})", "tool_choice.type"},
    {R"({"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "b"}})",
     "tool_choice.name"},
    {R"({"tools": [{"name": "a"}],
         "tool_choice": {"type": "auto", "disable_parallel_tool_use": 5}})",
     "tool_choice.disable_parallel_tool_use"},
};

TEST(WrongFields, OfMessagesAreNamed) {
  const Json message = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 4}};
  expect_refused("/v1/messages", message, kOfMessages);
}

/// No field has an empty name.
TEST(WrongFields, WithoutANameAreNone) {
  for (const Json& value : {Json(1), Json("x")}) {
    const Json message = {{"", value},
                          {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                          {"max_tokens", 20},
                          {"temperature", 0}};
    const Json told = server().post("/v1/messages", message).json();
    EXPECT_EQ(told["usage"]["output_tokens"], 20) << told;
    const Json response = {{"", value}, {"input", "Hi"}, {"max_output_tokens", 20}};
    const Json answer = server().post("/v1/responses", response).json();
    EXPECT_EQ(answer["max_output_tokens"], 20) << answer;
  }
}

}  // namespace
}  // namespace talon::test::interface_fields_test
