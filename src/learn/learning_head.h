#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/feature_tap.h"
#include "model/config/config.h"
#include "runtime/decode_settings.h"

namespace talon {

/// The head of a server's drafter that learns, one of the EAGLE family: where two are joined, the
/// first.
struct LearningHead {
  std::string drafter;         // eagle, eagle2, eagle3
  std::string trained_as;      // --kind of `talon train head`
  std::string kind;            // as a HeadFinder is asked for it
  std::filesystem::path path;  // of the one that the drafter has
  std::string taps = {};       // the drafter's option, if it is given
};

/// Finds it, and takes `head=` out of the drafter's text: from then on settings.heads tells the
/// head. Throws UsageError for a drafter without such a head.
LearningHead take_learning_head(DecodeSettings& settings);

/// How a head is stored. What learns from the first one is stored like it, so that its passes take
/// no longer.
struct HeadForm {
  int draft_vocabulary = 0;    // rows of its own output matrix; 0: the target's is used
  bool in_four_bits = false;   // its matrices: then learned heads learn in that rounding
  bool shares_output = false;  // its output rows are the target's, and not in its file
};
/// Throws Error for a file that is no head of the EAGLE family.
HeadForm form_of(const std::filesystem::path& head);

/// Of which of the target's vectors texts are kept, so that the head can learn from them: the
/// layers that it reads, or where it reads none the usual ones, then what the output matrix reads.
/// Throws Error for a head that does not fit the target, UsageError for `taps` that are no layers.
std::vector<FeatureTap> taps_to_keep(const LearningHead& head, const ModelConfig& target);

/// As `others`, but for the head that learns.
HeadFinder heads_with(const LearningHead& learning, std::filesystem::path head, HeadFinder others);

}  // namespace talon
