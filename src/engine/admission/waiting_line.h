#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/sequence.h"

namespace talon {

/// The sequences that wait for room in the cache, by priority and in the order of submission: one
/// that was set back has its old place. When the first does not fit, later ones that do may pass
/// it, but only kMostPasses times.
class WaitingLine {
 public:
  static constexpr int kMostPasses = 8;

  /// Makes push() and put_back() ask for no memory while at most `count` wait.
  void hold_room(std::size_t count);
  void push(std::unique_ptr<Sequence> sequence) { insert(std::move(sequence), kNever); }
  /// One that ran and was set back: not to be tried before retry().
  void put_back(std::unique_ptr<Sequence> sequence) { insert(std::move(sequence), occasion_); }
  /// The first that `claim` finds room for; null when there is none. Each is tried once, and again
  /// after retry().
  std::unique_ptr<Sequence> take(const std::function<bool(Sequence&)>& claim);
  /// One that was cancelled or whose deadline is past; null when there is none.
  std::unique_ptr<Sequence> take_ended(Sequence::Clock::time_point now);
  /// There may be more room: a sequence that ran, or a guide, has ended.
  void retry() { ++occasion_; }

  bool empty() const { return places_.empty(); }
  std::size_t size() const { return places_.size(); }
  Sequence* find(SequenceId id) const;

 private:
  static constexpr std::int64_t kNever = -1;
  struct Place {
    std::unique_ptr<Sequence> sequence;
    std::int64_t tried = kNever;  // on which occasion
    int passed = 0;               // by how many, while it was the first
  };
  void insert(std::unique_ptr<Sequence> sequence, std::int64_t tried);
  std::unique_ptr<Sequence> take_from(std::vector<Place>::iterator place);

  std::vector<Place> places_;
  std::int64_t occasion_ = 0;
};

}  // namespace talon
