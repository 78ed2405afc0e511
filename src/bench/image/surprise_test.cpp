#include "bench/image/surprise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "io/test_pictures.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"

namespace talon::surprise_test {
namespace {

namespace fs = std::filesystem;

/// 40 codes, pictures of 3 by 5 cells.
fs::path words_folder() {
  return test::unpack_picture("talon_surprise", "words/model.safetensors").parent_path();
}

class SurpriseTest : public testing::Test {
 protected:
  SurpriseTest()
      : backend_(make_reference_backend(1)),
        model_(load_model(open_checkpoint(words_folder()), *backend_)) {}

  Request request(std::uint64_t seed) const {
    Request request;
    const TokenId first = model_.config.vocabulary;
    request.prompt = {first + 1, first + 8, first + 8, first + 8, first + 8, first + 6};
    request.guide_prompt.assign(6, first + 8);
    request.guidance = 2;
    request.max_new = 15;
    request.sampler.temperature = 1;
    request.seed = seed;
    return request;
  }

  /// Of `pictures` drawn by `verify` from drafts, as drawn or under the law of `judged`.
  SurpriseOfPictures of(const std::string& method, int pictures, double judged_temperature = 1) {
    const auto cache = open_cache(model_, {.bytes = std::size_t{4} << 20, .type = KvType::f32});
    DecodeSettings settings = with_method({}, parse_method(method));
    Answerer answerer(model_, *cache, nullptr, settings);
    SurpriseOfPictures all;
    for (int i = 0; i < pictures; ++i) {
      Request judged = request(static_cast<std::uint64_t>(i) + 1);
      const Answer answer = answerer.decode(judged);
      judged.sampler.temperature = judged_temperature;
      all.add(judged.seed, surprise_of(model_, judged, answer.tokens));
    }
    return all;
  }

  std::unique_ptr<Backend> backend_;
  Model model_;
};

// 3000 codes of one fixed run: |z| is below 3 but for 3 runs in 1000.
TEST_F(SurpriseTest, IsAboutZeroForExactDrawing) {
  const SurpriseOfPictures surprise = of("jacobi@policy=fixed", 200);
  EXPECT_EQ(surprise.impossible(), 0);
  EXPECT_LT(std::abs(surprise.z()), 3) << surprise.mean();
}

TEST_F(SurpriseTest, TellsCodesOfAFlatterAndOfASharperLaw) {
  EXPECT_GT(of("none", 60, 0.7).z(), 5);
  EXPECT_LT(of("none", 60, 1.5).z(), -5);
}

/// One row by hand: p = softmax of the guided logits of the first cell.
TEST_F(SurpriseTest, IsMinusLogPLessEntropy) {
  const Request asked = request(1);
  double sum = 0, mean = 0;
  for (TokenId code = 0; code < model_.config.vocabulary; ++code) {
    const Surprise one = surprise_of(model_, asked, std::vector<TokenId>{code});
    // sum p (-log p - H) = 0, and the p are those that make it so and sum to 1.
    const double entropy_and_sum = one.sum;
    sum += std::exp(-entropy_and_sum);
    mean += std::exp(-entropy_and_sum) * entropy_and_sum;
  }
  EXPECT_NEAR(mean / sum, 0, 1e-6);
}

/// A model whose rows of cells have a token behind them: that is no code, and surprises nobody.
TEST(SurpriseOfRows, CountsNoTokenThatMustStandThere) {
  const auto backend = make_reference_backend(1);
  const Model model = load_model(
      open_checkpoint(
          test::unpack_picture("talon_surprise", "lumina/model.safetensors").parent_path()),
      *backend);
  const ImagePlan& plan = *model.config.image;
  ASSERT_GT(plan.answer_tokens(), plan.cells());
  Request request;
  for (const TokenId token : {plan.text_start, plan.text_end, plan.picture_start})
    request.prompt.push_back(model.config.vocabulary + token);
  request.sampler.temperature = 1;
  std::vector<TokenId> answer(static_cast<std::size_t>(plan.answer_tokens()), 3);
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (plan.forced(static_cast<int>(i)) >= 0) answer[i] = plan.row_end;
  }
  const Surprise surprise = surprise_of(model, request, answer);
  EXPECT_EQ(surprise.codes, plan.cells());
  EXPECT_EQ(surprise.impossible, 0);
}

constexpr int kPrompts = 64, kPlaces = 128, kCodes = 16;

/// Known laws, those of all prompts much alike: with one noise they mostly draw the same codes.
std::vector<float> known_logits(int prompt, int place) {
  std::vector<float> logits(kCodes);
  for (int code = 0; code < kCodes; ++code) {
    const int cell = place * kCodes + code;
    logits[static_cast<std::size_t>(code)] = static_cast<float>(
        2 * std::sin(12.9898 * cell) + 0.3 * std::sin(78.233 * (prompt * kPlaces * kCodes + cell)));
  }
  return logits;
}

/// A picture of each prompt, drawn at a temperature from laws of temperature 1. between: seeds from
/// one prompt's to the next one's.
struct KnownPictures {
  SurpriseOfPictures all;
  double sum = 0, variance = 0;

