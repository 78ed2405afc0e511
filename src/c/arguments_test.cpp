#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "c/logits.h"
#include "c/test_model.h"

namespace talon::arguments_test {
namespace {

/// The call is refused, and the message says why: it holds all of `words`.
void expect_refused(talon_status status, const std::vector<std::string>& words) {
  EXPECT_EQ(status, TALON_BAD_ARGUMENT) << talon_last_error();
  for (const std::string& word : words)
    EXPECT_NE(std::string(talon_last_error()).find(word), std::string::npos)
        << word << " in: " << talon_last_error();
}

class CArguments : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new ModelHandle(load_test_model());
    engine_ = new EngineHandle(make_engine(*model_, "suffix"));
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete model_;
  }
  static talon_model* model() { return model_->get(); }
  static talon_engine* engine() { return engine_->get(); }

 private:
  static ModelHandle* model_;
  static EngineHandle* engine_;
};
ModelHandle* CArguments::model_ = nullptr;
EngineHandle* CArguments::engine_ = nullptr;

TEST_F(CArguments, VersionsAgreeWithTheHeader) {
  const std::string version = std::to_string(TALON_VERSION_MAJOR) + "." +
                              std::to_string(TALON_VERSION_MINOR) + "." +
                              std::to_string(TALON_VERSION_PATCH);
  EXPECT_EQ(talon_version(), version);
  EXPECT_EQ(talon_abi_version(), static_cast<std::uint32_t>(TALON_ABI_VERSION));
  EXPECT_STREQ(talon_status_name(TALON_QUEUE_FULL), "queue full");
  EXPECT_STREQ(talon_status_name(static_cast<talon_status>(99)), "unknown");
  EXPECT_STREQ(talon_finish_name(TALON_FINISH_STOP_TOKEN), "stop");
  EXPECT_STREQ(talon_finish_name(TALON_FINISH_NONE), "none");
  EXPECT_STREQ(talon_finish_name(TALON_FINISH_NO_ROOM), "no_room");
  EXPECT_STREQ(talon_finish_name(TALON_FINISH_FAILED), "failed");
  for (const int unknown : {-1, TALON_FINISH_FAILED + 1})
    EXPECT_STREQ(talon_finish_name(unknown), "unknown");
}

