#pragma once

#include <span>
#include <vector>

#include "backend/memory.h"
#include "core/feature_tap.h"

namespace talon {

/// What several readers want to see of one target: a list of taps in which each finds its own side
/// by side. Equal ones are shared where the order allows it. What was added keeps its place,
/// and those that want the same are one reader.
class TapSet {
 public:
  using Reader = std::size_t;

  Reader add(std::span<const FeatureTap> wanted);
  /// What the Target must tap, in this order.
  const std::vector<FeatureTap>& taps() const { return taps_; }
  /// Whether the reader wants anything.
  bool wants(Reader reader) const { return readers_[reader].count > 0; }
  /// The reader's columns of rows with taps() columns, or of no rows: in the order in which it
  /// named them. Empty if it wants nothing.
  View columns(Reader reader, const View& features) const;

 private:
  struct Place {
    int first = 0;
    int count = 0;
    bool operator==(const Place&) const = default;
  };
  std::vector<FeatureTap> taps_;
  std::vector<Place> readers_;
};

}  // namespace talon
