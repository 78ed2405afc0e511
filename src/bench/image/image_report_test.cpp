#include "bench/image/image_report.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/test_files.h"

namespace talon::image_report_test {
namespace {

namespace fs = std::filesystem;

Json closing() {
  return {{"summary",
           {{"eagle2", {{"steps_compression", 2.5}, {"pictures", "drawn/01-eagle2"}}},
            {"none", {{"steps_compression", 1.0}, {"pictures", "drawn/00-none"}}},
            {"jacobi", {{"steps_compression", 1.5}}}}},
          {"methods", {"none", "jacobi", "eagle2"}}};
}

fs::path written(const std::string& text) {
  const fs::path file = fs::path(testing::TempDir()) / "bench_image.jsonl";
  std::ofstream(file, std::ios::trunc) << text;
  return file;
}

TEST(ImageReport, KeepsTheOrderOfTheMethods) {
  const auto lines =
      read_method_lines(written("{\"prompt\": \"cat\"}\n" + closing().dump() + "\n"));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["method"], "none");
  EXPECT_EQ(lines[1]["method"], "jacobi");
  EXPECT_EQ(lines[2]["method"], "eagle2");
  EXPECT_EQ(lines[2]["steps_compression"], 2.5);
}

TEST(ImageReport, PutsTheNumbersOfAMethodBesideItsPictures) {
  const std::vector<Json> sets = {{{"set", "real"}, {"both", 0.9}},
                                  {{"set", "drawn/00-none"}, {"both", 0.7}},
                                  {{"set", "drawn/01-eagle2"}, {"both", 0.6}}};
  const auto lines = with_methods(sets, method_lines(closing()));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_FALSE(lines[0].contains("method"));
  EXPECT_EQ(lines[2]["method"], "eagle2");
  EXPECT_EQ(lines[2]["both"], 0.6);
  EXPECT_EQ(lines[2]["steps_compression"], 2.5);
  EXPECT_EQ(lines[3]["method"], "jacobi");
  const Report report = image_report(lines, "");
  ASSERT_EQ(report.tables.size(), 2U);
  EXPECT_EQ(report.tables[0].table.rows.size(), 3U) << "methods";
  EXPECT_EQ(report.tables[1].table.rows.size(), 3U) << "sets";
}

TEST(ImageReport, RefusesWhatIsNoRunByName) {
  for (const char* text :
       {"", "{\"prompt\": \"cat\"}\n", "{\"summary\": {\"none\": 3}}\n", "[]\n"}) {
    const fs::path file = written(text);
    const std::string found = test::message_of([&] { read_method_lines(file); });
    EXPECT_NE(found.find("bench_image.jsonl: expected"), std::string::npos) << found;
  }
}

}  // namespace
}  // namespace talon::image_report_test
