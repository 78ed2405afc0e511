#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <sstream>

#include "image/png.h"
#include "io/test_files.h"
#include "train/image/compare/compare_pictures.h"
#include "train/image/compare/set_distances.h"
#include "train/image/pictures.h"
#include "train/image/test_image_data.h"
#include "train/image/train_features.h"

namespace talon::compare_test {
namespace {

namespace fs = std::filesystem;

using torch::Tensor;
using namespace image_data_test;

/// Random rows that are the same in every run.
Tensor drawn(std::int64_t rows, std::int64_t width, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({rows, width}, torch::kDouble);
}

/// Four points whose mean is 0 and whose covariance is the identity.
Tensor cross() {
  const double at = std::sqrt(0.75);
  return torch::tensor({at, at, at, -at, -at, at, -at, -at}, torch::kDouble).view({4, 2});
}

TEST(FrechetDistance, IsThatOfGaussians) {
  const Tensor shift = torch::tensor({3.0, 4.0}, torch::kDouble);
  EXPECT_NEAR(frechet_distance(cross(), cross()), 0, 1e-9);
  EXPECT_NEAR(frechet_distance(cross(), cross() + shift), 25, 1e-9);
  EXPECT_NEAR(frechet_distance(cross(), cross() * 3), 2 * (1 + 9 - 2 * 3), 1e-9);
  const Tensor scale = torch::tensor({2.0, 1.0}, torch::kDouble);
  EXPECT_NEAR(frechet_distance(cross() * scale, cross() + shift), 25 + (4 + 1 - 2 * 2), 1e-9);
}

// Sets of one law: 0 in expectation, whatever their sizes; the errors say how far they stray.
TEST(KernelDistance, IsZeroInExpectationForOneLaw) {
  double squares = 0, errors = 0, sum = 0;
  constexpr int kTimes = 40;
  for (int i = 0; i < kTimes; ++i) {
    const Tensor a = drawn(40, 4, 2 * i + 1), b = drawn(60, 4, 2 * i + 2);
    const double value = kernel_distance(a, b);
    sum += value;
    squares += value * value;
    errors += std::pow(standard_error(a, b, kernel_distance), 2);
  }
  EXPECT_LT(std::abs(sum / kTimes), 3 * std::sqrt(squares) / kTimes);
  EXPECT_GT(errors / squares, 0.5);
  EXPECT_LT(errors / squares, 3);
  EXPECT_GT(kernel_distance(drawn(40, 4, 1) + 1, drawn(60, 4, 2)), 1);
}

TEST(CoveredShare, CountsWhatLiesWithinTheReachOfAPoint) {
  const Tensor points = torch::tensor({0.0, 1.0, 3.0, 6.0}, torch::kDouble).view({4, 1});
  // Second neighbours: 3, 2, 3 and 5 away.
  const Tensor of = torch::tensor({-3.0, -3.1, 11.0, 11.1}, torch::kDouble).view({4, 1});
  EXPECT_EQ(covered_share(of, points, 2), 0.5);
  EXPECT_EQ(covered_share(points, points, 1), 1);
}

TEST(NearestDistances, AreThoseOfEachRow) {
  const Tensor to = torch::tensor({0.0, 10.0}, torch::kDouble).view({2, 1});
  const Tensor from = torch::tensor({1.0, 7.0, 10.0}, torch::kDouble).view({3, 1});
  EXPECT_TRUE(nearest_distances(from, to).equal(torch::tensor({1.0, 3.0, 0.0}, torch::kDouble)));
}

Picture picture_of(const PictureSet& data, std::size_t index) {
  const auto pixels = data.pixels(index);
  return {data.side(), data.side(), {pixels.begin(), pixels.end()}};
}

class ComparePictures : public testing::Test {
 protected:
  static constexpr int kPictures = 16, kHeldOut = 6;

  ComparePictures() {
    write_pictures(data_, kPictures, kHeldOut);
    FeaturesOptions features;
    features.data = data_.string();
    features.schedule = small_schedule(data_ / "features", 80, 3e-3);
    features.shift = 0;
    train_features(features, quiet());
    options_.data = data_.string();
    options_.features = (data_ / "features").string();
  }

  /// Pictures of the data set, each under a prompt.
  void draw(const char* folder, int first, int count,
            const std::function<std::string(int)>& prompt) {
    const PictureSet data(data_.string());
    fs::create_directories(data_ / folder);
    for (int i = first; i < first + count; ++i) {
      write_png(data_ / folder / ("p" + std::to_string(i) + ".png"),
                picture_of(data, static_cast<std::size_t>(i)), {{"prompt", prompt(i)}});
    }
    options_.sets.push_back((data_ / folder).string());
  }
  static std::string own_prompt(int i) {
    return "box n" + std::to_string(i) + (i % 2 == 0 ? " flat" : " round");
  }

  std::string refusal() const {
    return test::message_of([&] { compare_pictures(options_, quiet()); });
  }

