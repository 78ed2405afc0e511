#include "serve/tools/python_calls.h"

#include <gtest/gtest.h>

#include "serve/tools/answer_style.h"

namespace talon::python_calls_test {
namespace {

using Kind = AnswerPart::Kind;

/// "NAME ARGUMENTS; ..."
std::string read(std::string_view text) {
  std::string found;
  for (const auto& [name, arguments] : read_python_calls(text)) {
    found += name + " " + arguments + "; ";
  }
  return found;
}

TEST(PythonCalls, HaveLiteralsOfPythonAndJson) {
  EXPECT_EQ(read(R"(get(city="Rome", days=2, far=True, at=None))"),
            R"(get {"city":"Rome","days":2,"far":true,"at":null}; )");
  EXPECT_EQ(read(R"(get(city='it\'s "x"', far=false, at=null, x=-1.5e3))"),
            R"(get {"city":"it's \"x\"","far":false,"at":null,"x":-1500.0}; )");
  EXPECT_EQ(read(R"(set(list=[1, 'a', (2, 3,)], map={"k": {'n': []}}))"),
            R"(set {"list":[1,"a",[2,3]],"map":{"k":{"n":[]}}}; )");
  EXPECT_EQ(read("say(text=\"a\\n\\x41\\u00e9, (b)]\")"), "say {\"text\":\"a\\nA\u00e9, (b)]\"}; ");
  EXPECT_EQ(read("say(text='two\nlines')"), "say {\"text\":\"two\\nlines\"}; ");
}

TEST(PythonCalls, StandOnLinesOrInAList) {
  const std::string both = R"(a {"x":1}; b.c {}; )";
  EXPECT_EQ(read("a(x=1)\nb.c()"), both);
  EXPECT_EQ(read(" [a(x = 1), b.c()]\n"), both);
}

TEST(PythonCalls, AreAllOrNone) {
  for (const char* text :
       {"",       "[]",        "a",           "a(",           "a(1)",    "a(x)",   "a(x=)",
        "a(x=y)", "a(x=1",     "a(x=1 y=2)",  "(x=1)",        "a(x='b)", "a() so", "[a()",
        "[a(), ", "[a()] b()", "a(x={1: 2})", "a(x=\"\\q\")", "a(x=[1)", "a(x=01)"}) {
    EXPECT_EQ(read(text), "") << text;
  }
  EXPECT_EQ(read("a(x=" + std::string(100'000, '[')), "");
}

TEST(PythonCalls, AreReadFromWhatOlmoWrites) {
  const std::string text =
      "I look.\n<function_calls>get(city=\"Oslo\")\nstop()</function_calls>\nSo. "
      "<function_calls>get(</function_calls>";
  const AnswerReader::Parts expected = {
      {Kind::content, "I look."},
      {Kind::call, "get"},
      {Kind::arguments, R"({"city":"Oslo"})"},
      {Kind::call, "stop"},
      {Kind::arguments, "{}"},
      {Kind::content, "So. <function_calls>get(</function_calls>"}};
  const AnswerStyle style = {.dialect = dialect_of("<functions> <function_calls>")};
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const auto reader = make_reader(style);
    AnswerReader::Parts parts;
    reader->read(text.substr(0, at), parts);
    reader->read(text.substr(at), parts);
    reader->finish(parts);
    EXPECT_EQ(joined(parts).content, joined(expected).content) << at;
    ASSERT_EQ(joined(parts).calls.size(), 2U) << at;
    EXPECT_EQ(joined(parts).calls[0].arguments, R"({"city":"Oslo"})") << at;
    EXPECT_EQ(joined(parts).calls[1].name, "stop") << at;
  }
}

}  // namespace
}  // namespace talon::python_calls_test
