#include <gtest/gtest.h>

#include <cstddef>

#include "c/handles.h"
#include "c/test_model.h"

namespace talon::text_test {
namespace {

constexpr const char* kPlain =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% if m.tool_call_id %}({{ m.tool_call_id "
    "}})"
    "{% endif %};{% endfor %}";
constexpr const char* kOfTools =
    "{{ tools | tojson }}|{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in "
    "m.tool_calls %}"
    "[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %};{% endfor %}";

/// A model with templates of chats, of which the second is for those with tools.
ModelHandle load_chatty() {
  ModelHandle model = load_test_model();
  model->shared->chat.emplace(kPlain, "", "");
  model->shared->tool_chat.emplace(kOfTools, "", "");
  return model;
}

const std::vector<talon_message> kMessages = {{"user", "Rain?"}, {"assistant", ""}};

struct Rendered {
  talon_status status;
  std::string text;  // or why there is none
};

Rendered render(const ModelHandle& model, const char* entries, const char* variables = nullptr) {
  talon_text_options options = talon_text_default();
  options.message_entries = entries;
  options.variables = variables;
  char* text = nullptr;
  std::size_t bytes = 0;
  const talon_status status =
      talon_chat_text(model.get(), kMessages.data(), kMessages.size(), &options, &text, &bytes);
  Rendered rendered{status, status == TALON_OK ? std::string(text, bytes) : talon_last_error()};
  talon_free(text);
  return rendered;
}

TEST(CText, FurtherEntriesOfMessagesAreTheTemplates) {
  const ModelHandle model = load_chatty();
  EXPECT_EQ(render(model, nullptr).text, "user:Rain?;assistant:;");
  EXPECT_EQ(render(model, R"([{"tool_call_id": "7"}, {}])").text, "user:Rain?(7);assistant:;");
}

TEST(CText, ChatsWithToolsHaveTheTemplateOfTools) {
  const ModelHandle model = load_chatty();
  EXPECT_EQ(render(model, R"([{}, {"tool_calls": [{"function": {"name": "sky", "arguments":
                             {"b": 1, "a": 2}}}]}])",
                   R"({"tools": []})")
                .text,
            R"([]|user:Rain?;assistant:[sky {"b": 1, "a": 2}];)");
  EXPECT_EQ(render(model, nullptr, R"({"tools": [{"z": 1, "y": 2}]})").text,
            R"([{"z": 1, "y": 2}]|user:Rain?;assistant:;)");
}

TEST(CText, NoToolsAreNone) {
  const ModelHandle model = load_chatty();
  for (const char* variables : {R"({"tools": []})", R"({"tools": null})"})
    EXPECT_EQ(render(model, nullptr, variables).text, "user:Rain?;assistant:;");
  EXPECT_EQ(render(model, R"([{}, {"tool_calls": []}])").text, "user:Rain?;assistant:;");
}

TEST(CText, WhatIsNoJsonOfItsKindIsNamed) {
  const ModelHandle model = load_chatty();
  const auto expect_refused = [](const Rendered& rendered, const char* words) {
    EXPECT_EQ(rendered.status, TALON_BAD_ARGUMENT) << rendered.text;
    EXPECT_NE(rendered.text.find(words), std::string::npos) << words << " in: " << rendered.text;
  };
  expect_refused(render(model, "[{}"), "options->message_entries");
  expect_refused(render(model, "{}"), "options->message_entries: expected a JSON array");
  expect_refused(render(model, "[{}]"), "options->message_entries: expected 2 objects");
  expect_refused(render(model, "[{}, 3]"), "options->message_entries[1]: expected an object");
  expect_refused(render(model, R"([{"role": "tool"}, {}])"), "options->message_entries[0].role");
  expect_refused(render(model, nullptr, "{"), "options->variables");
  expect_refused(render(model, nullptr, "[1]"), "options->variables: expected a JSON object");
  expect_refused(render(model, nullptr, R"({"messages": []})"), "options->variables.messages");
  expect_refused(render(model, nullptr, R"({"add_generation_prompt": true})"),
                 "options->variables.add_generation_prompt");
}

/// A program that was built against a header without `message_entries`.
TEST(CText, OptionsOfEarlierVersionsAreRead) {
  const ModelHandle model = load_chatty();
  constexpr std::size_t kEarlier = offsetof(talon_text_options, message_entries);
  talon_text_options options;
  options.message_entries = "no JSON";
  ASSERT_EQ(talon_text_options_init(&options, kEarlier), TALON_OK) << talon_last_error();
  EXPECT_EQ(options.size, kEarlier);
  char* text = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(
      talon_chat_text(model.get(), kMessages.data(), kMessages.size(), &options, &text, &bytes),
      TALON_OK)
      << talon_last_error();
  talon_free(text);
}

}  // namespace
}  // namespace talon::text_test
