#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "bench/image/picture_sums.h"
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

  PictureSums sums(const ImagePlan& plan) const;
  /// Codes of a check whose first one is not the commonest of all (CodeCounts).
  double tau_foreground(const ImagePlan& plan) const;
  /// What reports say of all: summary_of(sums()), "tokens", tau_foreground(), "accepted" of the
  /// checks of each, times of drawing and pictures a second.
  Json numbers(const ImagePlan& plan) const;
};
/// Whether both drew the same codes.
bool is_equal(const Drawn& a, const Drawn& b);

/// Of so many pictures: NAME.png, or NAME-1.png, NAME-2.png, ...; 00001.png, ... where `out` is a
/// folder, or ends with a slash.
std::vector<std::filesystem::path> picture_files(const std::filesystem::path& out, int pictures);

}  // namespace talon
