#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backend/memory.h"
#include "core/feature_tap.h"
#include "core/philox.h"
#include "core/types.h"
#include "sample/sampler.h"
#include "tree/draft_tree.h"
#include "tree/tree_policy.h"

namespace talon {

class KvSequence;

/// Whose text is drafted for. What is remembered of the texts of one tenant shows in no other's,
/// not even in time, but for counts of how often drafts were right.
struct TextOwner {
  std::uint64_t tenant = 0;
  bool reuses = true;  // what others of the tenant left
};

/// What a drafter remembers of one sequence.
class DraftState {
 public:
  virtual ~DraftState() = default;
  TextOwner owner;
  /// Tokens of the text before the answer, as whoever made the state knows.
  int prompt_length = 0;
};

/// The token that the target itself has after a node of a checked tree, and so the text if it goes
/// through the node. Of a node that it did not go through it takes a draw to know.
class TokenAfter {
 public:
  /// The token there if it could be none of `others`; -1: not known.
  using Without = std::function<TokenId(NodeId node, std::span<const TokenId> others)>;

  /// A function of a node will do.
  template <std::invocable<NodeId> Drawn>
  TokenAfter(Drawn drawn, Without without = {})
      : drawn_(std::move(drawn)), without_(std::move(without)) {}

  TokenId operator()(NodeId node) const { return drawn_(node); }
  TokenId without(NodeId node, std::span<const TokenId> others) const {
    return without_ ? without_(node, others) : -1;
  }

 private:
  std::function<TokenId(NodeId)> drawn_;
  Without without_;
};

/// Committed tokens, in order, each once. Borrowed for the call.
struct CommittedTokens {
  std::span<const TokenId> tokens;
  int first_position = 0;  // of tokens[0] in the text
  /// [tokens, taps * hidden]: row i is the target's row that produced tokens[i], that is the row of
  /// the token before it. Empty when the drafter has no taps.
  View features = {};
  /// False for the first token of a sequence, which no row produced: then features has one row
  /// less, and row i belongs to tokens[i + 1].
  bool first_has_row = true;
  /// [the first tokens, hidden], row after row: what the target reads instead of their embeddings
  /// (SequenceRows::vectors), or empty.
  std::span<const float> vectors = {};
  /// Of a guided picture (SequenceRows::guidance) what its guide has in their place, where in its
  /// text that begins, and the rows of the guide; else empty. A token at 0 was produced by no row.
  std::span<const TokenId> guide_tokens = {};
  int guide_first_position = 0;
  View guide_features = {};
};

struct DraftJob {
  DraftState* state = nullptr;
  /// Asked with start() and expand() by drafters that grow level by level.
  PolicyState* policy = nullptr;
  TreePlan plan;
  /// Holds its root only, or branches of other drafters if this one extends trees. The drafter
  /// adds nodes on at most plan.levels levels, until the tree has at most plan.nodes.
  DraftTree* tree = nullptr;
  /// For drafters that draw: RandomUse::draft at the root's position, another draw index for each
  /// node.
  const PositionRandom* random = nullptr;
  int position = 0;          // of the root
  std::uint32_t source = 1;  // noted with the nodes that it adds (DraftTree::Node::sources)
  /// How the request's tokens are drawn; null: greedily.
  const SamplerOptions* sampler = nullptr;
  /// What its bans and bias do to logits (Sampler::changes); null: nothing.
  const LogitChanges* changes = nullptr;
  /// What its penalties do after the text (Sampler::penalties_of); null: nothing.
  const TextPenalties* penalties = nullptr;
  /// Whether the token at each position will be the winner of a race with the noise of `random`
  /// there, which drafts may know (coupling/coupling.h). Not so for rules that need drafts
  /// independent of what they draw with.
  bool races = false;
  float guidance = 1;  // of a picture (SequenceRows); at most 1: none
  /// The target's keys and values of the text before the root; null: whoever asks has none.
  const KvSequence* text = nullptr;
  /// Set by drafters that ask `policy` with start() where passes of a network ran for the job: what
  /// the call takes is then shared by the jobs that had some.
  bool ran_passes = false;

  /// Tokens of the answer, the root among them.
  int answered() const { return position + 1 - state->prompt_length; }
};

/// What a drafter is, and what it wants. The same for as long as it lives.
struct DrafterTraits {
  /// What observe() wants of the target rows; columns come in this order.
  std::vector<FeatureTap> taps = {};
  /// propose() may be given trees that hold branches of other drafters (merged.h), to grow below
  /// their nodes as well as from the root. It may propose their nodes again. Below them its log_p
  /// are relative to those it was given.
  bool extends_trees = false;
  /// Children are drawn (DraftTree::drawn): such a drafter stands alone, since others may not add
  /// to its nodes.
  bool draws = false;
  /// Wants saw(): what the target draws after nodes of the checked tree.
  bool sees_draws = false;
  /// Attends to DraftJob::text. Without one it proposes nothing.
  bool reads_cache = false;
  /// Stands for plain decoding: it proposes nothing, and the engine adds nothing of its own.
  bool is_plain = false;
  /// Of weights that growing a tree by one level reads; 0: its levels are not passes of a network.
  std::size_t pass_bytes = 0;
  /// Files or folders that its weights were loaded from.
  std::vector<std::filesystem::path> weight_files = {};
};

}  // namespace talon
