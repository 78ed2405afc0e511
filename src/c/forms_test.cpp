#include "c/forms.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "c/test_model.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"
#include "text/prompt.h"

namespace talon::forms_test {
namespace {

constexpr const char* kPrompt = "Once upon a time";
constexpr const char* kSchema =
    R"({"type": "object", "properties": {"name": {"enum": ["Tom", "Lily"]},
        "pets": {"type": "array", "items": {"enum": ["dog", "cat"]}, "maxItems": 2}},
        "required": ["name", "pets"], "additionalProperties": false})";

struct Form {
  std::int32_t form;
  const char* text;
  GrammarText::Kind kind;  // that `talon run` makes of it
};
const Form kForms[] = {
    {TALON_FORM_JSON_SCHEMA, kSchema, GrammarText::Kind::json_schema},
    {TALON_FORM_REGEX, "She was (very|not) [a-z ]{5,40}\\.", GrammarText::Kind::regex},
    {TALON_FORM_GRAMMAR, "start: \"a \" (\"dog\" | \"cat\") /[a-z ]{3,9}/ \".\"",
     GrammarText::Kind::lark},
    {TALON_FORM_GRAMMAR, "root ::= (\"Tom\" | \"Lily\") \" has a \" [a-z]{3,6}",
     GrammarText::Kind::gbnf},
    {TALON_FORM_CHOICE, R"(["a little girl named Lily", "a big dog"])", GrammarText::Kind::choice}};

/// As `talon run` with that form and no drafts.
Answer answer_of_run(const Form& form, double temperature) {
  const LoadedModel loaded = open_model({.model = test_model_path(), .threads = 1});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "none";
  Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), settings);
  const GrammarCompiler compiler(*loaded.tokenizer, loaded.model.config.vocabulary);
  Request request;
  request.prompt = encode_prompt(*loaded.tokenizer, kPrompt);
  request.max_new = 80;
  request.sampler.temperature = temperature;
  request.end_tokens = loaded.end_tokens;
  request.constraint = compiler.compile({form.kind, form.text});
  return answerer.decode(request);
}

class CForms : public testing::Test {
 protected:
  talon_request request_with(std::int32_t form, const char* text) {
    talon_request request = request_for(prompt_, 80);
    request.form = form;
    request.form_text = text;
    return request;
  }

  static Heard answer(const EngineHandle& engine, const talon_request& request) {
    const auto hear = [](void* user, const talon_news* news) {
      Heard& heard = *static_cast<Heard*>(user);
      heard.tokens.insert(heard.tokens.end(), news->tokens, news->tokens + news->token_count);
      heard.text.append(news->text, news->text_bytes);
      heard.finish = news->finish;
      heard.accepted += news->accepted;
      return 0;
    };
    Heard heard;
    EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK) << talon_last_error();
    EXPECT_EQ(talon_engine_run(engine.get(), hear, &heard, nullptr), TALON_OK);
    return heard;
  }

  /// Submitting it is refused, and the message says why: it holds `words`.
  static void expect_refused(const EngineHandle& engine, const talon_request& request,
                             const std::string& words) {
    EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_BAD_ARGUMENT) << words;
    EXPECT_NE(std::string(talon_last_error()).find(words), std::string::npos)
        << words << " in: " << talon_last_error();
  }

  const ModelHandle model_ = load_test_model();
  const std::vector<std::int32_t> prompt_ = tokens_of(model_, kPrompt);
};

