#include "bench/spec/spec_cell.h"

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "io/json_text.h"
#include "trace/statistics.h"

namespace talon {
namespace {

std::vector<double> numbers(const Json& json, const char* key) {
  std::vector<double> values;
  for (const Json& value : json.at(key)) values.push_back(value.get<double>());
  return values;
}

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
  if (!cell.claims_equal) json["claims_equal"] = false;
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
  SpecCell cell;
  try {
    cell.question_id = json.at("question_id");
    cell.category = json.at("category");
    cell.method = json.at("method");
    cell.temperature = json.value("temperature", 0.0);
    cell.seed = json.value("seed", std::uint64_t{1});
    cell.error = json.value("error", "");
    cell.equal = json.at("equal");
    cell.claims_equal = json.value("claims_equal", true);
    cell.prompt_tokens = json.value("prompt_tokens", 0);
    cell.new_tokens = json.at("new_tokens");
    if (!cell.error.empty()) return cell;
    cell.tok_s = json.contains("tok_s_repeats") ? numbers(json, "tok_s_repeats")
                                                : std::vector<double>{json.at("tok_s")};
    if (json.contains("wall_tok_s_repeats")) cell.wall_tok_s = numbers(json, "wall_tok_s_repeats");
    cell.prefill_ms = json.value("prefill_ms", 0.0);
    cell.decode_ms = json.value("decode_ms", 0.0);
    cell.draft_ms = json.value("draft_ms", 0.0);
    cell.check_ms = json.value("check_ms", 0.0);
  } catch (const Json::exception& error) {
    fail("{}: expected a line of bench spec: {}", doing, error.what());
  }
  cell.rounds = tally_from(json, doing);
  return cell;
}

std::ifstream open_results(const std::filesystem::path& file) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file))
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
