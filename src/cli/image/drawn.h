#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "draw/growth.h"
#include "model/config/config.h"
#include "runtime/answerer.h"

namespace talon {

struct FinishedPicture {
  std::size_t index = 0;  // among those that are asked for
  Answer answer;
};

/// What one method made of all requests.
struct Drawn {
  std::vector<FinishedPicture> pictures;  // in the order of the requests
  double ms = 0;
  std::optional<PictureGrowth> first;  // how the first of those that were asked for grew

  int rounds() const;
  /// Codes, and what stands between them.
  int codes() const;
  /// Codes of a check; the prompt's forward draws the first.
  double tau() const;
  /// Codes of a forward of the model, the prompt's included.
  double steps_compression() const;
  /// Codes of a check whose first one is not the commonest of all (CodeCounts).
  double tau_foreground(const ImagePlan& plan) const;
  /// Of the drafts that were accepted the share that the exact rule would have rejected
  /// (VerifyResult::relaxed).
  double relaxed() const;
  double sample_ms() const;  // sample_ms_of() of all
};
/// Whether both drew the same codes.
bool is_equal(const Drawn& a, const Drawn& b);

/// Of so many pictures: NAME.png, or NAME-1.png, NAME-2.png, ...; 00001.png, ... where `out` is a
/// folder, or ends with a slash.
std::vector<std::filesystem::path> picture_files(const std::filesystem::path& out, int pictures);

}  // namespace talon
