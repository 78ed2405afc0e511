#pragma once

#include <span>
#include <vector>

#include "image/vq_decoder.h"
#include "model/config/config.h"

namespace talon {

/// How a cell of a picture came.
struct CellOrigin {
  int forward = 0;  // of the target, the prompt's is 0
  int depth = 0;    // in the draft; 0: the target's own
  /// Of the drafts that its check accepted the share that the exact rule would have rejected, in
  /// expectation; of the target's own 0.
  double relaxed = 0;
};
/// Of the cells in order. accepted: of each check (SequenceStatistics). relaxed: how many of each
/// check's accepted ones the exact rule would have rejected (VerifyResult); empty: none.
std::vector<CellOrigin> origins_of(const ImagePlan& plan, std::span<const int> accepted,
                                   std::span<const double> relaxed = {});

/// A picture as far as it has been drawn.
class PictureGrowth {
 public:
  explicit PictureGrowth(const ImagePlan& plan) : plan_(plan) {}
  /// The tokens that a forward of the target brought, at least one, and how many of them the exact
  /// rule would have rejected.
  void add(std::span<const TokenId> tokens, double relaxed = 0);

  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const int> accepted() const { return accepted_; }   // of each check
  std::span<const double> relaxed() const { return relaxed_; }  // of each check
  int forwards() const { return tokens_.empty() ? 0 : 1 + static_cast<int>(accepted_.size()); }
  bool is_complete() const { return static_cast<int>(tokens_.size()) == plan_.answer_tokens(); }
  /// Of the cells that are drawn.
  std::vector<TokenId> codes() const;
  std::vector<CellOrigin> origins() const;
  int cells() const;

 private:
  ImagePlan plan_;
  std::vector<TokenId> tokens_;
  std::vector<int> accepted_;
  std::vector<double> relaxed_;
};

/// What can be seen of a picture of which the first cells are drawn: their pixels nearly as they
/// will be, all others light grey. For the decoder, whose norms are over all cells, the row above
/// goes on where nothing is drawn. REQUIRES: at most a code for every cell.
Picture preview_of(const VqDecoder& decoder, const ImagePlan& plan, std::span<const TokenId> codes);

}  // namespace talon
