#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "core/philox.h"
#include "core/types.h"
#include "sample/sampler.h"
#include "tree/draft_tree.h"
#include "verify/target_rows.h"

namespace talon {

struct VerifyInput {
  const DraftTree* tree = nullptr;
  TargetRows* rows = nullptr;          // of the tree's nodes
  std::span<const TokenId> committed;  // prompt and answer, root included
  int prompt_length = 0;
  double distortion = 0;  // VerifyResult's, summed over the answer so far
  Sampler* sampler = nullptr;
  const PositionRandom* random = nullptr;
  /// What drawn_token() found after each node, -1 where it has not been asked; null: not kept.
  std::vector<TokenId>* drawn = nullptr;
};

struct VerifyResult {
  std::vector<NodeId> path;  // accepted node ids from the root (included) on
  TokenId next = 0;          // the token that follows the last of them: the next round's root
  /// Summed over the accepted tokens and the next one: how far in total variation the law each was
  /// taken from, given the tree, was from the target's. 0 for lossless rules; divided by the tokens
  /// it bounds the mean distortion per token.
  double distortion = 0;
  /// Of rules that relax: how many of the accepted nodes the exact rule would have rejected, in
  /// expectation.
  double relaxed = 0;
};

/// Decides which draft nodes become text. One call on a finished tree. Immutable: what a rule
/// computes in is the caller's sampler.
class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual std::string_view name() const = 0;
  virtual bool lossless() const = 0;  // output distribution equals the target's
  /// Whether drafts may know what it draws with: the noise of the race at each position
  /// (sample/race.h). Only if no draft can change the text.
  virtual bool drafts_may_know_noise() const { return false; }
  /// Of a table of image codes, how many it has; 0: the rule has no table.
  virtual int codes() const { return 0; }
  virtual VerifyResult verify(const VerifyInput& input) const = 0;
};

class NeighbourTables;

/// What a rule may need to be made for use. Borrowed.
struct VerifierContext {
  /// Finds the file of the tokenizer whose codes are drawn, for rules whose options name none;
  /// empty: texts are written.
  std::function<std::filesystem::path()> codebook = {};
  NeighbourTables* tables = nullptr;  // of other rules, too; null: nothing is shared
};

/// A row of the explicit table of rules. Each rule gives its own (rules.h).
struct VerifierEntry {
  std::string_view name;
  std::string_view summary;  // one line, with the paper
  std::vector<Option> options;
  /// context: null for one that is only asked what it is.
  std::unique_ptr<Verifier> (*make)(Options& options, const VerifierContext* context);
};
std::span<const VerifierEntry> verifiers();
/// Makes the rule that `text` (`typical:epsilon=0.1`) names, for use. Throws UsageError listing the
/// names that exist, and for one that compares image codes where there are none.
std::unique_ptr<Verifier> make_verifier(std::string_view text, const VerifierContext& context);
/// To be asked what it is and promises: rules that compare codes then have none and relax nothing.
std::unique_ptr<Verifier> make_verifier(std::string_view text);

}  // namespace talon
