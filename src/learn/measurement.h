#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "learn/learning_head.h"
#include "learn/replay.h"

namespace talon {

/// Tokens per check of heads on texts, one after the other, a little at a time.
class Measurement {
 public:
  struct Item {
    std::filesystem::path head;
    ReplayTexts texts;
    double tau = 0;
    long rounds = 0;
  };
  /// `learning`: drafts with the heads of the items. `model` and what the texts are of are
  /// borrowed.
  Measurement(const Model& model, const LearningHead& learning, std::vector<Item> items)
      : model_(model), learning_(learning), items_(std::move(items)) {}

  /// A round of a replay. False when everything is measured, or something threw.
  bool step();
  /// Valid when step() is over.
  const std::vector<Item>& items() const { return items_; }
  const std::string& problem() const { return problem_; }  // empty: none

 private:
  void advance();

  const Model& model_;
  LearningHead learning_;
  std::vector<Item> items_;
  std::size_t next_ = 0;
  std::optional<Replay> replay_;
  std::string problem_;
};

}  // namespace talon