TEST_F(CArguments, AMissingHandleOrAddressIsNamed) {
  talon_model* loaded = nullptr;
  expect_refused(talon_model_load(nullptr, nullptr, &loaded), {"talon_model_load", "source"});
  expect_refused(talon_model_load("", nullptr, &loaded), {"source"});
  expect_refused(talon_model_load("x", nullptr, nullptr), {"model"});
  talon_model_info info = talon_model_info_empty();
  expect_refused(talon_model_describe(nullptr, &info), {"talon_model_describe", "model"});
  expect_refused(talon_model_describe(model(), nullptr), {"info"});
  talon_engine* made = nullptr;
  expect_refused(talon_engine_new(nullptr, nullptr, &made), {"model"});
  expect_refused(talon_engine_new(model(), nullptr, nullptr), {"engine"});
  expect_refused(talon_engine_submit(nullptr, nullptr, nullptr), {"engine"});
  expect_refused(talon_engine_submit(engine(), nullptr, nullptr), {"request"});
  expect_refused(talon_engine_step(nullptr, nullptr, nullptr), {"engine"});
  expect_refused(talon_engine_run(nullptr, nullptr, nullptr, nullptr), {"engine"});
  expect_refused(talon_engine_cancel(nullptr, 1), {"engine"});
  expect_refused(talon_engine_load(nullptr, nullptr, nullptr), {"engine"});
  talon_statistics statistics = talon_statistics_empty();
  expect_refused(talon_engine_statistics(nullptr, 1, &statistics), {"engine"});
  expect_refused(talon_engine_statistics(engine(), 12345, &statistics), {"id", "12345"});
  expect_refused(talon_engine_statistics(engine(), 1, nullptr), {"statistics"});
  expect_refused(talon_cancel_new(nullptr), {"cancel"});
  talon_speculator* speculator = nullptr;
  expect_refused(talon_speculator_new(nullptr, nullptr), {"speculator"});
  expect_refused(talon_speculator_new(nullptr, &speculator), {"vocabulary"});
  talon_sequence* sequence = nullptr;
  expect_refused(talon_sequence_new(nullptr, nullptr, &sequence), {"speculator"});
  expect_refused(talon_sequence_propose(nullptr, 1, 1, nullptr), {"sequence"});
  expect_refused(talon_sequence_verify(nullptr, nullptr, 0, nullptr), {"sequence"});
  expect_refused(talon_sequence_observe(nullptr, nullptr, 0), {"sequence"});
  std::int32_t* tokens = nullptr;
  std::size_t count = 0;
  expect_refused(talon_tokenize(nullptr, "a", 1, nullptr, &tokens, &count), {"model"});
  expect_refused(talon_tokenize(model(), nullptr, 1, nullptr, &tokens, &count), {"text"});
  const std::string giant((std::size_t{16} << 20) + 1, 'a');
  expect_refused(talon_tokenize(model(), giant.data(), giant.size(), nullptr, &tokens, &count),
                 {"bytes", "at most 16777216", "16777217"});
  expect_refused(talon_tokenize(model(), "a", 1, nullptr, nullptr, &count), {"tokens"});
  expect_refused(talon_tokenize(model(), "a", 1, nullptr, &tokens, nullptr), {"count"});
  char* text = nullptr;
  const std::int32_t far = 512;
  expect_refused(talon_detokenize(model(), &far, 1, nullptr, &text, &count), {"tokens[0]", "512"});
  expect_refused(talon_detokenize(model(), nullptr, 1, nullptr, &text, &count), {"tokens"});
  expect_refused(talon_token_bytes(model(), -1, &text, &count), {"token", "-1"});
  const talon_message message = {"user", nullptr};
  expect_refused(talon_chat_text(model(), &message, 1, nullptr, &text, &count),
                 {"messages[0].content"});
  expect_refused(talon_chat_tokenize(model(), nullptr, 1, nullptr, &tokens, &count), {"messages"});
}

TEST_F(CArguments, CallsThatFailHandOutNothing) {
  std::int32_t id = 0;
  char letter = 'a';
  std::size_t count = 7;
  const auto expect_nothing = [&](talon_status status, const void* out) {
    EXPECT_NE(status, TALON_OK);
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(count, 0U);
    count = 7;
  };
  std::int32_t* tokens = &id;
  talon_status status = talon_tokenize(model(), nullptr, 1, nullptr, &tokens, &count);
  expect_nothing(status, tokens);
  tokens = &id;
  status = talon_chat_tokenize(model(), nullptr, 1, nullptr, &tokens, &count);
  expect_nothing(status, tokens);
  char* text = &letter;
  status = talon_detokenize(model(), nullptr, 1, nullptr, &text, &count);
  expect_nothing(status, text);
  text = &letter;
  status = talon_token_bytes(model(), -1, &text, &count);
  expect_nothing(status, text);
  text = &letter;
  status = talon_chat_text(model(), nullptr, 1, nullptr, &text, &count);
  expect_nothing(status, text);
}

TEST_F(CArguments, LogitsEndWhenTheirCallerSaysSo) {
  const std::vector<std::int32_t> tokens(200, 403);
  std::vector<float> logits(tokens.size() * 512);
  int asked = 0;
  const auto compute = [&](const std::function<bool()>& go_on) {
    return model_logits(model(), tokens.data(), tokens.size(), 0, logits.data(), logits.size(),
                        go_on);
  };
  EXPECT_EQ(compute([&] { return ++asked < 2; }), TALON_CANCELLED);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(compute({}), TALON_OK) << talon_last_error();
}