  Folder data_;
  CompareOptions options_;
};

TEST_F(ComparePictures, SaysOfRealPicturesWhatItSaysOfTheData) {
  draw("own", kPictures - kHeldOut, kHeldOut, own_prompt);
  draw("copied", 4, kPictures - kHeldOut - 4, own_prompt);  // of the same category
  const std::vector<Json> lines = compare_pictures(options_, quiet());
  ASSERT_EQ(lines.size(), 4U);
  const Json &real = lines[0], &trained = lines[1], &own = lines[2], &copied = lines[3];
  EXPECT_EQ(real["set"], "real");
  EXPECT_EQ(real["count"], kHeldOut);
  EXPECT_EQ(trained["set"], "trained on");
  for (const char* key : {"style", "category", "both", "words", "precision", "recall", "copies"})
    EXPECT_EQ(own[key], real[key]) << key;
  EXPECT_LT(std::abs(own["fd"].get<double>()), 1e-3 * copied["fd"].get<double>());
  EXPECT_EQ(own["precision"], 1.0);
  EXPECT_LT(real["copies"], 0.5);
  EXPECT_EQ(copied["copies"], 1.0);
  EXPECT_EQ(trained["copies"], 1.0);
  EXPECT_EQ(copied["style"], 1.0) << "learned";
  EXPECT_EQ(copied["words"], 1.0) << "learned";
  EXPECT_EQ(copied["fd_first"], copied["fd"]) << "the first set is the held-out pictures";
}

/// The same pictures: nine of the first category, of which four are trained on, and seven others.
void hold_out_of_both_categories(const Folder& data) {
  std::istringstream lines(bytes_of(data / "index.jsonl"));
  std::string index, line;
  for (int i = 0; std::getline(lines, line); ++i) {
    Json json = Json::parse(line);
    json["category"] = i < 9 ? "first" : "second";
    json["split"] = i < 5 || i >= 12 ? "held-out" : "train";
    index += json.dump() + "\n";
  }
  std::ofstream(data / "index.jsonl") << index;
}

TEST_F(ComparePictures, HoldsThemAgainstHeldOutPicturesOfThePrompts) {
  hold_out_of_both_categories(data_);
  draw("own", 0, 5, own_prompt);
  const std::vector<Json> lines = compare_pictures(options_, quiet());
  ASSERT_EQ(lines.size(), 3U);
  const Json &real = lines[0], &trained = lines[1], &own = lines[2];
  EXPECT_EQ(real["count"], 5);
  EXPECT_EQ(trained["count"], 4) << "no picture of the other category";
  EXPECT_EQ(trained["copies"], 1.0);
  EXPECT_EQ(own["recall"], 1.0);
  EXPECT_EQ(own["precision"], 1.0);
  EXPECT_LT(std::abs(own["fd"].get<double>()), 1e-3 * trained["fd"].get<double>());
  for (const Json& line : lines) {
    EXPECT_EQ(line["reference"], "held out, of the prompts");
    EXPECT_EQ(line["reference_count"], 5);
  }
}

TEST_F(ComparePictures, OfTooFewOfThemTheyTakeAllThatAreHeldOut) {
  hold_out_of_both_categories(data_);
  draw("own", 2, 3, own_prompt);
  const std::vector<Json> lines = compare_pictures(options_, quiet());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2]["reference"], "held out");
  EXPECT_EQ(lines[2]["reference_count"], 9);
  EXPECT_FALSE(lines[2].contains("fd")) << "three pictures";
}

TEST_F(ComparePictures, AskedForOtherThingsTheyAreNotRecognised) {
  draw("own", 0, 10, own_prompt);
  draw("others", 0, 10, [](int i) { return own_prompt((i + 5) % 10); });
  const std::vector<Json> lines = compare_pictures(options_, quiet());
  ASSERT_EQ(lines.size(), 3U) << "no held-out picture is asked for";
  EXPECT_EQ(lines[0]["set"], "trained on");
  EXPECT_EQ(lines[1]["style"], 1.0);
  EXPECT_EQ(lines[2]["style"], 0.0);
  EXPECT_LT(lines[2]["words"], 0.8);
  EXPECT_EQ(lines[2]["fd"], lines[1]["fd"]) << "distances ask for nothing";
}

TEST_F(ComparePictures, RefusesWhatIsNotOfTheDataByName) {
  draw("own", 10, 4, own_prompt);
  const auto expect = [&](const char* file, const Picture& picture, const PngTexts& texts,
                          const char* what) {
    write_png(data_ / file, picture, texts);
    const std::string found = refusal();
    EXPECT_NE(found.find(file), std::string::npos) << found;
    EXPECT_NE(found.find(what), std::string::npos) << found;
    fs::remove(data_ / file);
  };
  const PictureSet data(data_.string());
  const Picture one = picture_of(data, 0);
  expect("own/q.png", one, {}, "expected a text \"prompt\"");
  expect("own/q.png", one, {{"prompt", "box n0 square"}}, "found \"box n0 square\"");
  expect("own/q.png", {8, 16, std::vector<std::uint8_t>(8 * 16 * 3)}, {{"prompt", "box n0 flat"}},
         "expected 16 pixels a side, as the data have, found 8 by 16");
  options_.sets = {(data_ / "features").string()};
  EXPECT_NE(refusal().find("expected PNG files, found none"), std::string::npos) << refusal();
  options_.sets = {(data_ / "nowhere").string()};
  EXPECT_NE(refusal().find("nowhere: No such file"), std::string::npos) << refusal();
}

TEST_F(ComparePictures, RefusesDataOfWhichTooFewAreHeldOut) {
  draw("own", 10, 4, own_prompt);
  write_pictures(data_, kPictures, 3);
  EXPECT_NE(refusal().find("expected more than 3 pictures that are held out, found 3"),
            std::string::npos)
      << refusal();
}

TEST_F(ComparePictures, RefusesANetworkOfOtherPictures) {
  draw("own", 10, 4, own_prompt);
  write_pictures(data_, kPictures + 1, kHeldOut);
  EXPECT_NE(refusal().find("expected a network of the pictures of"), std::string::npos)
      << refusal();
}

}  // namespace
}  // namespace talon::compare_test