TEST_F(CForms, AnswersAreThoseOfTheCommandLineWithAnyDrafter) {
  const EngineHandle engine = make_engine(model_, "suffix@policy=fixed");
  int accepted = 0;
  for (const Form& form : kForms) {
    for (const double temperature : {0.0, 0.8}) {
      const Answer expected = answer_of_run(form, temperature);
      ASSERT_FALSE(expected.text.empty()) << form.text;
      for (const char* method : {"none", "suffix@policy=fixed", "ngram"}) {
        talon_request request = request_with(form.form, form.text);
        request.temperature = temperature;
        request.method = method;
        const Heard heard = answer(engine, request);
        EXPECT_EQ(heard.tokens, expected.tokens) << form.text << " " << method;
        EXPECT_EQ(heard.text, expected.text) << method;
        EXPECT_EQ(heard.finish, TALON_FINISH_STOP_TOKEN) << form.text;
        accepted += heard.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(CForms, RequestsWithTheSameFormShareWhatItWasCompiledTo) {
  const EngineHandle engine = make_engine(model_, "none");
  const auto grammar = model_->shared->grammars->get({GrammarText::Kind::regex, "[a-z]{3}"});
  const long users = grammar.use_count();
  const talon_request request = request_with(TALON_FORM_REGEX, "[a-z]{3}");
  EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK) << talon_last_error();
  EXPECT_GT(grammar.use_count(), users);
  EXPECT_EQ(talon_engine_run(engine.get(), nullptr, nullptr, nullptr), TALON_OK);
}

TEST_F(CForms, WhatIsNoFormIsNamed) {
  const EngineHandle engine = make_engine(model_, "none");
  const auto expect = [&](std::int32_t form, const char* text, const char* words) {
    expect_refused(engine, request_with(form, text), words);
  };
  expect(TALON_FORM_REGEX, "(a", "request->form_text: grammar: ");
  expect(TALON_FORM_JSON_SCHEMA, "{", "request->form_text: grammar: expected JSON");
  expect(TALON_FORM_JSON_SCHEMA, R"({"type": "array", "uniqueItems": true})", "uniqueItems");
  expect(TALON_FORM_GRAMMAR, "start: nosuch", "request->form_text: grammar: ");
  expect(TALON_FORM_CHOICE, "[]", "request->form_text: grammar: expected a list of texts");
  expect(TALON_FORM_REGEX, nullptr, "request->form_text: expected a text, found NULL");
  expect(TALON_FORM_NONE, "a", "request->form: expected the talon_form of form_text");
  for (const int unknown : {-1, TALON_FORM_CHOICE + 1})
    expect(unknown, "a", fmt::format("expected a talon_form, found {}", unknown).c_str());
  EXPECT_EQ(answer(engine, request_with(TALON_FORM_REGEX, "ab")).text, "ab");
}

/// The tokens of their answers are no text.
TEST_F(CForms, AreRefusedByModelsOfPictures) {
  const EngineHandle engine = make_engine(model_, "none");
  model_->shared->grammars.reset();  // as of one
  expect_refused(engine, request_with(TALON_FORM_REGEX, "a"), "request->form: expected 0");
}

TEST_F(CForms, AreRefusedByRuntimesWithModelsOfTheirOwn) {
  talon_speculator_options options = talon_speculator_default();
  options.vocabulary = 512;
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  const talon_request request = request_with(TALON_FORM_REGEX, "a");
  talon_sequence* sequence = nullptr;
  EXPECT_EQ(talon_sequence_new(speculator.get(), &request, &sequence), TALON_BAD_ARGUMENT);
  EXPECT_NE(std::string(talon_last_error()).find("request->form: "), std::string::npos)
      << talon_last_error();
  EXPECT_EQ(sequence, nullptr);
}

/// A program that was made before the field was: what lies behind its struct is no form.
TEST_F(CForms, RequestsOfEarlierVersionsHaveNone) {
  const EngineHandle engine = make_engine(model_, "none");
  talon_request request = request_with(TALON_FORM_NONE, nullptr);
  const Heard free = answer(engine, request);
  request.size = offsetof(talon_request, form_text);
  request.form_text = "no form";
  EXPECT_EQ(answer(engine, request).tokens, free.tokens);
  request.form = TALON_FORM_REGEX;
  expect_refused(engine, request, "request->form_text: expected a text, found NULL");
}

}  // namespace
}  // namespace talon::forms_test
