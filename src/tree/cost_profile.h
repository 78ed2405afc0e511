#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace talon {

/// What was measured of a model and a drafter on one machine (engine/measure_costs.h): where
/// MachineCosts and PassCosts start. Empty: nothing.
struct CostProfile {
  struct Check {
    int rows = 0;
    int context = 0;  // committed positions that each row attends to
    double ms = 0;
    double experts = 0;  // that it read, over all layers; of a model without any 0
  };
  struct Level {
    int rows = 0;
    double ms = 0;
  };
  std::vector<Check> checks;
  std::vector<Level> levels;  // of one pass of the draft head over that many rows; none for
                              // drafters without passes
  double first_pass_ms = 0;   // that the first pass of a draft takes beyond such a pass: the check
                              // before it has put the head's weights out of the caches
  std::optional<double> waiting_row_ms = {};  // that each committed token more which the head has
                                              // not seen adds to the first pass
  double noise_ms = 0;        // that a pass takes more when it makes the noise of its level
  double first_noise_ms = 0;  // that the first one takes beyond that: a head which guesses all
                              // places in one pass makes the noise of all of them there
  double expert_ms = 0;       // that a check takes for each expert more that as many rows read
  bool steady = true;         // measurements agreed when they were repeated: worth keeping
  // Of a drafter that joins several with passes, each with what its own cost, and nothing else. The
  // fields above are then those of the first.
  std::vector<CostProfile> networks = {};
  std::uint32_t source = 0;  // among `networks`: DraftJob::source
  bool empty() const { return checks.empty(); }
};

/// Sets what noise adds to passes by what it adds to a draft of one level and to one of `levels`.
void price_noise(CostProfile& profile, double one_level_ms, double all_levels_ms, int levels);

/// Sets what reading an expert takes, by checks of as many rows at one context which read more
/// experts than others: by least squares over those of the profile and `others`. At most what the
/// profile's rows add, and what its check of the fewest rows takes for each of its experts. 0 where
/// no checks differ.
void price_experts(CostProfile& profile, std::span<const CostProfile::Check> others);

/// Whether no check is much cheaper than one of fewer rows or nearer the beginning of a text: then
/// something beside it was timed as well.
bool agrees_with_itself(const CostProfile& profile);

/// Reads what write_cost_profile() wrote, or nothing if there is no such file, it was written for
/// another key or it is damaged: a cache may be absent for any reason.
std::optional<CostProfile> read_cost_profile(const std::filesystem::path& file,
                                             const std::string& key);
/// key: names everything the costs depend on (machine, model, threads, kernels, drafter). Throws
/// Error if the file cannot be written.
void write_cost_profile(const std::filesystem::path& file, const std::string& key,
                        const CostProfile& profile);

}  // namespace talon
