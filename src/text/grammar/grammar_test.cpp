#include "text/grammar/grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <random>
#include <tuple>

#include "core/error.h"
#include "io/json_text.h"

namespace talon::grammar_test {
namespace {

using Kind = GrammarText::Kind;

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["old", "young"]}, "maxItems": 2}},
        "required": ["name", "age", "tags"], "additionalProperties": false})";
constexpr const char* kList =
    "root ::= item (\",\" item)*\nitem ::= \"[\" root? \"]\" | word  # lists in lists\n"
    "word ::= [a-z]{1,4}";

struct NamedTokenizer {
  const char* name;
  Tokenizer (*make)();
};
const NamedTokenizer kTokenizers[] = {
    {"byteLevel",
     [] { return Tokenizer::from_json_file(TALON_TEST_DATA "/text/byte_level/tokenizer.json"); }},
    {"llamaStyle",
     [] { return Tokenizer::from_json_file(TALON_TEST_DATA "/text/llama_style/tokenizer.json"); }},
    {"sentencePiece",
     [] { return Tokenizer::from_sentencepiece(TALON_TEST_DATA "/text/spm_bpe/tokenizer.model"); }},
    {"llama2c", [] { return Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin"); }},
};
void PrintTo(const NamedTokenizer& tokenizer, std::ostream* out) { *out << tokenizer.name; }

/// A grammar in use, and a text that grows at random.
struct Walk {
  Walk(const NamedTokenizer& of, const GrammarText& text, unsigned seed = 1)
      : tokenizer(of.make()),
        ends(1, tokenizer.vocabulary_size() - 1),
        compiler(tokenizer, tokenizer.vocabulary_size()),
        grammar(compiler.compile(text)),
        state(grammar->start(ends)),
        random(seed) {}

  std::vector<TokenId> allowed(TokenConstraint& asked) {
    const auto words = asked.allowed({tokens, {}});
    std::vector<TokenId> list;
    for (TokenId token = 0; token < tokenizer.vocabulary_size(); ++token) {
      if ((words[static_cast<std::size_t>(token) / 32] >> token % 32 & 1) != 0) {
        list.push_back(token);
      }
    }
    return list;
  }
  /// False at the end.
  bool step() {
    if (state->is_complete({tokens, {}})) return false;
    const std::vector<TokenId> list = allowed(*state);
    if (list.empty()) ADD_FAILURE() << "nothing may follow " << text();
    if (list.empty()) return false;
    const TokenId token = list[random() % list.size()];
    if (token == ends[0]) return false;
    tokens.push_back(token);
    return true;
  }
  std::string text() const { return tokenizer.decode(tokens); }

  Tokenizer tokenizer;
  std::vector<TokenId> ends;
  GrammarCompiler compiler;
  std::shared_ptr<const ConstraintSource> grammar;
  std::unique_ptr<TokenConstraint> state;
  std::mt19937 random;
  std::vector<TokenId> tokens;
};

class Grammars : public testing::TestWithParam<NamedTokenizer> {};
INSTANTIATE_TEST_SUITE_P(Of, Grammars, testing::ValuesIn(kTokenizers),
                         [](const auto& test) { return test.param.name; });

TEST_P(Grammars, WhatIsAllowedIsAFunctionOfTheTextAlone) {
  for (const GrammarText& text :
       {GrammarText{Kind::json_schema, kPerson}, GrammarText{Kind::regex, "(ab|a[bc]{2,5})+x?"},
        GrammarText{Kind::gbnf, kList}}) {
    Walk walk(GetParam(), text, 7);
    for (int step = 0; step < 60; ++step) {
      if (!walk.step() || walk.random() % 5 == 0) {
        walk.tokens.resize(walk.random() % (walk.tokens.size() + 1));
      }
      const auto fresh = walk.grammar->start(walk.ends);
      const std::vector<TokenId> expected = walk.allowed(*fresh);
      ASSERT_EQ(walk.allowed(*walk.state), expected) << walk.text();
      const AnswerTokens answer{walk.tokens, {}};
      const std::vector<TokenId> forced = walk.state->forced(answer);
      if (!forced.empty()) {
        ASSERT_EQ(expected, std::vector<TokenId>{forced[0]}) << walk.text();
      }
      for (TokenId token = 0; token < walk.tokenizer.vocabulary_size(); ++token) {
        ASSERT_EQ(walk.state->allows(answer, token),
                  std::binary_search(expected.begin(), expected.end(), token))
            << token << " after " << walk.text();
      }
    }
  }
}

TEST(Grammar, WhatIsAllowedBesideAnotherTextIsThatOfAFreshState) {
  const GrammarText brackets{Kind::lark,
                             "start: item+\nitem: \"[\" W \"]\" | \"(\" W \")\"\nW: /[a-z]+/\n"};
  const GrammarText letters{Kind::lark,
                            "start: item+\nitem: A W \".\" | B W \",\"\nA: /[a-m]/\nB: /[n-z]/\n"
                            "W: /[a-z]+/\n"};
  for (const auto& [text, here, beside] :
       {std::tuple{brackets, "[ab", "(ab"}, std::tuple{letters, "abc", "zbc"}}) {
    Walk walk(kTokenizers[0], text);
    const auto fresh = walk.grammar->start(walk.ends);
    walk.tokens = walk.tokenizer.encode(here, {.parse_special = false});
    walk.allowed(*walk.state);
    walk.tokens = walk.tokenizer.encode(beside, {.parse_special = false});
    EXPECT_EQ(walk.allowed(*walk.state), walk.allowed(*fresh)) << beside;
  }
}

TEST(GrammarBounds, QuestionsAskedBeforeUseNothingUp) {
  Walk walk(kTokenizers[0], {Kind::regex, "[a-zA-Z ,.]*[aeiou][a-zA-Z ,.]{18}"});
  for (int question = 0; question < 8000; ++question) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += static_cast<char>('a' + walk.random() % 26);
    walk.tokens = walk.tokenizer.encode(text, {.parse_special = false});
    ASSERT_NO_THROW(walk.allowed(*walk.state)) << "question " << question;
  }
}

TEST(GrammarBounds, WorkIsThatOfTheQuestionsAlone) {
  Walk walk(kTokenizers[0], {Kind::json_schema, kPerson});
  const auto again = walk.grammar->start(walk.ends);
  EXPECT_EQ(again->work(), 0u);
  for (int step = 0; step < 20 && walk.step(); ++step) {
    again->is_complete({std::span(walk.tokens).first(walk.tokens.size() - 1), {}});
    again->allowed({std::span(walk.tokens).first(walk.tokens.size() - 1), {}});
    EXPECT_EQ(again->work(), walk.state->work());
  }
  EXPECT_GT(again->work(), 0u);
}

/// All tokens would be looked at in free text after each of an answer.
TEST(GrammarBounds, WhetherFreeTextIsCompleteTakesLessThanWhatMayFollowIt) {
  Walk walk(kTokenizers[0],
            {Kind::lark, "start: TEXT\nTEXT: /(?s:.)*/ & ~/(?s:.)*(<call>)(?s:.)*/\n"});
  const auto beside = walk.grammar->start(walk.ends);
  walk.tokens = walk.tokenizer.encode("A fox, as it", {.parse_special = false});
  const AnswerTokens answer{walk.tokens, {}};
  for (TokenConstraint* state : {walk.state.get(), beside.get()}) state->forced(answer);
  const std::uint64_t before = walk.state->work();
  EXPECT_FALSE(walk.state->is_complete(answer));
  const std::uint64_t of_end = walk.state->work() - before;
  beside->allowed(answer);
  EXPECT_LT(of_end * 2, beside->work() - before);
}

TEST(GrammarBounds, AQuestionBeyondThemCountsAsMoreThanARound) {
  Walk walk(kTokenizers[0], {Kind::choice, R"(["abc"])"});
  const std::vector<TokenId> wrong = walk.tokenizer.encode("x", {.parse_special = false});
  EXPECT_THROW(walk.state->allowed({wrong, {}}), Error);
  EXPECT_GT(walk.state->work(), 1'000'000'000u);
}

TEST_P(Grammars, TextsAreWhatTheyAskFor) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    Walk person(GetParam(), {Kind::json_schema, kPerson}, seed);
    for (int step = 0; step < 400 && person.step(); ++step) {
    }
    if (person.state->is_complete({person.tokens, {}})) {
      const Json json = Json::parse(person.text());
      EXPECT_TRUE(json["name"].is_string() && json["age"].is_number() && json["tags"].is_array())
          << person.text();
    }
    Walk choice(GetParam(), {Kind::choice, R"(["red", "green", "a \"blue\" one"])"}, seed);
    while (choice.step()) {
    }
    EXPECT_TRUE(choice.text() == "red" || choice.text() == "green" ||
                choice.text() == "a \"blue\" one")
        << choice.text();
  }
}

