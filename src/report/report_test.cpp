#include "report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <regex>

#include "core/error.h"
#include "io/test_files.h"
#include "report/page.h"

namespace talon::report_test {
namespace {

Report small_report() {
  Report report{.kind = ReportKind::cost, .title = "a < b", .subtitle = "</script><b>"};
  report.tables = {{"numbers", {{"x", "y"}, {{"1", "2"}}, "a note"}}};
  report.lines = {{{"rows", 4}, {"ms", std::numeric_limits<double>::quiet_NaN()}}};
  report.more["methods"] = {"none"};
  return report;
}

Json data_in(const std::string& html) {
  const std::string begin = R"(<script type="application/json" id="talon-data">)";
  const std::size_t from = html.find(begin) + begin.size();
  return Json::parse(html.substr(from, html.find("</script>", from) - from));
}

TEST(Report, ThePageHoldsItsData) {
  const Json data = data_in(html_of(small_report()));
  EXPECT_EQ(data.at("kind"), "cost");
  EXPECT_EQ(data.at("title"), "a < b");
  EXPECT_EQ(data.at("subtitle"), "</script><b>");
  EXPECT_EQ(data.at("methods"), Json::array({"none"}));
  EXPECT_EQ(data.at("lines").at(0).at("rows"), 4);
  EXPECT_TRUE(data.at("lines").at(0).at("ms").is_null());
  const Json& table = data.at("tables").at(0);
  EXPECT_EQ(table.at("heading"), "numbers");
  EXPECT_EQ(table.at("note"), "a note");
  EXPECT_EQ(table.at("rows"), Json::parse(R"([["1", "2"]])"));
}

TEST(Report, BytesThatAreNoTextDoNotBreakThePage) {
  Report report = small_report();
  report.lines = {{{"text", "\xFF\xFE"}}};
  EXPECT_EQ(data_in(html_of(report)).at("lines").size(), 1U);
}

TEST(Report, ThePageAsksTheNetworkForNothing) {
  const std::string page(report_page());
  const std::regex source(R"re(<(script|link|img)[^>]*(src|href)=)re");
  EXPECT_FALSE(std::regex_search(page, source));
  EXPECT_NE(page.find("</html>"), page.npos);
}

TEST(Report, AFolderThatIsNotThereIsAnError) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(write_html(folder.path() / "none" / "page.html", small_report()), Error);
  write_html(folder.path() / "page.html", small_report());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "page.html"));
}

TEST(Table, AsMarkdownEscapesBars) {
  const Table table{{"method", "tok/s"}, {{"a|b", "3"}}};
  EXPECT_EQ(markdown_of(table), "| method | tok/s |\n|---|---:|\n| a\\|b | 3 |\n");
}

}  // namespace
}  // namespace talon::report_test
