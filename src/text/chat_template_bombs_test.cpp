#include <gtest/gtest.h>

#include "core/error.h"
#include "text/chat_template.h"

// Templates of strangers that ask for more stack, memory or time than there is.
namespace talon::chat_template_bombs_test {
namespace {

std::string repeat(std::string_view text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

std::string error_of(const std::string& source) {
  try {
    ChatTemplate(source, "", "").render(std::vector<ChatMessage>{{"user", "hi"}});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string sum_of(std::string_view first, std::string_view step, int times) {
  return fmt::format("{{{{ {}{} }}}}", first, repeat(step, times));
}

TEST(ChatTemplateBombs, ExpressionsTooLongForACompilersStackAreRefused) {
  const std::string longs[] = {
      sum_of("1", "+1", 40000),
      sum_of("1", "|string", 60000),
      sum_of("a", ".b", 60000),
      sum_of("a", "()", 60000),
      sum_of("a", "[0]", 60000),
      sum_of("1", "~1", 100000),
      sum_of("1", " and 1", 30000),
      sum_of("1", " in 1", 30000),
      sum_of("1", "==1", 60000),
      sum_of("1", "**1", 60000),
      sum_of("1", " is odd", 30000),
      "{{ " + repeat("not ", 40000) + "1 }}",
      "{{ " + repeat("-", 200000) + "1 }}",
      "{{ " + repeat("1 if 1 else ", 20000) + "1 }}",
      "{{ " + repeat("[", 100000) + repeat("]", 100000) + " }}",
      "{% if " + repeat("not ", 40000) + "1 %}{% endif %}",
      "{% set a = 1" + repeat("+1", 40000) + " %}",
      "{{ 'it\\'s {{' " + repeat("+1", 40000) + " }}",
      repeat("{{ 1 }}", 100000),
      "{% raw %}{#{% endraw %}" + sum_of("1", "+1", 40000),
      "{% raw %}{% endraw x %}'{%- endraw -%}" + sum_of("1", "+1", 40000),
      "{#}#}" + sum_of("1", "+1", 40000),
  };
  for (const std::string& source : longs) {
    EXPECT_NE(error_of(source).find("compile chat template: "), std::string::npos)
        << source.substr(0, 40) << ": " << error_of(source);
  }
}

TEST(ChatTemplateBombs, WhatLimitsAllowFitsTheStack) {
  // As deep as sources may be; the outcome may be text or an error.
  for (const std::string& source : {
           sum_of("1", "+1", 4900),
           sum_of("1", "|string", 4900),
           sum_of("a", ".b", 4900),
           "{{ " + repeat("-", 9900) + "1 }}",
           "{{ " + repeat("not ", 9900) + "1 }}",
           "{{ " + repeat("1 if 1 else ", 2400) + "1 }}",
           "{% if 0 %}" + repeat("{% elif 0 %}", 20000) + "{% endif %}",
           repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000),
           repeat("{% for a in [1] %}", 5000) + repeat("{% endfor %}", 5000),
           std::string("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
           std::string("{% block a %}{{ self.a() }}{% endblock %}"),
           std::string("{% include 'chat template' %}"),
           std::string("{% for a in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"),
           std::string("{% set x = [1] %}{% for i in range(60000) %}{% set x = x|chain(x) %}"
                       "{% endfor %}{{ x }}"),
           std::string("{% set ns = namespace(x=[1]) %}{% for i in range(20000) %}"
                       "{% set ns.x = ns.x|chain([1]) %}{% endfor %}{{ ns.x }}"),
           std::string("{% set ns = namespace(x=[1]) %}{% for i in range(20000) %}"
                       "{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x }}"),
           std::string(
               "{% macro f() %}{{ ns }}{% endmacro %}{% set ns = namespace(f=f) %}{{ ns }}"),
           std::string("{{ debug() }}"),
       }) {
    error_of(source);
  }
}

TEST(ChatTemplateBombs, NoValueHoldsItself) {
  const std::string cycles[] = {
      "{% set ns = namespace(c=0) %}{% set ns.c = cycler([ns]) %}{{ ns }}",
      "{% set ns = namespace(c=0) %}{% set ns.c = joiner(ns) %}{{ ns }}",
      "{% set ns = namespace(c=0) %}{% set ns.c = [joiner([ns])] %}{{ ns }}",
      "{% set ns = namespace(c=0) %}{% macro f() %}{{ ns }}{% endmacro %}{% set ns.c = f %}{{ ns "
      "}}",
      "{% set ns = namespace(c=0) %}{% for x in [ns] %}{% set ns.c = loop %}{% endfor %}{{ ns }}",
  };
  for (const std::string& source : cycles) EXPECT_NE(error_of(source), "no error") << source;
  // Wherever a set may seem to be no tag, to end elsewhere, or to call another function.
  const std::string set = "{% set ns.c = ns %}";
  const std::string hidden[] = {
      "{% raw %}{% endraw x %}{#{% endraw %}" + set,
      "{%- raw -%}{% endraw()%}{{ '{%- endraw -%}" + set,
      "{#}{% raw %}#}" + set + "{# {% endraw %} #}",
      "{{ {'a': {}} ~ '{#' }}" + set,
      "{% set ns.c | default(ns, true) %}{% endset %}",
      "{% set ns.c = 0) or (ns %}",
      "{% set __keep_in_namespace = namespace %}{% set ns.c = {'a': ns} %}",
      "{% with __keep_in_namespace = namespace %}{% set ns.c = {'a': ns} %}{% endwith %}",
  };
  for (const std::string& source : hidden) {
    EXPECT_NE(error_of("{% set ns = namespace(c=0) %}" + source + "{{ ns }}"), "no error")
        << source;
  }
  EXPECT_EQ(error_of("{% set c = cycler(['a', 'b']) %}{{ c.next() }}{% set j = joiner('|') %}"
                     "{{ j() }}{{ j() }}"),
            "no error");
}

TEST(ChatTemplateBombs, MemoryIsBounded) {
  const std::string x60m = "{% set s = 'a' * 60000000 %}";
  const std::string bombs[] = {
      "{{ 'a\\n'|indent(100000000000) }}",
      "{{ 'a'|center(100000000000) }}",
      "{{ [1]|batch(100000000000)|list }}",
      "{{ [1]|slice(100000000000)|list }}",
      "{{ '%100000000000d' % 1 }}",
      "{{ 'a' * 100000000000 }}",
      "{{ [1] * 100000000000 }}",
      "{{ ('a' * 1000000000)|length }}",
      x60m + "{{ s|replace('a', '" + std::string(64, 'a') + "')|length }}",
      x60m + "{{ s|list|length }}",
      x60m + "{{ s.split('')|length }}",
      x60m + "{{ range(100)|join(s)|length }}",
      x60m + "{{ [" + repeat("s,", 100) + "]|string|length }}",
      x60m + "{{ [" + repeat("s,", 100) + "]|tojson|length }}",
      x60m + "{% filter upper %}" + repeat("{{ s }}", 100) + "{% endfilter %}",
      "{% set a %}{% for i in range(100000) %}" + repeat("x", 50000) +
          "{% endfor %}{% endset %}{{ a|length }}",
      "{% macro f(s) %}{{ f(s ~ s) }}{% endmacro %}{{ f('aaaaaaaaaaaaaaaa') }}",
  };
  for (const std::string& source : bombs) {
    EXPECT_NE(error_of(source), "no error") << source.substr(0, 80);
  }
}

TEST(ChatTemplateBombs, TimeIsBounded) {
  const std::string x60m = "{% set s = 'a' * 60000000 %}";
  const std::string slow[] = {
      "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% endfor %}x",
      "{% set ns = namespace(a={'b': 1}) %}{% for i in range(60) %}"
      "{% set ns.a = {'b': ns.a, 'c': ns.a} %}{% endfor %}x",
      "{% set ns = namespace(a=[1]) %}{% for i in range(100000) %}{% set ns.a = ns.a + [1] %}"
      "{% endfor %}x",
      "{% for i in range(100000) %}" + repeat("x", 10000) + "{% endfor %}",
      x60m + "{% for i in range(100000) %}{% if s|upper == 'x' %}y{% endif %}{% endfor %}",
      x60m + "{% for i in range(100000) %}{% if 'b' in s %}y{% endif %}{% endfor %}",
      x60m +
          "{% macro f(n) %}{% if 'b' in s %}{% endif %}{% endmacro %}{% for i in range(100000) %}"
          "{{ f(1) }}{% endfor %}",
  };
  for (const std::string& source : slow) {
    EXPECT_NE(error_of(source), "no error") << source.substr(0, 80);
  }
  // Later ones are served all the same.
  EXPECT_EQ(error_of("{{ messages[0].content }}"), "no error");
}

}  // namespace
}  // namespace talon::chat_template_bombs_test
