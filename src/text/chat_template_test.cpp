#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::chat_template_test {
namespace {

const std::vector<ChatMessage> kMessages = {
    {"user", "Hi"}, {"assistant", "Hello"}, {"user", "Bye"}};

std::string render(std::string_view source, const Json& variables = Json::object(),
                   const std::vector<ChatMessage>& messages = kMessages) {
  return ChatTemplate(source, "<s>", "</s>")
      .render(messages, {.add_generation_prompt = true, .variables = variables});
}

std::string error_of(std::string_view source) {
  try {
    render(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, BlocksAreTrimmedAsHuggingFaceTrimsThem) {
  EXPECT_EQ(
      render(
          "{% for m in messages %}\n  {% if true %}\n{{ m.role }}\n  {% endif %}\n{% endfor %}\n"),
      "user\nassistant\nuser\n");
  EXPECT_EQ(render("a\n  {%- if true -%}  b  {%- endif %}\nc"), "abc");
}

TEST(ChatTemplate, VariablesAreThoseOfHuggingFace) {
  EXPECT_EQ(render("{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools }}"),
            "<s></s>TrueNone");
  EXPECT_EQ(render("{{ missing }}{{ missing is defined }}{% for x in missing %}x{% endfor %}"),
            "False");
  EXPECT_EQ(render("{{ enable_thinking }}", {{"enable_thinking", false}}), "False");
}

TEST(ChatTemplate, ALastMessageIsContinuedBehindItsWords) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto continued = [&](const std::string& words) {
    return ChatTemplate(source, "", "")
        .render(std::vector<ChatMessage>{{"user", words}, {"assistant", words}},
                {.continues_last = true});
  };
  EXPECT_EQ(continued("Well, "), "<user>Well,</><assistant>Well, ");
  EXPECT_EQ(continued("\n"), "<user></><assistant>");
  EXPECT_EQ(continued(""), "<user></><assistant>");
  EXPECT_THROW(
      ChatTemplate("{{ messages[0].content }}", "", "").render(kMessages, {.continues_last = true}),
      Error);
}

TEST(ChatTemplate, PythonMethodsSlicesAndLoopControlsWork) {
  EXPECT_EQ(render("{{ ' x '.strip() }}{{ 'a-b'.split('-')[-1] }}{{ 'abc'.startswith('a') }}"
                   "{{ 'Title'.upper() }}{{ 'x\n'.rstrip('\n') }}"),
            "xbTrueTITLEx");
  EXPECT_EQ(render("{% for m in messages[::-1] %}{{ m.content }} {% endfor %}"), "Bye Hello Hi ");
  EXPECT_EQ(render("{% for m in messages[1:] %}{% if loop.first %}{% continue %}{% endif %}"
                   "{{ loop.index0 }}{{ m['role'] }}{% break %}{% endfor %}"),
            "1user");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
                   "{% endfor %}{{ ns.n }}"),
            "3");
  EXPECT_EQ(render("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"),
            "role=user;content=Hi;");
  EXPECT_EQ(render("{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('ab') }}"), "abab");
}

TEST(ChatTemplate, TestsCountAsInPython) {
  EXPECT_EQ(render("{{ nothing is iterable }}{{ nothing is sequence }}{{ 1 is sequence }}"),
            "TrueTrueFalse");
  EXPECT_EQ(render("{{ 'a' is sequence }}{{ 'a' is string }}{{ messages[0] is mapping }}"
                   "{{ messages is iterable }}{{ 1 is iterable }}{{ none is none }}"),
            "TrueTrueTrueTrueFalseTrue");
}

