#include "tree/cost_profile.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;
constexpr int kMostRows = 1 << 16;

int count_in(const Json& json, const char* field) {
  const int count = json.at(field).get<int>();
  if (count < 0 || count > (1 << 24)) fail("{}: expected a count, found {}", field, count);
  return count;
}

int rows_in(const Json& json) {
  const int rows = json.at("rows").get<int>();
  if (rows < 1 || rows > kMostRows) fail("rows: expected 1 to {}, found {}", kMostRows, rows);
  return rows;
}

double extra_ms_in(const Json& json, const char* field) {
  const double ms = json.at(field).get<double>();
  if (!(ms >= 0) || !std::isfinite(ms)) fail("{}: expected a time, found {}", field, ms);
  return ms;
}

double ms_in(const Json& json) {
  const double ms = json.at("ms").get<double>();
  if (!(ms > 0) || !std::isfinite(ms)) fail("ms: expected a positive time, found {}", ms);
  return ms;
}

CostProfile profile_of(const Json& json) {
  CostProfile profile;
  for (const Json& check : json.at("checks")) {
    profile.checks.push_back({rows_in(check), count_in(check, "context"), ms_in(check)});
  }
  for (const Json& level : json.at("levels")) {
    profile.levels.push_back({rows_in(level), ms_in(level)});
  }
  profile.first_pass_ms = extra_ms_in(json, "first_pass_ms");
  profile.noise_ms = extra_ms_in(json, "noise_ms");
  profile.first_noise_ms = extra_ms_in(json, "first_noise_ms");
  if (json.contains("waiting_row_ms")) profile.waiting_row_ms = extra_ms_in(json, "waiting_row_ms");
  return profile;
}

Json json_of(const CostProfile& profile) {
  Json json = {{"checks", Json::array()},
               {"levels", Json::array()},
               {"first_pass_ms", profile.first_pass_ms},
               {"noise_ms", profile.noise_ms},
               {"first_noise_ms", profile.first_noise_ms}};
  if (profile.waiting_row_ms) json["waiting_row_ms"] = *profile.waiting_row_ms;
  for (const auto& [rows, context, ms] : profile.checks) {
    json["checks"].push_back({{"rows", rows}, {"context", context}, {"ms", ms}});
  }
  for (const auto& [rows, ms] : profile.levels) {
    json["levels"].push_back({{"rows", rows}, {"ms", ms}});
  }
  return json;
}

}  // namespace

void price_noise(CostProfile& profile, double one_level_ms, double all_levels_ms, int levels) {
  expects(levels > 1, "drafts of different depth");
  profile.noise_ms = std::max(0.0, (all_levels_ms - one_level_ms) / (levels - 1));
  profile.first_noise_ms = std::max(0.0, one_level_ms - profile.noise_ms);
}

bool agrees_with_itself(const CostProfile& profile) {
  constexpr double kSurely = 1.5;
  for (const auto& less : profile.checks) {
    for (const auto& more : profile.checks) {
      const bool is_more = more.rows >= less.rows && more.context >= less.context;
      if (is_more && less.ms > kSurely * more.ms) return false;
    }
  }
  return true;
}

std::optional<CostProfile> read_cost_profile(const std::filesystem::path& file,
                                             const std::string& key) {
  std::error_code problem;
  const auto size = std::filesystem::file_size(file, problem);
  if (problem || size == 0 || size > kLargestFile) return {};
  try {
    const MappedFile mapped(file);
    const auto bytes = mapped.bytes();
    const Json json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                 "read costs " + quote(file.string()));
    if (json.at("key") != key) return {};
    return profile_of(json);
  } catch (const Error&) {
    return {};
  } catch (const Json::exception&) {
    return {};
  }
}

void write_cost_profile(const std::filesystem::path& file, const std::string& key,
                        const CostProfile& profile) {
  Json json = json_of(profile);
  json["key"] = key;
  const std::string text = json.dump(1) + "\n";
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace talon
