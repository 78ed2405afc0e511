#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "../faults/cli_process.h"
#include "io/codec/zstd.h"
#include "io/json.h"

// What `talon image` and `talon bench image` take where nothing is asked for, and what they say of
// each picture, with the tiny models of tests/data/golden/images.
namespace talon::test::image_reports_test {
namespace {

namespace fs = std::filesystem;

constexpr int kCells = 15;
const std::string kRelaxed = "lantern:k=30,lambda=50";

class ImageReports : public testing::Test {
 protected:
  ImageReports() {
    const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
    for (const char* name : {"config.json", "words.json"})
      words_.write(name, read_file(golden / "words" / name));
    words_.write("model.safetensors", read_zstd(golden / "words/model.safetensors.zst"));
    words_.write("vq.safetensors", read_zstd(golden / "words/vq.safetensors.zst"));
    classes_.write("c2i.pt", read_zstd(golden / "c2i.pt.zst"));
    classes_.write("vq.safetensors", read_zstd(golden / "vq.pt.zst"));  // told apart by content
  }

  static std::vector<Json> lines_of(const std::vector<std::string>& arguments) {
    const Outcome outcome = run_talon(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    std::istringstream text(outcome.output);
    std::vector<Json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  std::vector<Json> bench(const std::string& prompts, std::vector<std::string> more) const {
    more.insert(more.begin(), {"bench", "image", "-m", words_.path().string(), "--prompts",
                               out_.write("prompts.jsonl", prompts)});
    return lines_of(more);
  }
  /// What a run with the model of classes says of how it draws.
  Json classes(std::vector<std::string> more) const {
    more.insert(more.begin(), {"image", "-m", classes_.file("c2i.pt"), "--cells", "4", "--class",
                               "2", "-o", out_.file("out.png"), "--json"});
    return lines_of(more).at(0);
  }

  Folder words_, classes_, out_;
};

/// That the summary of a run by a rule that relaxes is that of its pictures.
void expect_sums_of(const std::vector<Json>& pictures, const Json& summary) {
  double sum = 0, worst = 0, surprise = 0;
  for (const Json& one : pictures) {
    EXPECT_EQ(one["codes"], kCells);
    EXPECT_NEAR(one["tau"].get<double>(), (kCells - 1.0) / one["rounds"].get<int>(), 1e-12);
    EXPECT_GE(one["relaxed"].get<double>(), 0);
    ASSERT_TRUE(one["surprise"].is_number()) << one;
    const double distortion = one["distortion"];
    sum += distortion * kCells;
    worst = std::max(worst, distortion);
    surprise += one["surprise"].get<double>();
  }
  const auto count = static_cast<double>(pictures.size());
  EXPECT_GT(sum, 0);
  EXPECT_GT(summary["relaxed"].get<double>(), 0);
  EXPECT_NEAR(summary["distortion_sum"].get<double>(), sum, 1e-9);
  EXPECT_NEAR(summary["distortion"].get<double>(), sum / (kCells * count), 1e-9);
  EXPECT_NEAR(summary["distortion_worst"].get<double>(), worst, 1e-12);
  EXPECT_NEAR(summary["surprise"].get<double>(), surprise / count, 1e-9);
}

TEST_F(ImageReports, LinesOfABenchSayWhatARelaxedRuleChanged) {
  const std::string method = "jacobi@policy=fixed@verify=" + kRelaxed;
  std::vector<Json> lines = bench("{\"prompt\": \"red cat flat\"}\n{\"prompt\": \"round\"}\n",
                                  {"-n", "4", "--methods", method});
  ASSERT_EQ(lines.size(), 2 * 8 + 1u);
  const Json summary = lines.back()["summary"][method];
  lines.pop_back();
  std::erase_if(lines, [&](const Json& line) { return line["method"] != method; });
  for (const Json& line : lines)
    EXPECT_EQ(line["accepted"].size(), line["rounds"].get<std::size_t>());
  expect_sums_of(lines, summary);
}

TEST_F(ImageReports, LinesOfABatchSayWhatARelaxedRuleChanged) {
  std::string asked;
  for (int i = 0; i < 8; ++i) asked += "{\"prompt\": \"red cat flat\"}\n";
  const std::vector<std::string> batch = {"image",
                                          "-m",
                                          words_.path().string(),
                                          "--batch",
                                          out_.write("lines.jsonl", asked),
                                          "--json",
                                          "-d",
                                          "jacobi",
                                          "--policy",
                                          "fixed"};
  const auto drawn = [&](const std::string& folder, const std::string& rule) {
    std::vector<std::string> all = batch;
    all.insert(all.end(), {"-o", out_.file(folder), "--verify", rule});
    return lines_of(all);
  };
  std::vector<Json> lines = drawn("relaxed", kRelaxed);
  ASSERT_EQ(lines.size(), 9u);
  const Json summary = lines.back()["summary"];
  lines.pop_back();
  expect_sums_of(lines, summary);
  for (const Json& line : drawn("exact", "follow")) {
    const Json& one = line.contains("summary") ? line["summary"] : line;
    EXPECT_TRUE(one["surprise"].is_null()) << one;
    EXPECT_EQ(one["distortion"], 0.0) << one;
  }
}

TEST_F(ImageReports, PicturesSayWhatARelaxedRuleChanged) {
  const std::vector<Json> lines = lines_of(
      {"image", "-m", words_.path().string(), "-p", "red cat flat", "-n", "8", "-o",
       out_.file("out/"), "--json", "-d", "jacobi", "--policy", "fixed", "--verify", kRelaxed});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["accepted"].size(), 8u);
  EXPECT_EQ(lines[0]["tokens"], 8 * kCells);
  EXPECT_EQ(lines[0]["codes"], 8 * kCells);
  expect_sums_of(lines[0]["images"].get<std::vector<Json>>(), lines[0]);
}

TEST_F(ImageReports, LinesOfABenchWithoutASeedHaveOneOfTheirOwn) {
  const std::vector<Json> lines = bench(
      "{\"prompt\": \"red cat flat\"}\n{\"prompt\": \"round\", \"seed\": 100}\n"
      "{\"prompt\": \"moon round\"}\n",
      {"-n", "2", "--seed", "5", "--methods", "jacobi"});
  std::vector<int> seeds;
  for (const Json& line : lines) {
    if (line.value("method", "") == "none") seeds.push_back(line["seed"].get<int>());
  }
  EXPECT_EQ(seeds, (std::vector<int>{5, 6, 100, 101, 9, 10}));
}

TEST_F(ImageReports, TheUsualGuidanceIsThatOfTheFamily) {
  EXPECT_EQ(classes({})["guidance"], 4.0);
  EXPECT_EQ(classes({})["top_k"], 0) << "there are 48 codes";
  EXPECT_EQ(classes({"--guidance", "2"})["guidance"], 2.0);
  EXPECT_EQ(classes({"--top-k", "7"})["top_k"], 7);
  EXPECT_EQ(classes({})["images"][0]["tokens"],
            classes({"--guidance", "4"})["images"][0]["tokens"]);
  const std::vector<Json> lines =
      lines_of({"bench", "image", "-m", classes_.file("c2i.pt"), "--cells", "4", "--prompts",
                out_.write("prompts.jsonl", "{\"class\": 2}\n"), "--methods", "jacobi"});
  EXPECT_EQ(lines.back()["settings"]["guidance"], 4.0);
  const std::vector<Json> of_words = bench("{\"prompt\": \"round\"}\n", {"--methods", "jacobi"});
  EXPECT_EQ(of_words.back()["settings"]["guidance"], 2.0);
}

}  // namespace
}  // namespace talon::test::image_reports_test