TEST_P(Grammars, ForcedTokensAreThoseOfTheTokenizer) {
  Walk walk(GetParam(), {Kind::json_schema, kPerson});
  const std::vector<TokenId> forced = walk.state->forced({});
  walk.tokens = forced;
  EXPECT_TRUE(walk.text().starts_with(R"({"name":)")) << walk.text();
  EXPECT_LT(forced.size(), 9U);
}

TEST_P(Grammars, AnswersEndWhereTheyMay) {
  Walk walk(GetParam(), {Kind::regex, "a+b?"});
  const TokenId end = walk.ends[0];
  EXPECT_FALSE(walk.state->allows({}, end));
  while (!walk.text().starts_with("a")) walk.step();
  if (!walk.text().ends_with("b")) {
    EXPECT_TRUE(walk.state->allows({walk.tokens, {}}, end));
    EXPECT_FALSE(walk.state->is_complete({walk.tokens, {}}));
  }
  const std::vector<TokenId> b = walk.tokenizer.encode("b", {.parse_special = false});
  walk.tokens.push_back(end);
  EXPECT_TRUE(walk.state->is_complete({walk.tokens, {}}));
  EXPECT_EQ(walk.allowed(*walk.state), walk.ends);
}

/// Beside the vocabulary there is a token that stands for the end, and Lark has names for it.
TEST_P(Grammars, AnAnswerEndsWhereTheGrammarNamesTheEnd) {
  const int vocabulary = GetParam().make().vocabulary_size();
  for (const std::string& end : {std::string("<talon-end>"), fmt::format("<[{}]>", vocabulary)}) {
    Walk walk(GetParam(), {Kind::lark, fmt::format("start: {} /[a-z]+/", end)});
    EXPECT_EQ(walk.state->forced({}), std::vector<TokenId>()) << end;
    EXPECT_EQ(walk.allowed(*walk.state), walk.ends) << end;
    EXPECT_TRUE(walk.state->allows({}, walk.ends[0])) << end;
  }
}

