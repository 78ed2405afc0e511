#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/cache_budget.h"
#include "test_server.h"
#include "text/prompt.h"

// Two models that write text behind one address, as `talon serve -m a -m b` has them.
namespace talon::test::two_models_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrompt = "Once upon a time";
constexpr int kTokens = 24;

/// The small model without its attention: what comes into it is multiplied by 0.
ModelSource other_model() {
  const fs::path from = TALON_TEST_DATA "/models";
  const fs::path to = fs::path(testing::TempDir()) / "talon_serve_two_models";
  fs::create_directories(to);
  fs::copy_file(from / "tok512.bin", to / "tok512.bin", fs::copy_options::overwrite_existing);
  std::ifstream file(from / "stories260K.bin", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::int32_t header[7] = {};  // dim, hidden_dim, layers, heads, kv_heads, vocabulary, positions
  std::memcpy(header, bytes.data(), sizeof header);
  const auto values = [&](int a, int b) { return static_cast<std::size_t>(a) * b * sizeof(float); };
  const std::size_t norms = sizeof header + values(header[5], header[0]);  // behind the embedding
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(norms), values(header[2], header[0]), 0);
  std::ofstream(to / "other.bin", std::ios::binary) << bytes;
  ModelSource source = tiny_model();
  source.model = (to / "other.bin").string();
  return source;
}

ServedModel served(const std::string& name, const ModelSource& source) {
  LoadedModel loaded = open_model(source);
  auto cache = open_cache(loaded.model);
  HostOptions host;
  host.decode.drafter = "suffix";
  ServedModel model;
  model.name = name;
  model.host = std::make_unique<ModelHost>(std::move(loaded), std::move(cache), std::move(host));
  return model;
}

/// As `talon run` says it.
std::string said_alone(const ModelSource& source) {
  const LoadedModel loaded = open_model(source);
  const std::unique_ptr<KvCache> cache = open_cache(loaded.model);
  Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), {.drafter = "none"});
  Request request;
  request.prompt = encode_prompt(loaded.require_tokenizer(), kPrompt);
  request.max_new = kTokens;
  request.end_tokens = loaded.end_tokens;
  return answerer.decode(request).text;
}

Json ask_for(const std::string& name) {
  return {{"model", name}, {"prompt", kPrompt}, {"max_tokens", kTokens}, {"temperature", 0}};
}

TEST(TwoModels, AnswerEachByItsNameWithItsOwnText) {
  const ModelSource tiny = tiny_model(), other = other_model();
  const std::string first = said_alone(tiny), second = said_alone(other);
  ASSERT_NE(first, second);
  std::vector<ServedModel> models;
  models.push_back(served("a", tiny));
  models.push_back(served("b", other));
  ServeOptions options;
  options.http.port = 0;
  options.http.ping_s = 0;
  const Server server(options, std::move(models));
  const auto expect = [](const Reply& reply, const char* name, const std::string& text) {
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json()["model"], name);
    EXPECT_EQ(reply.json()["choices"][0]["text"], text) << name;
  };
  Client a(server.port()), b(server.port());
  for (int i = 0; i < 2; ++i) {  // both at once
    a.send(post_text("/v1/completions", ask_for("a").dump()));
    b.send(post_text("/v1/completions", ask_for("b").dump()));
    expect(b.read(), "b", second);
    expect(a.read(), "a", first);
  }
  Json nameless = ask_for("");
  expect(a.post("/v1/completions", nameless), "a", first);
  nameless.erase("model");
  expect(b.post("/v1/completions", nameless), "a", first);

  const Reply unknown = a.post("/v1/completions", ask_for("c"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json()["error"]["message"], "model: expected one of a, b, found \"c\"");
  const Json list = a.get("/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 2U) << list;
  EXPECT_EQ(list[0]["id"], "a");
  EXPECT_EQ(list[1]["id"], "b");
}

}  // namespace
}  // namespace talon::test::two_models_test