TEST_F(CArguments, WhatALogCallbackThrowsFailsNothing) {
  talon_engine_options options = talon_engine_default();
  options.log = [](void*, talon_log_level, const char*) { throw std::runtime_error("mine"); };
  talon_engine* made = nullptr;
  EXPECT_EQ(talon_engine_new(model(), &options, &made), TALON_OK) << talon_last_error();
  talon_engine_free(made);
}

TEST_F(CArguments, FreeingNothingIsAllowed) {
  talon_model_free(nullptr);
  talon_engine_free(nullptr);
  talon_speculator_free(nullptr);
  talon_sequence_free(nullptr);
  talon_cancel_free(nullptr);
  talon_cancel_request(nullptr);
  talon_free(nullptr);
  EXPECT_STREQ(talon_engine_drafter(nullptr), "");
}

TEST_F(CArguments, EachFieldOfARequestIsChecked) {
  const std::vector<std::int32_t> prompt = {1, 403};
  const float bias = 1;
  const char* const no_text = nullptr;
  const auto expect = [&](const std::vector<std::string>& words,
                          const std::function<void(talon_request&)>& change) {
    talon_request request = request_for(prompt, 4);
    change(request);
    expect_refused(talon_engine_submit(engine(), &request, nullptr), words);
  };
  using R = talon_request;
  expect({"request->size"}, [](R& r) { r.size = 0; });
  expect({"request->size"}, [](R& r) { r.size = ~std::size_t{0}; });
  expect({"request->prompt", "NULL"}, [](R& r) { r.prompt = nullptr; });
  expect({"request->prompt_count"}, [](R& r) { r.prompt_count = 0; });
  expect({"request->max_new"}, [](R& r) { r.max_new = 0; });
  expect({"request->min_new"}, [](R& r) { r.min_new = 5; });
  expect({"request->method", "nosuch"}, [](R& r) { r.method = "nosuch"; });
  expect({"request->temperature", "-1"}, [](R& r) { r.temperature = -1; });
  expect({"request->top_p"}, [](R& r) { r.top_p = 2; });
  expect({"request->top_k"}, [](R& r) { r.top_k = -1; });
  expect({"request->bias_tokens"}, [](R& r) { r.bias_count = 1; });
  expect({"request->bias_values"}, [&](R& r) {
    r.bias_tokens = prompt.data();
    r.bias_count = 1;
  });
  const std::int32_t far = 99999;
  expect({"request->logit_bias"}, [&](R& r) {
    r.bias_tokens = &far;
    r.bias_values = &bias;
    r.bias_count = 1;
  });
  expect({"request->banned"}, [](R& r) { r.banned_count = 1; });
  expect({"request->stop_texts[0]"}, [&](R& r) {
    r.stop_texts = &no_text;
    r.stop_text_count = 1;
  });
  expect({"request->ignore_end", "2"}, [](R& r) { r.ignore_end = 2; });
  expect({"request->reuse_prefix"}, [](R& r) { r.reuse_prefix = -1; });
  expect({"request->logprobs", "-2"}, [](R& r) { r.logprobs = -2; });
  expect({"request->deadline_ms"}, [](R& r) { r.deadline_ms = -1; });
  expect({"request->expected"}, [](R& r) { r.expected_count = 1; });
  expect({"request->expected", "99999"}, [&](R& r) {
    r.expected = &far;
    r.expected_count = 1;
  });
  expect({"request->form_text", "NULL"}, [](R& r) { r.form = TALON_FORM_REGEX; });
  expect({"request->form:"}, [](R& r) { r.form_text = "a"; });
}

