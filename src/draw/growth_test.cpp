#include "draw/growth.h"

#include <gtest/gtest.h>

#include <fstream>

#include "draw/film.h"
#include "draw/picture_facts.h"
#include "io/codec/zstd.h"

namespace talon::growth_test {
namespace {

namespace fs = std::filesystem;

TEST(Growth, KnowsCellsAndForwardsOfEachState) {
  ImagePlan plan{2, 3};
  plan.row_end = 9;
  PictureGrowth growth(plan);
  EXPECT_EQ(growth.cells(), 0);
  EXPECT_EQ(growth.forwards(), 0);
  EXPECT_TRUE(growth.origins().empty());
  const std::vector<TokenId> steps[] = {{4}, {5, 6, 9, 7}, {8}, {3}};
  const int cells[] = {1, 4, 5, 6};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(growth.is_complete());
    growth.add(steps[i]);
    EXPECT_EQ(growth.forwards(), static_cast<int>(i) + 1);
    EXPECT_EQ(growth.cells(), cells[i]);
    EXPECT_EQ(growth.codes().size(), static_cast<std::size_t>(cells[i]));
  }
  EXPECT_TRUE(growth.is_complete());
  EXPECT_EQ(growth.codes(), (std::vector<TokenId>{4, 5, 6, 7, 8, 3}));
  std::vector<int> depths;
  for (const CellOrigin& origin : growth.origins()) depths.push_back(origin.depth);
  EXPECT_EQ(depths, (std::vector<int>{0, 1, 2, 0, 0, 0}));
}

TEST(Growth, ShowsTheCellsThatAreDrawn) {
  const fs::path file = fs::path(testing::TempDir()) / "growth_vq.pt";
  std::ofstream(file, std::ios::binary)
      << read_zstd(fs::path(TALON_TEST_DATA) / "golden/images/vq.pt.zst");
  const ImagePlan plan{3, 5};
  const VqDecoder decoder(open_checkpoint(file), plan.rows, plan.columns);
  const std::vector<TokenId> all = {7, 7, 9, 9, 9, 7, 7, 9, 9, 9, 7, 7, 9, 9, 9};
  const Picture whole = decoder.decode(all);
  EXPECT_EQ(preview_of(decoder, plan, all).rgb, whole.rgb);
  // What goes on below is as the picture will be here, so drawn cells have their last pixels.
  const Picture part = preview_of(decoder, plan, std::span(all).first(7));
  for (int y = 0; y < part.height; ++y) {
    for (int x = 0; x < part.width; ++x) {
      const bool is_drawn = y / 2 * 5 + x / 2 < 7;
      const auto at = static_cast<std::size_t>(y * part.width + x) * 3;
      EXPECT_EQ(part.rgb[at], is_drawn ? whole.rgb[at] : 226) << x << ", " << y;
    }
  }
  const Picture none = preview_of(decoder, plan, {});
  EXPECT_EQ(std::ranges::count(none.rgb, 226), std::ssize(none.rgb));
}

TEST(Growth, TintsCellsByHowTheyCame) {
  const ImagePlan plan{1, 3};
  const Picture white{6, 2, std::vector<std::uint8_t>(36, 255)};
  const CellOrigin origins[] = {{0, 0}, {1, 1}};
  const Picture shown = tinted(plan, white, origins);
  const auto pixel = [&](int x) {
    const auto* at = shown.rgb.data() + static_cast<std::ptrdiff_t>(x) * 3;
    return std::vector<int>{at[0], at[1], at[2]};
  };
  EXPECT_EQ(pixel(1)[0], pixel(1)[1]) << "grey: the target's own";
  EXPECT_LT(pixel(1)[1], 255);
  EXPECT_GT(pixel(2)[1], pixel(2)[0]) << "green: drafted";
  EXPECT_EQ(pixel(4), (std::vector<int>{255, 255, 255})) << "as it was";
}

TEST(Growth, KnowsWhatARelaxedRuleLetThrough) {
  const ImagePlan plan{1, 5};
  PictureGrowth growth(plan);
  const std::vector<TokenId> steps[] = {{4}, {5, 6, 7}, {8}};
  const double relaxed[] = {0, 1, 0};
  for (std::size_t i = 0; i < 3; ++i) growth.add(steps[i], relaxed[i]);
  std::vector<double> shares;
  for (const CellOrigin& origin : growth.origins()) shares.push_back(origin.relaxed);
  EXPECT_EQ(shares, (std::vector<double>{0, 0.5, 0.5, 0, 0}));
  const Picture white{10, 2, std::vector<std::uint8_t>(60, 255)};
  const Picture shown = tinted(plan, white, growth.origins());
  EXPECT_LT(shown.rgb[1], 255) << "grey: the target's own";
  EXPECT_GT(shown.rgb[6], shown.rgb[8]) << "half orange";
}

TEST(PictureFacts, ThatDifferAreNamed) {
  PictureFacts facts{"red cat", 5, 1.65F, {.temperature = 1}, "icons", "jacobi", "follow"};
  PngTexts texts = texts_of(facts);
  EXPECT_EQ(texts, (PngTexts{{"prompt", "red cat"},
                             {"seed", "5"},
                             {"guidance", "1.65"},
                             {"temperature", "1"},
                             {"model", "icons"},
                             {"drafter", "jacobi"}}));
  facts.drafter = "grid";
  texts.emplace_back("tau", "3");
  EXPECT_EQ(difference(texts, facts), "") << "exact drafters change no picture";
  facts.guidance_tokens = 12;
  EXPECT_EQ(difference(texts, facts), "guidance_tokens none, not 12");
  facts.guidance_tokens = 0;
  facts.sampler.top_k = 2000;
  EXPECT_EQ(difference(texts, facts), "top_k none, not 2000");
  facts = {"red cat", 6, 1.65F, {.temperature = 1}, "icons", "jacobi", "follow"};
  EXPECT_EQ(difference(texts, facts), "seed 5, not 6");
  facts.seed = 5;
  facts.sampler.repetition_penalty = 1.5;
  EXPECT_EQ(difference(texts, facts), "repetition_penalty none, not 1.5");
  facts.sampler = {.temperature = 1, .logit_bias = {{12, -1.5F}, {40, 2}}, .banned = {7, 9}};
  EXPECT_EQ(difference(texts, facts), "logit_bias none, not 12:-1.5 40:2");
  facts.sampler.logit_bias.clear();
  EXPECT_EQ(difference(texts, facts), "banned none, not 7 9");
  facts.sampler.banned.clear();
  facts.verify = "epsilon:e=0.1";
  EXPECT_EQ(difference(texts, facts), "verify none, not epsilon:e=0.1");
  facts.verify = "follow";
  facts.computed_by = {{"vq_fingerprint", "0a"}, {"weights", "stored"}};
  EXPECT_EQ(difference(texts, facts), "vq_fingerprint none, not 0a");
  texts = texts_of(facts);
  EXPECT_EQ(difference(texts, facts), "");
  facts.computed_by[1].second = "int4";
  EXPECT_EQ(difference(texts, facts), "weights stored, not int4");
  facts.computed_by = {};
  texts = texts_of(facts);
  facts.caption = "c0ffee";
  EXPECT_EQ(difference(texts, facts), "caption_features none, not c0ffee");
  texts = texts_of(facts);
  facts.caption = "0a";
  EXPECT_EQ(difference(texts, facts), "caption_features c0ffee, not 0a");
  texts = texts_of(facts);
  texts.emplace_back("sheet", "2x2");
  EXPECT_EQ(difference(texts, facts), "sheet 2x2, not none");
}

TEST(PictureFacts, OfARelaxedRuleSayWhatDrafted) {
  PictureFacts facts{"red cat", 5, 1, {.temperature = 1}, "icons", "jacobi", "epsilon:e=0.1"};
  facts.policy = "fixed";
  facts.keeps_codes = false;
  const PngTexts texts = texts_of(facts);
  EXPECT_EQ(difference(texts, facts), "");
  facts.drafter = "grid";
  EXPECT_EQ(difference(texts, facts), "drafter jacobi, not grid");
  facts.drafter = "jacobi";
  facts.policy = "throughput";
  EXPECT_EQ(difference(texts, facts), "policy fixed, not throughput");
  facts.keeps_codes = true;
  EXPECT_EQ(difference(texts, facts), "");
}

}  // namespace
}  // namespace talon::growth_test
