#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "engine/round/round_report.h"
#include "io/json.h"

namespace talon {

/// A trace is a file of JSON lines: first {"trace": 1, ...what the caller says of the run...}, then
/// one line per round and sequence:
/// {"sequence", "round", "position", "token": [per node], "parent", "log_p", "sources", "text":
/// [per node, absent without a tokenizer], "probes": [node ids, absent without any],
/// "experts": [per node, absent of models without experts],
/// "accepted": [node ids], "emitted": [token ids], "distortion", "sequences", "draft_ms",
/// "check_ms", "other_ms"}
/// Fields as in RoundReport and DraftTree.
class TraceWriter {
 public:
  /// Opens `file` (an existing one is replaced) and writes the first line. `about`: an object.
  /// `bytes_of`: of a token; may be empty. Throws Error naming the file.
  TraceWriter(const std::filesystem::path& file, Json about,
              std::function<std::string(TokenId)> bytes_of = {});
  void write(const RoundReport& report);
  /// Throws Error unless all was written. Call it at the end: a full disk shows nowhere else.
  void finish();

 private:
  void write_line(const Json& line);

  std::filesystem::path path_;
  std::ofstream file_;
  std::function<std::string(TokenId)> bytes_of_;
};

/// A round as read back.
struct TraceRound {
  SequenceId sequence = 0;
  int round = 0;
  int position = 0;
  DraftTree tree{0};
  std::vector<std::string> text;  // per node; empty if the trace has none
  std::vector<NodeId> accepted;
  std::vector<TokenId> emitted;
  double distortion = 0;
  int sequences = 1;
  double draft_ms = 0, check_ms = 0, other_ms = 0;
  std::vector<std::int32_t> experts = {};  // per node, or empty
};
struct Trace {
  Json about;
  std::vector<TraceRound> rounds;
};
/// Throws Error naming the file, the line and the field.
Trace read_trace(const std::filesystem::path& file);

/// As its line in a trace.
Json json_of(const TraceRound& round);
/// Borrows `round`.
RoundReport report_of(const TraceRound& round);
/// A copy of what `report` borrows, without text.
TraceRound keep(const RoundReport& report);

}  // namespace talon
