#include "model/text_pass.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/checkpoint.h"

namespace talon::text_pass_test {
namespace {

/// stories260K with room for so many pages of text.
struct Small {
  explicit Small(int pages)
      : backend(make_reference_backend(1)),
        model(load_model(open_checkpoint(TALON_TEST_DATA "/golden/stories260k/target"), *backend)),
        cache(*backend, kv_shape(model.config, pages)) {}

  std::vector<float> logits(std::size_t first, std::size_t chunk) {
    std::vector<float> all;
    TextPass pass{.tokens = tokens, .first = first, .chunk = chunk};
    pass.ran = [&](std::size_t, const View& rows) {
      if (!rows) return;
      const std::size_t before = all.size();
      all.resize(before + static_cast<std::size_t>(rows.rows) * 512);
      backend->download(rows, std::span(all).subspan(before));
    };
    run_text(model, cache, pass);
    return all;
  }

  std::unique_ptr<Backend> backend;
  Model model;
  KvCache cache;
  std::vector<TokenId> tokens = std::vector<TokenId>(70, 261);
};

std::vector<float> tail(const std::vector<float>& all, std::size_t rows) {
  return {all.end() - static_cast<std::ptrdiff_t>(rows * 512), all.end()};
}

TEST(TextPass, GivesTheWantedLogitsWhateverTheChunks) {
  Small small(2);
  for (std::size_t i = 0; i < small.tokens.size(); ++i)
    small.tokens[i] = static_cast<TokenId>(1 + 7 * i);
  const std::vector<float> all = small.logits(0, 100);
  ASSERT_EQ(all.size(), 70U * 512);
  EXPECT_EQ(small.logits(0, 9), all);
  for (const std::size_t first : {1, 9, 40, 69}) {
    EXPECT_EQ(small.logits(first, 9), tail(all, 70 - first)) << first;
  }
}

TEST(TextPass, EndsBeforeTheNextForwardWhenItIsToStop) {
  Small small(2);
  StopFlag stop;
  std::vector<std::size_t> told;
  TextPass pass{.tokens = small.tokens, .first = 30, .chunk = 20, .stop = &stop};
  pass.ran = [&](std::size_t done, const View& logits) {
    told.push_back(done);
    EXPECT_EQ(logits.rows, done == 20 ? 0 : 10);
    if (done == 40) stop.request();
  };
  run_text(small.model, small.cache, pass);
  EXPECT_EQ(told, (std::vector<std::size_t>{20, 40}));
  EXPECT_EQ(small.cache.free_pages(), 2);
}

TEST(TextPass, SaysThatTheCacheHasNoRoom) {
  Small small(1);
  EXPECT_THROW(small.logits(0, 64), Error);
}

}  // namespace
}  // namespace talon::text_pass_test