TEST_P(Grammars, TextsAreCompleteOnceOnlyTheEndMayFollow) {
  const GrammarText grammars[] = {{Kind::json_schema, R"({"enum": ["a"]})"},
                                  {Kind::json_schema, kPerson},
                                  {Kind::gbnf, "root ::= \"a\" | \"bc\""},
                                  {Kind::regex, "a|b{3}"}};
  for (const GrammarText& grammar : grammars) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      Walk walk(GetParam(), grammar, seed);
      for (int step = 0; step < 200; ++step) {
        const bool only_end = walk.allowed(*walk.state) == walk.ends;
        ASSERT_EQ(walk.state->is_complete({walk.tokens, {}}), only_end) << walk.text();
        if (!walk.step()) break;
      }
    }
  }
}

TEST_P(Grammars, TextsOfEveryKindCanStandBehindAnother) {
  const std::string lead =
      "start: thought /[\\n ]{0,4}/ @answer\nthought[suffix=\"</think>\"]: /(?s:.)*/\n";
  const std::pair<GrammarText, const char*> grammars[] = {
      {{Kind::json_schema, R"({"enum": ["ab"]})"}, "\"ab\""},
      {{Kind::regex, "[ab]{3}|a/b"}, "[ab]{3}|a/b"},
      {{Kind::lark, "start: A | \"b\"\nA: \"a\""}, "a|b"},
      {{Kind::gbnf, "root ::= [a] | \"ba\""}, "a|ba"},
      {{Kind::choice, R"(["a", "bb"])"}, "a|bb"}};
  for (const auto& [grammar, pattern] : grammars) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      Walk walk(GetParam(), led_by(lead, grammar), seed);
      walk.tokens = walk.tokenizer.encode("x.</think>\n", {.parse_special = false});
      const std::size_t begin = walk.text().size();
      EXPECT_FALSE(walk.state->is_complete({walk.tokens, {}}));
      while (walk.tokens.size() < 50 && walk.step()) {
      }
      EXPECT_TRUE(walk.state->is_complete({walk.tokens, {}})) << walk.text();
      std::string said = walk.text().substr(begin);
      said.erase(0, said.find_first_not_of(" \n"));
      EXPECT_TRUE(testing::internal::RE::FullMatch(said, testing::internal::RE(pattern))) << said;
    }
  }
}

