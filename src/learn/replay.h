#pragma once

#include <memory>
#include <string>
#include <vector>

#include "draft/drafter.h"
#include "model/model.h"
#include "train/data/dataset.h"

namespace talon {

/// Some of the conversations of a data set.
struct ReplayTexts {
  const Dataset* data = nullptr;  // borrowed
  std::vector<std::size_t> chosen;
};
/// The newest of a folder that is written in order, for about `tokens` tokens of answers.
ReplayTexts newest_texts(const Dataset& data, long tokens);
/// Greedy ones spread evenly over it, if there are any, else others.
ReplayTexts spread_texts(const Dataset& data, long tokens);

/// What a drafter would have guessed of recorded texts: drafts are made where rounds of whole trees
/// would begin, with the recorded vectors, and the text says what a check would have accepted. The
/// target is not run. Drafts for served texts know the noise of their request where those for the
/// request did, and what it banned and favoured.
class Replay {
 public:
  /// drafter: `eagle3:topk=8,levels=6,nodes=15,head=PATH`. Throws as make_drafter().
  Replay(const Model& model, const std::string& drafter, ReplayTexts texts);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// One round. False when all texts have been replayed. Throws Error for a damaged text, or one
  /// that lacks the vectors that the drafter reads.
  bool step();
  long rounds() const { return rounds_; }
  /// Tokens per check; 1 without a round.
  double tau() const;

 private:
  struct Text;
  bool open_next();
  void observe(int first, int count);
  void draft();

  const Model& model_;
  std::unique_ptr<Drafter> drafter_;
  ReplayTexts texts_;
  std::size_t next_ = 0;
  std::unique_ptr<Text> text_;
  Buffer features_;
  long rounds_ = 0, tokens_ = 0;
};

}  // namespace talon