  KnownPictures(std::uint64_t seed, std::uint64_t between, double temperature) {
    Sampler drawer({.temperature = temperature}, kCodes), judge({.temperature = 1}, kCodes);
    for (int prompt = 0; prompt < kPrompts; ++prompt, seed += between) {
      const PositionRandom random(seed, 0);
      Surprise picture;
      for (int place = 0; place < kPlaces; ++place) {
        const std::vector<float> logits = known_logits(prompt, place);
        const auto position = static_cast<std::uint64_t>(place);
        const TokenId code = drawer.sample(logits, {}, random, position);
        picture.add(judge.distribution_by_token(logits, {}), code);
      }
      all.add(seed, picture);
      sum += picture.sum;
      variance += picture.variance;
    }
  }
};

// |z| is below 3 but for 3 runs in 1000, and even more rarely where seeds are shared.
TEST(SurpriseOfKnownLaws, IsAboutZeroForExactDrawingWhetherPromptsShareASeedOrNot) {
  double furthest = 0;
  for (std::uint64_t run = 1; run <= 5; ++run) {
    const KnownPictures of_one_seed(run, 0, 1), of_many_seeds(1000 * run, 1, 1);
    EXPECT_LT(std::abs(of_one_seed.all.z()), 3) << run;
    EXPECT_LT(std::abs(of_many_seeds.all.z()), 3) << run;
    EXPECT_NEAR(of_many_seeds.all.z(), of_many_seeds.sum / std::sqrt(of_many_seeds.variance), 1e-9);
    furthest = std::max(furthest, std::abs(of_one_seed.sum) / std::sqrt(of_one_seed.variance));
  }
  EXPECT_GT(furthest, 3) << "as if pictures of one seed did not depend on one another";
}

TEST(SurpriseOfKnownLaws, FindsAnotherLawWhetherPromptsShareASeedOrNot) {
  for (const std::uint64_t between : {0, 1}) {
    EXPECT_LT(KnownPictures(1, between, 0.5).all.z(), -3) << between;
    EXPECT_GT(KnownPictures(1, between, 2).all.z(), 3) << between;
  }
}

TEST(SurpriseOfKnownLaws, CountsAPictureThatIsThereTwiceAsOne) {
  const Surprise picture{.sum = 6, .variance = 4, .codes = 10};
  SurpriseOfPictures once, twice, apart;
  once.add(1, picture);
  for (int i = 0; i < 4; ++i) {
    twice.add(1, picture);
    apart.add(static_cast<std::uint64_t>(i), picture);
  }
  EXPECT_DOUBLE_EQ(once.z(), 3);
  EXPECT_DOUBLE_EQ(twice.z(), 3);
  EXPECT_DOUBLE_EQ(apart.z(), 6);
  EXPECT_DOUBLE_EQ(twice.mean(), 0.6);
}

}  // namespace
}  // namespace talon::surprise_test