TEST_P(Grammars, ATokenThatIsNotAllowedIsAnErrorAndLeavesNothing) {
  Walk walk(GetParam(), {Kind::choice, R"(["abcabc"])"});
  const std::vector<TokenId> wrong = walk.tokenizer.encode("x", {.parse_special = false});
  EXPECT_THROW(walk.state->allowed({wrong, {}}), Error);
  while (walk.step()) {
  }
  EXPECT_EQ(walk.text(), "abcabc");
}

/// Finds no memory while it `lacks` it.
class PoorTokenizer : public Tokenizer {
 public:
  explicit PoorTokenizer(Tokenizer inner) : Tokenizer(std::move(inner)) {}
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override {
    if (lacks) throw std::bad_alloc();
    return Tokenizer::encode(text, options);
  }
  bool lacks = false;
};

TEST(GrammarFaults, ForcedTextIsNotTakenApartOtherwiseForWantOfMemory) {
  PoorTokenizer tokenizer(kTokenizers[0].make());
  const GrammarCompiler compiler(tokenizer, tokenizer.vocabulary_size());
  const auto grammar = compiler.compile({Kind::choice, R"(["once upon a time"])"});
  const std::vector<TokenId> expected = grammar->start({})->forced({});
  EXPECT_FALSE(expected.empty());
  const auto state = grammar->start({});
  tokenizer.lacks = true;
  EXPECT_THROW(state->forced({}), Error);
  tokenizer.lacks = false;
  EXPECT_EQ(state->forced({}), expected);
}

std::string error_of(const GrammarText& text) {
  const Tokenizer tokenizer = kTokenizers[0].make();
  const GrammarCompiler compiler(tokenizer, tokenizer.vocabulary_size());
  try {
    const auto grammar = compiler.compile(text);
    // What compiles must be cheap to use as well.
    const auto state = grammar->start({});
    state->allowed({});
    return "compiles";
  } catch (const Error& error) {
    return error.what();
  }
}

// The library may have been told to take backtraces, as images and shells do.
[[maybe_unused]] const int kAsked = setenv("RUST_BACKTRACE", "1", 1);

TEST(GrammarErrors, OfManyLevelsHoldNobodyUp) {
  std::string chain = "start: T0\n";
  for (int i = 0; i < 9000; ++i) chain += fmt::format("T{}: \"a\" T{} \"b\"\n", i, i + 1);
  chain += "T9000: \"c\"\n";
  for (int i = 0; i < 3; ++i) error_of({Kind::lark, chain});  // within its limits or not
  EXPECT_NE(error_of({Kind::lark, "start: nothing"}).find("nothing"), std::string::npos);
}

