#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "talon.h"

namespace talon {

// What the tests of the C interface share.

template <auto kFree>
struct Freed {
  template <typename Handle>
  void operator()(Handle* handle) const {
    kFree(handle);
  }
};
using ModelHandle = std::unique_ptr<talon_model, Freed<talon_model_free>>;
using EngineHandle = std::unique_ptr<talon_engine, Freed<talon_engine_free>>;
using CancelHandle = std::unique_ptr<talon_cancel, Freed<talon_cancel_free>>;
using SpeculatorHandle = std::unique_ptr<talon_speculator, Freed<talon_speculator_free>>;
using SequenceHandle = std::unique_ptr<talon_sequence, Freed<talon_sequence_free>>;

inline std::string test_model_path() { return TALON_TEST_DATA "/models/stories260K.bin"; }

inline ModelHandle load_test_model(talon_model_options options = talon_model_default()) {
  talon_model* model = nullptr;
  options.threads = 1;
  EXPECT_EQ(talon_model_load(test_model_path().c_str(), &options, &model), TALON_OK)
      << talon_last_error();
  return ModelHandle(model);
}

inline EngineHandle make_engine(const ModelHandle& model, const char* method,
                                talon_engine_options options = talon_engine_default()) {
  talon_engine* engine = nullptr;
  options.method = method;
  EXPECT_EQ(talon_engine_new(model.get(), &options, &engine), TALON_OK) << talon_last_error();
  return EngineHandle(engine);
}

inline std::vector<std::int32_t> tokens_of(const ModelHandle& model, const std::string& text) {
  std::int32_t* tokens = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(talon_tokenize(model.get(), text.data(), text.size(), nullptr, &tokens, &count),
            TALON_OK)
      << talon_last_error();
  const std::vector<std::int32_t> ids(tokens, tokens + count);
  talon_free(tokens);
  return ids;
}

inline talon_request request_for(const std::vector<std::int32_t>& prompt, int max_new) {
  talon_request request = talon_request_default();
  request.prompt = prompt.data();
  request.prompt_count = prompt.size();
  request.max_new = max_new;
  return request;
}

struct Heard {
  std::vector<std::int32_t> tokens;
  std::string text;
  int finish = TALON_FINISH_NONE;
  int accepted = 0;
};

}  // namespace talon
