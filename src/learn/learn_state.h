#pragma once

#include <filesystem>
#include <string>

namespace talon {

/// What a learning folder remembers from one server to the next: FOLDER/state.json.
struct LearnState {
  std::string target_fingerprint;
  std::string kind;         // of the head that learns: eagle, eagle3
  std::string head;         // folder of the learned head in use, below FOLDER; empty: none yet
  long rounds = 0;          // of training that came to their end
  long swaps = 0;           // after which the new head was used
  long fresh_tokens = 0;    // of answers kept since the last round
  double ordinary_tau = 0;  // of the head that it began with, on ordinary texts; 0: not measured
};

/// What the folder says; `fresh` where it says nothing. Throws Error naming file and field for what
/// cannot be read, or is of another target or kind of head.
LearnState read_state(const std::filesystem::path& folder, const LearnState& fresh);
/// Replaces it whole. Throws Error.
void write_state(const std::filesystem::path& folder, const LearnState& state);

}  // namespace talon
