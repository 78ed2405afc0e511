#include "bench/image/image_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "bench/method_name.h"
#include "core/error.h"
#include "io/json_text.h"

namespace talon {
namespace {

constexpr const char* kDrawnNote =
    "Equal: share of pictures with the codes of plain drawing. tau: codes a check, beside it those "
    "of checks that do not begin in the background; steps: codes a forward; times: over plain "
    "drawing of the same picture, median and worst. Distortion is metered, a code, beside it the "
    "most of a picture. Surprise: mean of -log p - H in nats, 0 for exact drawing; z: how many "
    "standard errors from 0, or where pictures share seeds at least how many.";
constexpr const char* kComparedNote =
    "Shares of pictures that a small network of our own takes for the style, the category and both "
    "that were asked for, and the average precision of the words; distances of its features to "
    "held-out pictures (FD, KID in thousandths, with standard errors), whose number stands under "
    "beside, those of the same prompts if there are enough, and to the first set that was drawn; "
    "precision and recall by three neighbours; copies: nearer to a picture that was trained on "
    "than 99 of 100 held-out ones.";

double number_of(const Json& line, const std::string& key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : NAN;
}

std::string text_of(const Json& line, const std::string& key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string with_error(const Json& line, const std::string& key, double times, int digits) {
  const double value = number_of(line, key), error = number_of(line, key + "_error");
  if (!std::isfinite(value)) return number(value, digits);
  if (!std::isfinite(error)) return number(value * times, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", value * times, digits, error * times, digits);
}

Table drawn_table(const std::vector<Json>& lines) {
  Table table{.columns = {"method", "equal", "tau", "foreground", "steps", "times", "worst",
                          "distortion", "most", "surprise", "z"},
              .caption = kDrawnNote};
  for (const Json& line : lines) {
    const auto cell = [&](const char* key, int digits) {
      return number(number_of(line, key), digits);
    };
    table.rows.push_back({text_of(line, "name"), cell("equal", 2), cell("tau", 2),
                          cell("tau_foreground", 2), cell("steps_compression", 2),
                          cell("speedup", 2), cell("worst", 2), cell("distortion", 3),
                          cell("distortion_worst", 3), cell("surprise", 3), cell("surprise_z", 1)});
  }
  return table;
}

Table compared_table(const std::vector<Json>& lines) {
  Table table{.columns = {"set", "pictures", "style", "category", "both", "words", "beside", "FD",
                          "KID", "FD to the first", "precision", "recall", "copies"},
              .caption = kComparedNote};
  for (const Json& line : lines) {
    const auto cell = [&](const char* key) { return number(number_of(line, key), 2); };
    table.rows.push_back(
        {text_of(line, line.contains("name") ? "name" : "set"), number(number_of(line, "count"), 0),
         cell("style"), cell("category"), cell("both"), cell("words"),
         number(number_of(line, "reference_count"), 0), with_error(line, "fd", 1, 2),
         with_error(line, "kid", 1000, 1), with_error(line, "fd_first", 1, 2), cell("precision"),
         cell("recall"), cell("copies")});
  }
  return table;
}

std::vector<Json> lines_with(const std::vector<Json>& lines, const char* key) {
  std::vector<Json> some;
  std::ranges::copy_if(lines, std::back_inserter(some),
                       [&](const Json& line) { return line.contains(key); });
  return some;
}

}  // namespace

std::vector<Json> method_lines(const Json& closing) {
  std::vector<Json> lines;
  for (const auto& [method, numbers] : closing.at("summary").items()) {
    Json line = {{"method", method}, {"name", short_method_name(method)}};
    line.update(numbers);
    lines.push_back(std::move(line));
  }
  const Json order = closing.value("methods", Json::array());
  const auto place = [&](const Json& line) { return std::ranges::find(order, line["method"]); };
  std::ranges::stable_sort(lines, {}, place);
  return lines;
}

std::vector<Json> read_method_lines(const std::filesystem::path& file) {
  const std::string doing = "read " + file.string();
  std::ifstream input(file);
  std::string line, last;
  while (std::getline(input, line)) {
    if (!line.empty()) last = line;
  }
  if (last.empty()) fail("{}: expected the lines of talon bench image, found none", doing);
  const Json closing = parse_json(last, doing);
  const bool is_summary = closing.is_object() && closing.contains("summary");
  if (!is_summary || !closing["summary"].is_object() ||
      !std::ranges::all_of(closing["summary"], [](const Json& one) { return one.is_object(); }))
    fail("{}: expected a last line with \"summary\", as talon bench image writes it", doing);
  return method_lines(closing);
}

std::vector<Json> with_methods(std::vector<Json> sets, const std::vector<Json>& methods) {
  std::vector<Json> others;
  for (const Json& method : methods) {
    const std::string pictures = text_of(method, "pictures");
    const auto set = std::ranges::find_if(
        sets, [&](const Json& one) { return !pictures.empty() && one["set"] == pictures; });
    if (set == sets.end()) {
      others.push_back(method);
    } else {
      Json merged = method;
      merged.update(*set);
      *set = std::move(merged);
    }
  }
  sets.insert(sets.end(), others.begin(), others.end());
  return sets;
}

Report image_report(const std::vector<Json>& lines, std::string subtitle) {
  Report report{.kind = ReportKind::pictures,
                .title = "Talon: ways to draw pictures",
                .subtitle = std::move(subtitle),
                .lines = lines};
  const auto drawn = lines_with(lines, "steps_compression"), compared = lines_with(lines, "both");
  if (!drawn.empty()) report.tables.push_back({"drawn", drawn_table(drawn)});
  if (!compared.empty()) report.tables.push_back({"compared", compared_table(compared)});
  return report;
}

std::string image_markdown(const std::vector<Json>& lines) {
  std::string text;
  for (const Report::Part& part : image_report(lines, "").tables)
    text += (text.empty() ? "" : "\n") + markdown_of(part.table) + "\n" + part.table.caption + "\n";
  return text;
}

}  // namespace talon
