#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace talon {

/// What a learning folder remembers from one server to the next: FOLDER/state.json.
struct LearnState {
  std::string target_fingerprint;
  std::string kind;         // of the head that learns: eagle, eagle3
  std::string head;         // of the learned head in use, heads/NNNN below FOLDER; empty: none yet
  long rounds = 0;          // of training that came to their end
  long swaps = 0;           // after which the new head was used
  long fresh_tokens = 0;    // of answers kept since the last round
  double ordinary_tau = 0;  // of the head that it began with, on ordinary texts; 0: not measured

  bool operator==(const LearnState&) const = default;
};

/// Whether it is heads/NNNN: four digits or more.
bool is_name_of_head(std::string_view name);

/// What the folder says; `fresh` where it says nothing. Throws Error naming file and field for what
/// is missing, of another type or out of range, or is of another target or kind of head.
LearnState read_state(const std::filesystem::path& folder, const LearnState& fresh);
/// Replaces it whole. Throws Error.
void write_state(const std::filesystem::path& folder, const LearnState& state);

}  // namespace talon
