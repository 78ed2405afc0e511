#include "runtime/named_methods.h"

#include <gtest/gtest.h>

#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"

namespace talon {
namespace {

constexpr const char* kHead = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";

TEST(NamedMethods, AHeadHoldsAsManyPositionsAsTheTarget) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
  constexpr std::size_t kTexts = 8, kLength = 240;
  const std::size_t positions = kTexts * positions_for(kLength);
  const auto cache =
      open_cache(loaded.model, {kv_cache_bytes(loaded.model.config, KvType::f16, positions)});
  DecodeSettings settings;
  settings.drafter = kHead;
  settings.policy = "fixed";
  Engine engine(loaded.model, *cache, engine_options(settings, loaded.model, nullptr));
  NamedMethods methods(engine, loaded.model, *cache, settings);
  for (std::size_t i = 0; i < kTexts; ++i) {
    Request request;
    request.prompt.assign(kLength - 20, static_cast<TokenId>(300 + i));
    request.max_new = 20;
    engine.submit(request);
  }
  int together = 0;
  while (!engine.idle()) {
    engine.step();
    together = std::max(together, engine.load().running);
  }
  EXPECT_EQ(together, static_cast<int>(kTexts));
  EXPECT_EQ(engine.statistics().lost_draft_rows, 0);
}

}  // namespace
}  // namespace talon