TEST_F(CArguments, OptionsAreChecked) {
  const auto model_with = [](const std::function<void(talon_model_options&)>& change) {
    talon_model_options options = talon_model_default();
    change(options);
    talon_model* loaded = nullptr;
    return talon_model_load(test_model_path().c_str(), &options, &loaded);
  };
  using M = talon_model_options;
  expect_refused(model_with([](M& o) { o.backend = 7; }), {"options->backend", "7"});
  expect_refused(model_with([](M& o) { o.threads = -1; }), {"options->threads"});
  expect_refused(model_with([](M& o) { o.context = -1; }), {"options->context"});
  expect_refused(model_with([](M& o) { o.weights = "int3"; }), {"options->weights", "int3"});
  expect_refused(model_with([](M& o) { o.activations = "7"; }), {"options->activations"});
  expect_refused(model_with([](M& o) { o.fixed_threads = 3; }), {"options->fixed_threads"});
  const auto engine_with = [](const std::function<void(talon_engine_options&)>& change) {
    talon_engine_options options = talon_engine_default();
    change(options);
    talon_engine* made = nullptr;
    return talon_engine_new(model(), &options, &made);
  };
  using E = talon_engine_options;
  expect_refused(engine_with([](E& o) { o.method = "nosuch"; }), {"options->method", "nosuch"});
  expect_refused(engine_with([](E& o) { o.method = "suffix@hm=1"; }), {"hm"});
  expect_refused(engine_with([](E& o) { o.chunk = 0; }), {"options->chunk"});
  expect_refused(engine_with([](E& o) { o.max_nodes = -1; }), {"options->max_nodes"});
  expect_refused(engine_with([](E& o) { o.max_nodes = 4097; }), {"options->max_nodes", "4096"});
  expect_refused(engine_with([](E& o) { o.most_waiting = 0; }), {"options->most_waiting"});
  expect_refused(engine_with([](E& o) { o.step_ms = NAN; }), {"options->step_ms", "nan"});
  expect_refused(engine_with([](E& o) { o.head_folder_count = 1; }), {"options->head_folders"});
}

TEST_F(CArguments, AFileThatIsNotThereIsAFailureThatNamesIt) {
  talon_model* loaded = nullptr;
  EXPECT_EQ(talon_model_load("/no/such/file.gguf", nullptr, &loaded), TALON_FAILED);
  EXPECT_NE(std::strstr(talon_last_error(), "/no/such/file.gguf"), nullptr);
  EXPECT_EQ(loaded, nullptr);
}

/// A program that was built against a later header: more fields, of which it uses none.
TEST_F(CArguments, StructsOfLaterVersionsAreRead) {
  struct Later {
    talon_request request;
    std::int64_t more;
  };
  const std::vector<std::int32_t> prompt = {1, 403};
  Later later = {};
  ASSERT_EQ(talon_request_init(&later.request, sizeof later), TALON_OK);
  EXPECT_EQ(later.request.size, sizeof later);
  later.request.prompt = prompt.data();
  later.request.prompt_count = prompt.size();
  later.request.max_new = 1;
  EXPECT_EQ(talon_engine_submit(engine(), &later.request, nullptr), TALON_OK) << talon_last_error();
  later.more = 1;
  expect_refused(talon_engine_submit(engine(), &later.request, nullptr), {"request", "version"});
  EXPECT_EQ(talon_engine_run(engine(), nullptr, nullptr, nullptr), TALON_OK);
}

TEST_F(CArguments, LongMessagesAreCutAtACharacter) {
  for (const char* begin : {"/", "/x"}) {  // one of them would be cut within a character
    std::string name = begin;
    for (int i = 0; i < 5000; ++i) name += "\u00fc";
    talon_model* loaded = nullptr;
    EXPECT_EQ(talon_model_load(name.c_str(), nullptr, &loaded), TALON_FAILED);
    const std::string message = talon_last_error();
    EXPECT_LT(message.size(), 4096U);
    EXPECT_GT(message.size(), 4000U);
    EXPECT_EQ(static_cast<unsigned char>(message.back()), 0xBC);
  }
}

}  // namespace
}  // namespace talon::arguments_test