TEST(ChatTemplate, ToJsonWritesWhatPythonsJsonDumpsWrites) {
  const Json value = {{"a", {1, 2.5, nullptr}}, {"b", "<é\"\n>"}, {"c", Json::object()}};
  EXPECT_EQ(render("{{ v | tojson }}", {{"v", value}}),
            R"({"a": [1, 2.5, null], "b": "<é\"\n>", "c": {}})");
  EXPECT_EQ(render("{{ v | tojson(indent=2) }}", {{"v", {{"a", {1}}, {"e", Json::array()}}}}),
            "{\n  \"a\": [\n    1\n  ],\n  \"e\": []\n}");
  EXPECT_EQ(render("{{ '🙂é' | tojson(ensure_ascii=true) }}"), R"("\ud83d\ude42\u00e9")");
  EXPECT_EQ(render("{{ messages[0] | tojson }}"), R"({"role": "user", "content": "Hi"})");
}

TEST(ChatTemplate, ValuesPrintAsInPython) {
  EXPECT_EQ(render("{{ ['a', 1, true, none] }}{{ {'k': \"it's\"} }}{{ true | string }}"),
            "['a', 1, True, None]{'k': \"it's\"}True");
}

TEST(ChatTemplate, NumbersAreWrittenAsPythonWritesThem) {
  const Json numbers = {{"x", {1e-7, 0.0001, 1e16, -2.5e20, 1.0, 123456789.0, 1.5e-9, 1e300}}};
  const std::string written = "[1e-07, 0.0001, 1e+16, -2.5e+20, 1.0, 123456789.0, 1.5e-09, 1e+300]";
  EXPECT_EQ(render("{{ x }}", numbers), written);
  EXPECT_EQ(render("{{ x | tojson }}", numbers), written);
  EXPECT_EQ(render("{{ x[0] }} {{ x[0] | string }}", numbers), "1e-07 1e-07");
}

TEST(ChatTemplate, ListsAndDictionariesBecomeTextsAsInPython) {
  const Json variables = {{"type", {"string", "null"}}, {"d", {{"k", {true, nullptr, 1e-7}}}}};
  EXPECT_EQ(render("{{ '<' ~ type | upper ~ '>' }}", variables), "<['STRING', 'NULL']>");
  EXPECT_EQ(render("{{ type | trim }}{{ '' ~ d }}", variables),
            "['string', 'null']{'k': [True, None, 1e-07]}");
  EXPECT_EQ(
      render("{{ d is mapping }}{{ d.k is sequence }}{{ d.items() | list }}{{ type + [1] }}"
             "{{ type == ['string', 'null'] }}{{ d.get('x', 2) }}{{ 'k' in d }}{{ type[-1:] }}",
             variables),
      "TrueTrue[['k', [True, None, 1e-07]]]['string', 'null', 1]True2True['null']");
}

TEST(ChatTemplate, PartsAndSumsOfListsAreLists) {
  const Json variables = {{"x", {"a", 1}}};
  EXPECT_EQ(
      render("{{ x[1:] }}{{ x + ['b'] }}{{ x[:1] is sequence }}{{ (x + x) | length }}", variables),
      "[1]['a', 1, 'b']True4");
}

TEST(ChatTemplate, WhatIsNotThereHasNoLength) {
  EXPECT_EQ(render("{{ missing | length }}{{ messages[0].tool_calls | count }}"), "00");
}

TEST(ChatTemplate, LinesAreIndentedAsJinjaIndentsThem) {
  EXPECT_EQ(render("{{ 'a\n\nb\n' | indent }}|"), "a\n\n    b\n|");
  EXPECT_EQ(render("{{ 'a\nb' | indent(2, true) }}"), "  a\n  b");
  EXPECT_EQ(render("{{ '{\n' | indent(width=4, first=true, blank=true) }}|"), "    {\n    |");
}

TEST(ChatTemplate, GenerationBlocksAreTransparent) {
  EXPECT_EQ(
      render("{%- for m in messages -%}\n{% generation %}{{ m.content }}{%- endgeneration -%}\n "
             "{%- endfor -%}"),
      "HiHelloBye");
}

