#pragma once

#include <array>
#include <span>

namespace talon {

/// What the next level of a tree that grows level by level is likely to bring: learned from how the
/// chances spread from level to level, and from how far the text followed what the levels promised.
class LevelForecast {
 public:
  static constexpr int kWidth = 16;  // nodes of a level that are looked at

  void begin_round();
  /// The newest level is there. path_log_p: descending.
  void see(std::span<const float> path_log_p);
  int levels() const { return level_; }
  /// The chance that the text gets to one of the `count` best nodes of the newest level.
  double reach(int count) const;
  /// The tokens that one further level brings, when the `count` best nodes are expanded and every
  /// node bought costs `row_price` tokens.
  double gain_of_next(int count, double row_price) const;
  /// The `count` best nodes are expanded.
  void expand(int count);
  /// The text followed the tree for `matched` levels; `broke`: and then left it, so that no deeper
  /// level was right.
  void learn(int matched, bool broke);

 private:
  static constexpr int kLevels = 12;  // deeper ones count as the last
  struct Level {
    double right = 0;
    double promised = 0;
    int seen = 0;
    std::array<double, kWidth> shape;  // chance of the j-th best node over the reach that was
                                       // expanded
    Level();
    double scale() const;
  };
  Level& at(int level) { return levels_[static_cast<std::size_t>(index(level))]; }
  const Level& at(int level) const { return levels_[static_cast<std::size_t>(index(level))]; }
  static int index(int level) { return level < kLevels ? level - 1 : kLevels - 1; }

  std::array<Level, kLevels> levels_;
  // Of the current round:
  int level_ = 0;
  std::array<double, kWidth> chance_{};         // of the newest level, as the drafter believes
  int count_ = 0;                               // candidates in chance_
  double expanded_ = 1;                         // chance of what was expanded into the newest level
  std::array<double, kLevels + 1> promised_{};  // reach of each level
};

}  // namespace talon
