#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "draft/drafter.h"
#include "model/target.h"

namespace talon {

/// The stories260K target of the EAGLE goldens on the reference backend, in float32.
struct EagleTarget {
  EagleTarget();
  std::unique_ptr<Backend> backend;
  Model model;
  std::unique_ptr<KvCache> cache;

  /// `text` names a drafter and its options; `head` a folder of tests/data/golden/stories260k or
  /// any other.
  std::unique_ptr<Drafter> make_drafter(const std::string& text, const std::string& head) const;
};
/// One for the whole test program: it is never changed.
EagleTarget& eagle_target();

struct EagleRound {
  int seq_len = 0;  // tokens before the root
  DraftTree tree{0};
  std::vector<NodeId> path;  // accepted, root included
  TokenId next = 0;
};

/// Greedy decoding as the official code does it, round by round: draft a tree, check it, accept,
/// show the drafter what was committed. first_root: in place of what follows the prompt, and all
/// there is where the prompt is empty.
std::vector<EagleRound> run_eagle(EagleTarget& target, Drafter& drafter,
                                  std::span<const TokenId> prompt, int rounds,
                                  std::optional<TokenId> first_root = {});

/// Some rounds of a story with that drafter, of few nodes, and a head in float32.
std::vector<EagleRound> drafts_of(const std::string& drafter, const std::string& head);
void expect_same_drafts(const std::vector<EagleRound>& a, const std::vector<EagleRound>& b);

/// A text with the target's features of each position.
struct FeaturedText {
  std::vector<TokenId> tokens;
  Buffer features;  // row i: after tokens[i]
};
FeaturedText featured(std::vector<TokenId> tokens, std::vector<FeatureTap> taps);
/// Shows the drafter `count` tokens from `first` on.
void observe(Drafter& drafter, DraftState& state, const FeaturedText& text, int first, int count);
constexpr TreePlan kNoLimit{1000, 1000, 1000};
DraftTree propose(Drafter& drafter, DraftState& state, TokenId root, TreePlan plan = kNoLimit);

/// All new tokens of the rounds: root and accepted nodes of each.
std::vector<TokenId> emitted(std::span<const EagleRound> rounds);

}  // namespace talon
