#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/simulate/machine_curve.h"
#include "trace/trace.h"

namespace talon {

/// One answer of a trace: its text, and the trees that were drafted along it.
struct RecordedAnswer {
  int first_position = 0;                   // of the first root
  std::vector<TokenId> tokens;              // of the text, from the first root on
  std::map<int, const TraceRound*> rounds;  // by the position of their root; borrowed

  int length() const { return static_cast<int>(tokens.size()); }
  /// The tree drafted at that root. Where the trace has none, because a round took several tokens
  /// at once, what is left of that round's tree: smaller than what the drafter would have proposed.
  /// `borrowed` says so.
  DraftTree tree_at(int position, bool& borrowed) const;
};
/// In the order of the trace. Answers without a round are left out.
std::vector<RecordedAnswer> recorded_answers(const Trace& trace);

/// How the drafter of a trace works, as far as replaying it asks.
struct RecordedDrafter {
  /// Bits of DraftTree::sources whose nodes cost a pass of a draft head per level; 0: none does,
  /// and policies are not asked level by level.
  std::uint32_t passing_sources = 0;
  int levels = 0;            // of the deepest tree
  double pass_ms = 0;        // measured, per level
  double first_pass_ms = 0;  // that the first one adds
  double draft_ms = 0;       // measured, per round, without the passes
};
RecordedDrafter recorded_drafter(const Trace& trace);

struct SimulationSettings {
  std::string policy = "throughput";
  MachineCurve machine;
  int max_nodes = 64;  // draft nodes per check and sequence
};

/// What a policy would have given.
struct SimulationResult {
  long tokens = 0;    // of all sequences
  long rounds = 0;    // of each sequence, summed
  long drafted = 0;   // draft nodes checked
  long borrowed = 0;  // rounds whose tree was not recorded there
  double draft_ms = 0, check_ms = 0, rest_ms = 0;
  double experts = 0;      // that checks read
  double plain_tok_s = 0;  // of the same batch without drafts

  double ms() const { return draft_ms + check_ms + rest_ms; }
  double tok_s() const { return ms() > 0 ? static_cast<double>(tokens) / ms() * 1000 : 0; }
  double tau() const {
    return rounds > 0 ? static_cast<double>(tokens) / static_cast<double>(rounds) : 1;
  }
};

/// Replays the rounds of `trace` under a policy on a machine: the policy plans, stops and cuts what
/// the drafter proposed there, the recorded text says what would have been accepted, and the
/// machine says how long it would have taken. Of a mixture that knows experts, a check reads those
/// that were recorded with the tree there, where an answer is alone and has one, else as many as
/// checks of so many rows did on average. machine.batch answers decode together; they start over
/// until each was played. Throws UsageError for a policy that does not exist or needs what a
/// trace does not hold (features of the target).
SimulationResult simulate(const Trace& trace, const SimulationSettings& settings);

}  // namespace talon
