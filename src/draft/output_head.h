#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/index_list.h"
#include "core/types.h"
#include "draft/coupling/noise_rows.h"
#include "draft/coupling/penalty_rows.h"
#include "draft/coupling/shift_rows.h"
#include "draft/growth/tree_growth.h"
#include "draft/head/logit_form.h"

namespace talon {

/// An RMSNorm on the way into an OutputHead, if there is a weight.
struct OutputNorm {
  View weight = {};
  float epsilon = 0;
};

/// Features beside those of a head, of what it predicts without a prompt (SequenceRows::guidance).
struct GuideFeatures {
  View features = {};                 // as many rows; empty: nothing is guided
  std::span<const float> scale = {};  // of each row; at most 1: its guide is not looked at
};

/// The output matrix of a draft head: from features to the likeliest next tokens. Owns the logits;
/// weights are borrowed.
class OutputHead {
 public:
  /// target_token: of each row of the matrix; empty: the same. Borrowed. form: what makes logits of
  /// products.
  OutputHead(Backend& backend, const Weight& matrix, std::span<const TokenId> target_token,
             const Coupling& coupling = {}, const LogitForm& form = {});

  /// The `count` likeliest next tokens after each row of `features`. Any number of rows. places:
  /// where the tokens after each row stand; empty: no draw is foreseen. Tokens that are banned
  /// there have a log_p of -infinity.
  RowChildren top_children(const View& features, int count, std::span<const DraftPlace> places,
                           const OutputNorm& norm = {}, const GuideFeatures& guide = {});

  /// The logits after each row of `features`, row after row, on the host. Any number of rows, one
  /// wait.
  std::vector<float> logits(const View& features, const OutputNorm& norm = {},
                            const GuideFeatures& guide = {});

  /// As top_children() of logits in place of features: at most kMostRows rows, overwritten.
  RowChildren best(const View& logits, int count, std::span<const DraftPlace> places);
  /// The logits alone, of at most kMostRows rows.
  void product(const View& features, const OutputNorm& norm, const View& logits);

  static constexpr int kMostRows = 64;  // of the product at once: bounds the logits' memory

 private:
  void guide(const View& logits, int first_row, const OutputNorm& norm, const GuideFeatures& guide);
  void choose(const View& logits, std::span<const DraftPlace> places, RowChildren& children,
              int first_row);
  void change(const View& logits, std::span<const DraftPlace> places);
  void choose_by_score(const View& logits, std::span<const DraftPlace> places,
                       RowChildren& children, int first_row);
  void choose_after_cut(const View& logits, std::span<const DraftPlace> places,
                        RowChildren& children, int first_row);
  RowChildren prepare(int rows, int count);
  void make_room(int count);
  void download_top(const View& values, int count, std::span<TokenId> tokens, std::span<float> top);
  void score(const View& logits, std::span<const DraftPlace> places);
  Backend& backend_;
  const Weight& matrix_;
  std::span<const TokenId> target_token_;
  Coupling coupling_;
  LogitForm form_;
  std::optional<NoiseRows> noise_;  // if the coupling is on
  IndexList noise_row_;             // of rows
  Buffer row_noise_;                // [kMostRows, rows of the matrix], if the coupling is on
  ShiftRows shifts_;
  PenaltyRows penalties_;
  Buffer logits_;        // [kMostRows, rows of the matrix]
  Buffer guide_logits_;  // [kMostRows, rows of the matrix], if there was a guide
  Buffer top_;           // of kMostRows rows, as many as have been asked for
  IndexBuffer chosen_;   // of kMostRows rows, as many as have been asked for
};

}  // namespace talon
