#include "runtime/cache_budget.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/loaded_model.h"

namespace talon::cache_budget_test {
namespace {

LoadedModel small_model() {
  return open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
}

TEST(OpenCache, RefusesABudgetThatIsNotThere) {
  const LoadedModel loaded = small_model();
  try {
    open_cache(loaded.model, {.bytes = std::size_t{1} << 50});
    FAIL() << "a pebibyte was promised";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1073741824 MiB"), std::string::npos) << error.what();
  }
}

TEST(OpenCache, HasTheTypeThatSuitsItsBackendUnlessToldOtherwise) {
  const auto type_of = [](Activations activations, std::optional<KvType> asked) {
    const LoadedModel loaded = open_model(
        {.model = TALON_TEST_DATA "/models/stories260K.bin", .activations = activations});
    return open_cache(loaded.model, {.type = asked})->store().shape.type;
  };
  EXPECT_EQ(type_of(Activations::mixed, std::nullopt), KvType::bf16);
  EXPECT_EQ(type_of(Activations::bits16, std::nullopt), KvType::f16);
  EXPECT_EQ(type_of(Activations::mixed, KvType::f32), KvType::f32);
}

TEST(OpenCache, LeavesWhatOthersWerePromised) {
  const LoadedModel loaded = small_model();
  const std::size_t two = kv_cache_bytes(loaded.model.config, KvType::bf16, 2 * kPageRows);
  EXPECT_EQ(open_cache(loaded.model, {.bytes = two})->total_pages(), 2);
  const std::size_t all = std::size_t{1} << 50;
  EXPECT_THROW(open_cache(loaded.model, {.bytes = two, .promised = all}), Error);
  EXPECT_THROW(open_cache(loaded.model, {.promised = all}), Error);
}

TEST(OpenCache, HoldsOneContextUnlessToldOtherwise) {
  const LoadedModel loaded = small_model();
  const auto context = static_cast<std::size_t>(loaded.model.config.context);
  EXPECT_GE(open_cache(loaded.model)->bytes(),
            kv_cache_bytes(loaded.model.config, KvType::f16, context));
  const std::size_t two = kv_cache_bytes(loaded.model.config, KvType::f32, 2 * kPageRows);
  EXPECT_EQ(open_cache(loaded.model, {two, KvType::f32})->total_pages(), 2);
}

TEST(OpenCache, TakesByItselfAtMostHalfOfTheMemoryThatIsAvailable) {
  const ModelConfig& config = small_model().model.config;
  const std::size_t usual = usual_cache_bytes(config, KvType::f16, std::nullopt);
  EXPECT_GE(usual, kv_cache_bytes(config, KvType::f16, static_cast<std::size_t>(config.context)));
  EXPECT_EQ(usual_cache_bytes(config, KvType::f16, 2 * usual), usual);
  EXPECT_EQ(usual_cache_bytes(config, KvType::f16, usual), usual / 2);
  ModelConfig large = config;
  large.context = 1 << 24;
  EXPECT_EQ(usual_cache_bytes(large, KvType::f16, std::nullopt), std::size_t{1} << 30);
}

TEST(OpenCache, HoldsPicturesThatAreDrawnTogether) {
  ModelConfig config = small_model().model.config;
  config.context = 700;
  config.image = ImagePlan{16, 16};
  config.image->prompt_tokens = 6;
  EXPECT_EQ(usual_cache_bytes(config, KvType::f16, std::nullopt),
            kv_cache_bytes(config, KvType::f16, 16 * positions_for(262)));
  // As many as 1 GiB holds; and one where it holds none.
  config.layers *= 2000;
  config.plans.resize(static_cast<std::size_t>(config.layers), config.plans[0]);
  EXPECT_EQ(usual_cache_bytes(config, KvType::f16, std::nullopt), std::size_t{1} << 30);
  config.image->rows = 4096;
  EXPECT_EQ(usual_cache_bytes(config, KvType::f16, std::nullopt),
            kv_cache_bytes(config, KvType::f16, 2 * positions_for(65542)));
  EXPECT_GT(usual_cache_bytes(config, KvType::f16, std::nullopt), std::size_t{1} << 30);
}

}  // namespace
}  // namespace talon::cache_budget_test
