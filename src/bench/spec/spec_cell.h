#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/json.h"
#include "trace/round_tally.h"

namespace talon {

/// What one method made of one question with one temperature and seed: one line of `talon bench
/// spec`.
struct SpecCell {
  Json question_id;
  std::string category;
  std::string method;
  double temperature = 0;
  std::uint64_t seed = 1;

  std::string date = {};           // when it was answered; empty: not known
  std::string error;               // why there is no answer; empty: there is one
  bool equal = true;               // every repeat gave the tokens of plain decoding
  bool claims_equal = true;        // a difference is a failure and not by design
  int prompt_tokens = 0;           // of all turns of one answer
  int new_tokens = 0;              // of all turns of one answer
  std::vector<double> tok_s;       // per repeat: tokens per second after the prefill
  std::vector<double> wall_tok_s;  // per repeat: of the whole time, as Spec-Bench counts
  double prefill_ms = 0, decode_ms = 0, draft_ms = 0, check_ms = 0;  // means over the repeats
  RoundTally rounds;                                                 // of all repeats
  double bandwidth_gb_s = 0;  // of memory, measured after it; 0: not measured

  /// Whether it may enter a mean.
  bool counts() const { return error.empty() && (equal || !claims_equal); }
};

/// What cells have in common that answer the same question under the same conditions.
std::string condition_of(const SpecCell& cell);

Json json_of(const SpecCell& cell);
/// Throws Error beginning with `doing`, naming the field.
SpecCell cell_from(const Json& json, const std::string& doing);

/// A file of JSON lines as `talon bench spec` writes it.
struct SpecFile {
  struct Line {
    SpecCell cell;
    std::string run;  // fingerprint of what must agree
  };
  std::vector<Line> lines;
  Json closing;  // the object with "summary"; null if the run was not finished
};
/// Of results of any bench. Throws Error naming a file that is none or cannot be opened.
std::ifstream open_results(const std::filesystem::path& file);
/// A last line that was cut off is left out. Throws Error naming the file, line and field.
SpecFile read_spec_file(const std::filesystem::path& file);

}  // namespace talon