TEST(GrammarErrors, DoNotRepeatAllOfALongGrammar) {
  const std::string error = error_of({Kind::regex, std::string(100'000, '(')});
  EXPECT_NE(error, "compiles");
  EXPECT_LT(error.size(), 2000u);
}

TEST(GrammarErrors, AStateThatTakesMuchMemoryIsRefused) {
  const std::string error = error_of({Kind::regex, std::string(250'000, 'a')});
  EXPECT_NE(error.find("memory"), std::string::npos) << error;
  std::string many = "[\"0\"";
  for (int i = 1; i < 11'000; ++i) many += fmt::format(",\"{}\"", i);
  EXPECT_EQ(error_of({Kind::choice, many + "]"}), "compiles");
}

TEST(GrammarErrors, SayWhatIsWrong) {
  EXPECT_NE(error_of({Kind::json_schema, "{\"type\": \"objekt\"}"}).find("objekt"),
            std::string::npos);
  EXPECT_NE(error_of({Kind::json_schema, "{"}).find("expected JSON"), std::string::npos);
  EXPECT_NE(error_of({Kind::json_schema, R"({"$ref": "#/$defs/none"})"}), "compiles");
  EXPECT_NE(error_of({Kind::regex, "a(b"}), "compiles");
  EXPECT_NE(error_of({Kind::lark, "start: nothing"}).find("nothing"), std::string::npos);
  EXPECT_NE(error_of({Kind::gbnf, "root ::= word"}).find("a rule named word"), std::string::npos);
  EXPECT_NE(error_of({Kind::gbnf, "root ::= \"a"}).find("line 1"), std::string::npos);
  EXPECT_NE(error_of({Kind::gbnf, "word ::= \"a\""}).find("root"), std::string::npos);
  EXPECT_NE(error_of({Kind::choice, "[]"}).find("list of texts"), std::string::npos);
  EXPECT_NE(error_of({Kind::choice, "[\"a\", 1]"}).find("list of texts"), std::string::npos);
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// Each ends within some seconds, as an error or as a grammar that can be used.
TEST(GrammarBombs, EndInAnErrorOrAreHarmless) {
  std::string chain = R"({"$defs": {"d0": {"type": "string"})";
  for (int i = 1; i < 30; ++i) {
    chain += fmt::format(R"(, "d{0}": {{"anyOf": [{{"$ref": "#/$defs/d{1}"}},
        {{"type": "array", "items": {{"$ref": "#/$defs/d{1}"}}}}]}})",
                         i, i - 1);
  }
  chain += R"(}, "$ref": "#/$defs/d29"})";
  std::string doubling = "root ::= r20\nr0 ::= \"a\"\n";
  for (int i = 1; i <= 20; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i - 1, i - 1);
  const GrammarText bombs[] = {
      {Kind::json_schema, repeated("{\"not\":", 5000) + "{}" + repeated("}", 5000)},
      {Kind::json_schema, repeated("{\"items\":", 100) + "{}" + repeated("}", 100)},
      {Kind::json_schema, chain},
      {Kind::json_schema, R"({"type": "string", "minLength": 100000000})"},
      {Kind::json_schema, R"({"type": "array", "minItems": 1000000000, "items": {}})"},
      {Kind::json_schema, R"({"type": "string", "pattern": "((a{1,1000}){1,1000}){1,1000}"})"},
      {Kind::regex, repeated("(", 100000)},
      {Kind::regex, "(.*a){500}"},
      {Kind::regex, "(a|b)*a(a|b){200}"},
      {Kind::lark, "start: a\na: a a | \"x\""},
      {Kind::lark, "start: a\na: a"},
      {Kind::gbnf, "root ::= " + repeated("(", 100000)},
      {Kind::gbnf, doubling},
      {Kind::choice, "[\"" + repeated("ab", 100000) + "\"]"},
  };
  for (const GrammarText& bomb : bombs) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = error_of(bomb);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(seconds.count(), 60) << bomb.source.substr(0, 80);
    RecordProperty(bomb.source.substr(0, 40), error.substr(0, 120));
  }
}

}  // namespace
}  // namespace talon::grammar_test
