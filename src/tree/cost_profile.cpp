#include "tree/cost_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;
constexpr int kMostRows = 1 << 16;
constexpr double kLeastSpread = 0.1;  // of counts that differ; less is rounding

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

/// A time or a count that may be 0.
double amount_in(const Json& json, const char* field) {
  const double amount = json.at(field).get<double>();
  if (!(amount >= 0) || !std::isfinite(amount))
    fail("{}: expected 0 or more, found {}", field, amount);
  return amount;
}

double ms_in(const Json& json) {
  const double ms = json.at("ms").get<double>();
  if (!(ms > 0) || !std::isfinite(ms)) fail("ms: expected a positive time, found {}", ms);
  return ms;
}

/// What passes cost.
void read_passes(const Json& json, CostProfile& profile) {
  for (const Json& level : json.at("levels")) {
    profile.levels.push_back({rows_in(level), ms_in(level)});
  }
  profile.first_pass_ms = amount_in(json, "first_pass_ms");
  profile.noise_ms = amount_in(json, "noise_ms");
  profile.first_noise_ms = amount_in(json, "first_noise_ms");
  if (json.contains("waiting_row_ms")) profile.waiting_row_ms = amount_in(json, "waiting_row_ms");
}

Json json_of_passes(const CostProfile& profile) {
  Json json = {{"levels", Json::array()},
               {"first_pass_ms", profile.first_pass_ms},
               {"noise_ms", profile.noise_ms},
               {"first_noise_ms", profile.first_noise_ms}};
  if (profile.waiting_row_ms) json["waiting_row_ms"] = *profile.waiting_row_ms;
  for (const auto& [rows, ms] : profile.levels) {
    json["levels"].push_back({{"rows", rows}, {"ms", ms}});
  }
  return json;
}

CostProfile profile_of(const Json& json) {
  CostProfile profile;
  for (const Json& check : json.at("checks")) {
    profile.checks.push_back(
        {rows_in(check), count_in(check, "context"), ms_in(check), amount_in(check, "experts")});
  }
  read_passes(json, profile);
  profile.expert_ms = amount_in(json, "expert_ms");
  for (const Json& network : json.at("networks")) {
    CostProfile& passes = profile.networks.emplace_back();
    passes.source = static_cast<std::uint32_t>(count_in(network, "source"));
    read_passes(network, passes);
  }
  return profile;
}

Json json_of(const CostProfile& profile) {
  Json json = json_of_passes(profile);
  json["expert_ms"] = profile.expert_ms;
  json["checks"] = Json::array();
  json["networks"] = Json::array();
  for (const auto& [rows, context, ms, experts] : profile.checks) {
    json["checks"].push_back(
        {{"rows", rows}, {"context", context}, {"ms", ms}, {"experts", experts}});
  }
  for (const CostProfile& network : profile.networks) {
    json["networks"].push_back(json_of_passes(network));
    json["networks"].back()["source"] = network.source;
  }
  return json;
}

}  // namespace

void price_noise(CostProfile& profile, double one_level_ms, double all_levels_ms, int levels) {
  expects(levels > 1, "drafts of different depth");
  profile.noise_ms = std::max(0.0, (all_levels_ms - one_level_ms) / (levels - 1));
  profile.first_noise_ms = std::max(0.0, one_level_ms - profile.noise_ms);
}

void price_experts(CostProfile& profile, std::span<const CostProfile::Check> others) {
  profile.expert_ms = 0;
  if (profile.empty()) return;
  std::map<std::pair<int, int>, std::vector<const CostProfile::Check*>> alike;
  for (const auto& check : profile.checks) alike[{check.context, check.rows}].push_back(&check);
  for (const auto& check : others) alike[{check.context, check.rows}].push_back(&check);
  double spread = 0, product = 0;
  for (const auto& [key, checks] : alike) {
    double experts = 0, ms = 0;
    for (const auto* check : checks) {
      experts += check->experts;
      ms += check->ms;
    }
    experts /= static_cast<double>(checks.size());
    ms /= static_cast<double>(checks.size());
    for (const auto* check : checks) {
      spread += (check->experts - experts) * (check->experts - experts);
      product += (check->experts - experts) * (check->ms - ms);
    }
  }
  const CostProfile::Check *least = &profile.checks[0], *most = least;  // at the least context
  for (const auto& check : profile.checks) {
    if (check.context > least->context) continue;
    if (check.context < least->context) least = most = &check;
    if (check.rows < least->rows) least = &check;
    if (check.rows > most->rows) most = &check;
  }
  const double added = most->experts - least->experts;
  if (spread < kLeastSpread || added <= 0) return;
  const double of_all_rows = std::max(0.0, (most->ms - least->ms) / added);
  const double of_the_least = least->ms / std::max(1.0, least->experts);
  profile.expert_ms = std::clamp(product / spread, 0.0, std::min(of_all_rows, of_the_least));
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
