#pragma once

#include <vector>

#include "draft/block/block_config.h"
#include "eagle_head_files.h"

namespace talon::block_formulas {

/// What a head says behind a node of a draft.
struct Guess {
  std::vector<double> state;  // of the node
  std::vector<double> log_p;  // of each token
  double sure = 0;
};

/// The recorded DSpark head, or one of its sizes, on one block by its formulas
/// (docs/methods.md 2.6), in double precision, without a cache and without any part of the drafter.
class Formulas {
 public:
  static constexpr int kPlaces = 6;

  /// text: what is committed before the root. files: borrowed.
  Formulas(const HeadFiles& files, MarkovKind kind, const std::vector<TokenId>& text, TokenId root);

  /// Of the place behind `token`, whose node above has that state.
  Guess after(const std::vector<double>& state, TokenId token, int place) const;
  Guess of_root(TokenId root) const;

 private:
  std::vector<double> mixed(const std::string& name, const std::vector<double>& x) const;

  const HeadFiles& files_;
  MarkovKind kind_;
  std::vector<std::vector<double>> places_;  // what the output matrix reads of each
};

}  // namespace talon::block_formulas
