#pragma once

#include <functional>
#include <vector>

#include "backend/backend.h"
#include "verify/target_rows.h"

namespace talon {

/// Rows of logits of one forward after another, each of which has been waited for. Where the
/// backend's memory is the host's, logits are read in place. Where a wait costs nothing each row is
/// asked about when it is asked for; else the first question about a most likely token is put for
/// all rows of the forward, those of all sequences, at once, and so is the first about a race; with
/// the first logits come those of all rows that will be read. Borrows the backend.
class ForwardRows {
 public:
  explicit ForwardRows(Backend& backend) : backend_(backend), best_(backend.allocate_indices(0)) {}

  /// What the rows will be asked, as far as that is known: a row that is asked something else is
  /// asked alone.
  struct Foresight {
    /// What will race for each row; called once at most, by the first race().
    std::function<std::vector<RaceDraw>()> races;
    /// Rows whose logits will be read; called by each logits() of a row that has not been fetched.
    std::function<std::vector<int>()> reads;
  };

  /// logits: [rows, vocabulary], borrowed until the next call.
  void begin(const View& logits, Foresight foresight);
  /// Of row `row`, valid until the next call.
  std::span<const float> logits(int row);
  /// As TargetRows::argmax and race.
  TokenId argmax(int row);
  TokenId race(int row, const RaceDraw& draw);

 private:
  /// Of some rows the tokens that were asked for, and the logits that vouch for them.
  struct Found {
    std::vector<TokenId> tokens;
    std::vector<float> logits;
    TokenId vouched(std::size_t row) const;
  };
  void find_largest(const View& rows);
  void find_winners(const View& rows, std::span<const RaceDraw> draws, Found& winners);
  void make_room(int rows);
  void fetch(int rows, Found& found);
  void fetch_logits(std::span<const int> rows);

  Backend& backend_;
  View logits_;
  Foresight foresight_;
  std::vector<float> fetched_;  // rows of logits, and room
  std::size_t fetched_rows_ = 0;
  std::vector<int> place_;  // of each row among those; -1: not fetched
  // What the backend found last.
  IndexBuffer best_;
  Buffer largest_;
  Found likeliest_;             // of one row, or of all
  bool has_likeliest_ = false;  // of all
  Found winners_;               // of all
  bool has_winners_ = false;
  std::vector<RaceDraw> draws_;  // theirs
  Found alone_;                  // the winner of one row
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
