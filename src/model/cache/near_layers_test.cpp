#include <gtest/gtest.h>

#include "model/cache/hash_model.h"

namespace talon::near_layers_test {
namespace {

using test::HashModel;
using test::numbered;
using test::Tokens;

TEST(NearLayers, ALongTextHoldsThePagesWithinReachOnly) {
  HashModel model({.pages = 40, .reach = 100, .near_pages = 6});
  EXPECT_EQ(model.cache.rows_at_once(), (6 - 3) * 64 - 100);
  KvSequence sequence = model.cache.start({});
  ASSERT_TRUE(sequence.reserve(40 * 64 - 10, model.cache.rows_at_once()));
  for (int begin = 0; begin + 80 < 40 * 64; begin += 80) {
    ASSERT_TRUE(model.append(sequence, numbered(80, begin)));
  }
  EXPECT_EQ(sequence.length(), 31 * 80);
  KvSequence other = model.cache.start({});
  EXPECT_FALSE(other.reserve(1)) << "what is promised is held";
  sequence.truncate(sequence.length());
  EXPECT_TRUE(other.reserve(1));
}

TEST(NearLayers, ATextKnowsWhereTheLayersOfItsCacheLie) {
  HashModel model({.pages = 4, .reach = 64, .near_pages = 4});
  const KvSequence sequence = model.cache.start({});
  for (const int layer : {0, 1}) {
    const KvPlace found = sequence.place(layer), expected = model.cache.place(layer);
    EXPECT_EQ(found.store, expected.store);
    EXPECT_EQ(found.layer, expected.layer);
    EXPECT_TRUE(found.of == (layer == 0 ? KvLayers::far : KvLayers::near));
  }
}

TEST(NearLayers, ALongTextIsGoneOnFromWhereItsLastPagesAreRemembered) {
  HashModel model({.pages = 40, .reach = 100, .near_pages = 12});
  const Tokens text = numbered(1000);
  const auto run = [&](const Tokens& tokens) {
    KvSequence sequence = model.cache.start(tokens);
    const int reused = sequence.length();
    for (std::size_t begin = static_cast<std::size_t>(reused); begin < tokens.size(); begin += 64) {
      const auto rest = std::span(tokens).subspan(begin);
      const auto part = rest.first(std::min<std::size_t>(rest.size(), 64));
      EXPECT_TRUE(model.append(sequence, {part.begin(), part.end()}));
    }
    return reused;
  };
  EXPECT_EQ(run(text), 0);
  EXPECT_EQ(run(text), 999);
  Tokens other = text;  // parts from it where pages are remembered
  other[900] = 9999;
  EXPECT_EQ(run(other), 900);
  Tokens early = text;  // 12 pages hold the last 768 positions: these are given up
  early[150] = 9999;
  EXPECT_EQ(run(early), 0);
}

TEST(NearLayers, WhatATextLetsGoOfServesOthers) {
  HashModel model({.pages = 40, .reach = 64, .near_pages = 10});
  KvSequence first = model.cache.start({}), second = model.cache.start({});
  for (int begin = 0; begin < 1200; begin += 60) {
    ASSERT_TRUE(model.append(first, numbered(60, begin)));
    ASSERT_TRUE(model.append(second, numbered(60, 5000 + begin)));
  }
}

TEST(NearLayers, AShortenedTextGoesOnFromWhereItsPagesAre) {
  HashModel model({.pages = 40, .reach = 64, .near_pages = 6});
  KvSequence sequence = model.cache.start({});
  for (int begin = 0; begin < 1200; begin += 60) {
    ASSERT_TRUE(model.append(sequence, numbered(60, begin)));
  }
  sequence.truncate(1150);
  EXPECT_EQ(sequence.length(), 1150);
  ASSERT_TRUE(model.append(sequence, numbered(10, 7000)));
  sequence.truncate(300);  // those pages serve others, or would have
  EXPECT_EQ(sequence.length(), 0);
  ASSERT_TRUE(model.append(sequence, numbered(60)));
}

TEST(NearLayers, ATextGoesOnWhileAnotherHoldsWhatItLetsGoOf) {
  HashModel model({.pages = 40, .reach = 100, .near_pages = 9});
  KvSequence first = model.cache.start({});
  for (int begin = 0; begin < 600; begin += 60) {
    ASSERT_TRUE(model.append(first, numbered(60, begin)));
  }
  KvSequence second = model.cache.start(numbered(2000));
  ASSERT_EQ(second.length(), 576);
  ASSERT_TRUE(second.reserve(1424, 64));
  {
    KvSequence third = model.cache.start({});
    ASSERT_TRUE(third.reserve(128)) << "the last pages";
    for (const int begin : {576, 640, 704}) {
      ASSERT_TRUE(model.append(second, numbered(64, begin)));
    }
    EXPECT_FALSE(second.reserve(64)) << "two pages went out of reach, and the first text has them";
  }
  for (int begin = 768; begin < 1984; begin += 64) {
    ASSERT_TRUE(model.append(second, numbered(64, begin)));
  }
}

TEST(NearLayers, AModelHasThemWhereAWindowIsShorterThanTheContext) {
  ModelConfig config;
  config.context = 32768;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.plans.resize(6);
  for (int i = 0; i < 6; ++i) {
    LayerPlan& plan = config.plans[static_cast<std::size_t>(i)];
    plan.kv_heads = 2;
    plan.head_dim = 64;
    plan.cache_layer = i;
    plan.window = i < 5 ? 512 : 0;
  }
  const KvShape one = kv_shape(config, 1);
  EXPECT_EQ(one.layers, 1);
  EXPECT_EQ(one.near.layers, (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_EQ(one.near.reach, 512);
  EXPECT_EQ(one.near.pages, 1);
  const KvShape whole = kv_shape(config, config.context / kPageRows);
  EXPECT_GE(whole.near.pages, (512 + 512) / kPageRows);
  EXPECT_LT(whole.near.pages, whole.pages / 4);
  const KvShape fits = within_budget(one, kv_bytes(whole));
  EXPECT_EQ(fits.pages, whole.pages);
  EXPECT_EQ(fits.near.pages, whole.near.pages);

  config.plans[0].chunk = 8192;  // the window is the shorter
  EXPECT_EQ(kv_shape(config, 1).near.reach, 512);
  config.context = 512;
  EXPECT_TRUE(kv_shape(config, 1).near.layers.empty());
}

}  // namespace
}  // namespace talon::near_layers_test
