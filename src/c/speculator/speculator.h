#pragma once

#include <memory>
#include <string>
#include <vector>

#include "c/handles.h"
#include "core/philox.h"
#include "draft/drafter.h"
#include "verify/verifier.h"

namespace talon {

/// A drafter and a rule. Its sequences own it together with the caller's handle: hence shared_ptr.
struct Speculator {
  std::shared_ptr<SharedModel> model;  // null: of a runtime whose model is not Talon's
  Log log;                             // called in nobody's turn
  std::unique_ptr<Drafter> drafter;
  std::unique_ptr<Verifier> rule;
  DrafterTraits traits;
  int vocabulary = 0;
  std::vector<std::int32_t> layers;
  Turns own_turns;

  /// Whose turn it is to compute.
  Turns& turns() { return model ? model->turns : own_turns; }
  int feature_width() const;
  ~Speculator();
};

/// Throws as make_drafter().
std::shared_ptr<Speculator> open_speculator(const talon_speculator_options& options);

}  // namespace talon

struct talon_speculator {
  std::shared_ptr<talon::Speculator> shared;
};

/// The text of one answer, and what drafting it remembers.
struct talon_sequence {
 public:
  talon_sequence(std::shared_ptr<talon::Speculator> speculator, const talon_request& request);
  ~talon_sequence();

  talon_tree propose(int most_nodes, int most_levels);
  talon_verdict verify(const float* logits, std::size_t stride);
  void observe(const float* features, std::size_t rows);

 private:
  void commit(const talon::VerifyInput& input);
  void observe_text();
  template <typename Work>
  void tell_drafter(Work&& work);
  void drop_drafter(const char* why) noexcept;
  std::size_t rows_wanted() const;
  std::size_t room_for_drafts() const;

  std::shared_ptr<talon::Speculator> by_;
  talon::Sampler sampler_;
  talon::PositionRandom random_;
  std::vector<talon::TokenId> tokens_;  // prompt and answer; the last is the root of the next tree
  int prompt_length_;
  double distortion_ = 0;                     // of the answer so far
  std::size_t observed_ = 0;                  // tokens shown to the drafter
  std::unique_ptr<talon::DraftState> state_;  // null: no longer drafted for
  std::string problem_;                       // the log is told of it after the turn
  talon::DraftTree tree_;
  bool proposed_ = false;
  // What was shown last.
  std::vector<talon::TokenId> shown_tokens_;
  std::vector<talon::NodeId> shown_parents_;
  std::vector<float> shown_log_p_;
  std::vector<std::uint8_t> shown_probes_;
  talon::VerifyResult verdict_;
};
