#pragma once

#include <vector>

#include "backend/backend.h"
#include "verify/target_rows.h"

namespace talon {

/// Rows of logits of one forward after another, each of which has been waited for. Where the
/// backend's memory is the host's, logits are read in place. Where a wait costs nothing each row is
/// asked about when it is asked for; else the first question about a most likely token is put for
/// all rows of the forward, those of all sequences, at once. Borrows the backend.
class ForwardRows {
 public:
  explicit ForwardRows(Backend& backend) : backend_(backend), best_(backend.allocate_indices(0)) {}

  /// logits: [rows, vocabulary], borrowed until the next call.
  void begin(const View& logits);
  /// Of row `row`, valid until the next call.
  std::span<const float> logits(int row);
  /// As TargetRows::argmax and race; each race is asked about when it is asked for.
  TokenId argmax(int row);
  TokenId race(int row, const RaceDraw& draw);

 private:
  void find_largest(const View& rows);
  void make_room(int rows);
  void fetch(std::span<TokenId> tokens, std::span<float> values);

  Backend& backend_;
  View logits_;
  bool found_all_ = false;
  std::vector<float> fetched_;  // one row
  // The most likely tokens of the rows that were asked about last, and their logits.
  IndexBuffer best_;
  Buffer largest_;
  std::vector<TokenId> tokens_;
  std::vector<float> values_;
};

/// The rows of one tree among those of a forward, from row `first` on. Borrows them.
class TreeRows : public TargetRows {
 public:
  TreeRows(ForwardRows& rows, int first) : rows_(rows), first_(first) {}
  std::span<const float> logits(NodeId node) override { return rows_.logits(first_ + node); }
  TokenId argmax(NodeId node) override { return rows_.argmax(first_ + node); }
  TokenId race(NodeId node, const RaceDraw& draw) override {
    return rows_.race(first_ + node, draw);
  }

 private:
  ForwardRows& rows_;
  int first_;
};

}  // namespace talon