TEST(ChatTemplate, TheTimeIsWrittenAsAskedFor) {
  const std::string year = render("{{ strftime_now('%Y') }}");
  EXPECT_EQ(year.size(), 4U);
  EXPECT_GE(std::stoi(year), 2024);
}

TEST(ChatTemplate, WhatATemplateRaisesIsTheError) {
  EXPECT_EQ(error_of("{{ raise_exception('roles must alternate') }}"),
            "render chat template: roles must alternate");
}

TEST(ChatTemplate, SyntaxErrorsNameTheLine) {
  EXPECT_NE(error_of("a\nb\n{% if %}").find(":3)"), std::string::npos)
      << error_of("a\nb\n{% if %}");
  EXPECT_NE(error_of("{% for x in y %}").find("compile chat template"), std::string::npos);
  EXPECT_NE(error_of("{{ missing.a.b }}").find("undefined"), std::string::npos);
}

TEST(ChatTemplate, ATemplateThatNeverEndsIsStopped) {
  // By its fuel, or by its time where a slow machine spends that first.
  const std::string problem = error_of(
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}"
      "{% endfor %}{% endfor %}{% endfor %}");
  EXPECT_TRUE(problem.find("fuel") != std::string::npos ||
              problem.find("takes more than") != std::string::npos)
      << problem;
  EXPECT_NE(error_of("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"), "no error");
}

TEST(ChatTemplate, ANamespaceCannotHoldItself) {
  const std::string_view cycles[] = {
      "{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}",
      "{% set ns = namespace() %}{%- set ns.self=[{'a': ns}] -%}{{ ns | tojson }}",
      "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a ~ b }}",
      "{% set a = namespace() %}{% set a.x, a.y = 1, a %}{{ a }}",
  };
  for (const std::string_view source : cycles) {
    EXPECT_NE(error_of(source).find("namespace"), std::string::npos) << error_of(source);
  }
}

TEST(ChatTemplate, ValuesThatGrowWithoutEndAreRefused) {
  EXPECT_NE(error_of("{% set ns = namespace(a=[]) %}{% for i in range(999) %}"
                     "{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}")
                .find("levels"),
            std::string::npos);
  EXPECT_NE(error_of("{% set ns = namespace(a='xxxxxxxx') %}{% for i in range(60) %}"
                     "{% set ns.a = ns.a ~ ns.a %}{% endfor %}")
                .find("MiB"),
            std::string::npos);
  EXPECT_NE(error_of("{% set x = 'x' * 1000000 %}{% for i in range(9999) %}{{ x }}{% endfor %}")
                .find("64 MiB"),
            std::string::npos);
}

TEST(ChatTemplate, AssignmentsKeepTheirMeaning) {
  EXPECT_EQ(
      render("{% set a, b = 1, '=%}' %}{%- set c = {'k': {'l': [a]}} -%} {{ a }}{{ b }}{{ c.k }}"
             "{% set d %}block{% endset %}{{ d }}{% set e = missing %}{{ e is defined }}"
             "{% set f = a == 1 %}{{ f }}{% set g | upper %}x=y{% endset %}{{ g }}"),
      "1=%}{'l': [1]}blockFalseTrueX=Y");
  EXPECT_EQ(render("{% raw %}{% set a = 1 %}{% endraw %}{# {% set it's #}{{ '{% set b = 2 %}' }}"),
            "{% set a = 1 %}{% set b = 2 %}");
}

TEST(ChatTemplate, IllFormedTextInMessagesIsReplaced) {
  EXPECT_EQ(render("{{ messages[0].content }}", Json::object(), {{"user", "a\xFFz\xC3"}}),
            "a\uFFFDz\uFFFD");
}

TEST(ChatTemplate, SpecialCharactersAreNotEscaped) {
  EXPECT_EQ(
      render("{{ messages[0].content }}", Json::object(), {{"user", "<b> & 'x' \"y\" {{ z }}"}}),
      "<b> & 'x' \"y\" {{ z }}");
}

}  // namespace
}  // namespace talon::chat_template_test
