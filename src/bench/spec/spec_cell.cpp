#include "bench/spec/spec_cell.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "io/json_text.h"
#include "trace/statistics.h"

namespace talon {
namespace {

/// The fields of a line. Messages name the one that is missing or of another kind.
class Fields {
 public:
  Fields(const Json& json, const std::string& doing) : json_(json), doing_(doing) {}

  template <typename T>
  T get(const char* key, std::string_view kind) const {
    const auto found = json_.find(key);
    if (found == json_.end())
      fail("{}: expected a line of bench spec, found one without \"{}\"", doing_, key);
    try {
      return found->get<T>();
    } catch (const Json::exception&) {
      refuse(key, kind, found->dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
  template <typename T>
  T get_or(const char* key, std::string_view kind, T otherwise) const {
    return json_.contains(key) ? get<T>(key, kind) : otherwise;
  }
  /// Counts, times and speeds.
  template <typename T>
  T amount(const char* key, std::optional<T> otherwise = {}) const {
    constexpr std::string_view kKind = "a number that is not negative";
    const T value = otherwise ? get_or<T>(key, kKind, *otherwise) : get<T>(key, kKind);
    if (!(value >= 0)) refuse(key, kKind, fmt::format("{}", value));
    return value;
  }
  std::vector<double> amounts(const char* key, std::size_t least) const {
    const std::string kind = fmt::format("at least {} numbers that are not negative", least);
    const auto values = get<std::vector<double>>(key, kind);
    const bool fits = std::ranges::all_of(values, [](double value) { return value >= 0; });
    if (!fits || values.size() < least) refuse(key, kind, json_.at(key).dump());
    return values;
  }

 private:
  [[noreturn]] void refuse(const char* key, std::string_view kind, const std::string& found) const {
    fail("{}: \"{}\": expected {}, found {}", doing_, key, kind, found);
  }

  const Json& json_;
  const std::string& doing_;
};

std::vector<double> all_rounded(std::vector<double> values) {
  for (double& value : values) value = rounded(value);
  return values;
}

}  // namespace

std::string condition_of(const SpecCell& cell) {
  return fmt::format("{}\n{}\n{}\n{}", cell.question_id.dump(), cell.category, cell.temperature,
                     cell.seed);
}

Json json_of(const SpecCell& cell) {
  Json json = {{"question_id", cell.question_id},
               {"category", cell.category},
               {"method", cell.method},
               {"temperature", cell.temperature},
               {"seed", cell.seed},
               {"prompt_tokens", cell.prompt_tokens},
               {"new_tokens", cell.new_tokens},
               {"equal", cell.equal}};
  if (!cell.date.empty()) json["date"] = cell.date;
  if (!cell.claims_equal) json["claims_equal"] = false;
  if (cell.bandwidth_gb_s > 0) json["bandwidth_gb_s"] = rounded(cell.bandwidth_gb_s);
  if (!cell.error.empty()) {
    json["error"] = cell.error;
    json["tok_s"] = nullptr;
    json["tau"] = nullptr;
    return json;
  }
  json["tok_s"] = rounded(spread_of(cell.tok_s).median);
  json["tau"] = cell.rounds.tau();
  json["wall_tok_s"] = rounded(spread_of(cell.wall_tok_s).median);
  json["tok_s_repeats"] = all_rounded(cell.tok_s);
  json["wall_tok_s_repeats"] = all_rounded(cell.wall_tok_s);
  json["prefill_ms"] = rounded(cell.prefill_ms);
  json["decode_ms"] = rounded(cell.decode_ms);
  json["draft_ms"] = rounded(cell.draft_ms);
  json["check_ms"] = rounded(cell.check_ms);
  json.update(json_of(cell.rounds));
  return json;
}

SpecCell cell_from(const Json& json, const std::string& doing) {
  const Fields fields(json, doing);
  SpecCell cell;
  cell.question_id = fields.get<Json>("question_id", "the question of a line of bench spec");
  cell.category = fields.get<std::string>("category", "a text");
  cell.method = fields.get<std::string>("method", "a text");
  cell.temperature = fields.amount<double>("temperature", 0.0);
  cell.seed = fields.get_or<std::uint64_t>("seed", "a whole number", 1);
  cell.date = fields.get_or<std::string>("date", "a text", "");
  cell.error = fields.get_or<std::string>("error", "a text", "");
  cell.equal = fields.get<bool>("equal", "true or false");
  cell.claims_equal = fields.get_or<bool>("claims_equal", "true or false", true);
  cell.prompt_tokens = fields.amount<int>("prompt_tokens", 0);
  cell.new_tokens = fields.amount<int>("new_tokens");
  cell.bandwidth_gb_s = fields.amount<double>("bandwidth_gb_s", 0.0);
  if (!cell.error.empty()) return cell;
  cell.tok_s = json.contains("tok_s_repeats") ? fields.amounts("tok_s_repeats", 1)
                                              : std::vector<double>{fields.amount<double>("tok_s")};
  if (json.contains("wall_tok_s_repeats"))
    cell.wall_tok_s = fields.amounts("wall_tok_s_repeats", 0);
  cell.prefill_ms = fields.amount<double>("prefill_ms", 0.0);
  cell.decode_ms = fields.amount<double>("decode_ms", 0.0);
  cell.draft_ms = fields.amount<double>("draft_ms", 0.0);
  cell.check_ms = fields.amount<double>("check_ms", 0.0);
  cell.rounds = tally_from(json, doing);
  return cell;
}

std::ifstream open_results(const std::filesystem::path& file) {
  std::error_code problem;  // what cannot be looked at cannot be opened below
  const auto status = std::filesystem::status(file, problem);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail("read results {}: expected a file, found a folder or a device", file.string());
  errno = 0;
  std::ifstream input(file, std::ios::binary);
  if (!input) fail("read results {}: {}", file.string(), std::strerror(errno));
  return input;
}

SpecFile read_spec_file(const std::filesystem::path& file) {
  std::ifstream input = open_results(file);
  SpecFile read;
  int number = 0;
  for (std::string text; std::getline(input, text);) {
    ++number;
    if (text.empty()) continue;
    const bool is_cut_off = input.eof() && !Json::accept(text);
    if (is_cut_off) break;
    const std::string doing = fmt::format("read results {}, line {}", file.string(), number);
    const Json json = parse_json(text, doing);
    if (!json.is_object()) fail("{}: expected an object", doing);
    if (json.contains("summary")) {
      read.closing = json;
      continue;
    }
    SpecFile::Line line{cell_from(json, doing), ""};
    if (const auto run = json.find("run"); run != json.end() && run->is_string()) line.run = *run;
    read.lines.push_back(std::move(line));
  }
  return read;
}

}  // namespace talon
