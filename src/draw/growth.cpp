#include "draw/growth.h"

#include <algorithm>

#include "core/error.h"
#include "draw/picture_prompt.h"

namespace talon {
namespace {

constexpr std::uint8_t kNotDrawn = 226;

Picture blank_picture(const VqDecoder& decoder) {
  const auto pixels =
      static_cast<std::size_t>(decoder.width()) * static_cast<std::size_t>(decoder.height());
  return {decoder.width(), decoder.height(), std::vector<std::uint8_t>(pixels * 3, kNotDrawn)};
}

}  // namespace

std::vector<CellOrigin> origins_of(const ImagePlan& plan, std::span<const int> accepted,
                                   std::span<const double> relaxed) {
  std::vector<CellOrigin> origins;
  int token = 0;
  const auto add = [&](const CellOrigin& origin) {
    if (token < plan.answer_tokens() && plan.forced(token) < 0) origins.push_back(origin);
    ++token;
  };
  add({0, 0});
  for (std::size_t check = 0; check < accepted.size(); ++check) {
    const int forward = static_cast<int>(check) + 1;
    const double sum = check < relaxed.size() ? relaxed[check] : 0;
    const double share = std::clamp(sum / std::max(1, accepted[check]), 0.0, 1.0);
    for (int depth = 1; depth <= accepted[check]; ++depth) add({forward, depth, share});
    add({forward, 0});
  }
  return origins;
}

void PictureGrowth::add(std::span<const TokenId> tokens, double relaxed) {
  expects(!tokens.empty(), "a token of every forward");
  // The prompt's forward brings one.
  const auto of_check = tokens.size() - (tokens_.empty() ? 1 : 0);
  if (of_check > 0) {
    accepted_.push_back(static_cast<int>(of_check) - 1);
    relaxed_.push_back(relaxed);
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

std::vector<TokenId> PictureGrowth::codes() const { return codes_of(plan_, tokens_); }

std::vector<CellOrigin> PictureGrowth::origins() const {
  return tokens_.empty() ? std::vector<CellOrigin>() : origins_of(plan_, accepted_, relaxed_);
}

int PictureGrowth::cells() const {
  const int tokens = static_cast<int>(tokens_.size());
  return plan_.row_end < 0 ? tokens : tokens - tokens / plan_.row_tokens();
}

Picture preview_of(const VqDecoder& decoder, const ImagePlan& plan,
                   std::span<const TokenId> codes) {
  expects(std::ssize(codes) <= plan.cells(), "at most a code for every cell");
  const Picture blank = blank_picture(decoder);
  if (codes.empty()) return blank;
  std::vector<TokenId> all(codes.begin(), codes.end());
  const auto columns = static_cast<std::size_t>(plan.columns);
  while (std::ssize(all) < plan.cells())
    all.push_back(all.size() < columns ? all.back() : all[all.size() - columns]);
  Picture picture = decoder.decode(all);
  const int cell_width = picture.width / plan.columns, cell_height = picture.height / plan.rows;
  for (int y = 0; y < picture.height; ++y) {
    const int before = static_cast<int>(codes.size()) - y / cell_height * plan.columns;
    const int drawn = std::clamp(before, 0, plan.columns) * cell_width;
    const auto row = static_cast<std::ptrdiff_t>(y) * picture.width;
    std::fill(picture.rgb.begin() + (row + drawn) * 3,
              picture.rgb.begin() + (row + picture.width) * 3, kNotDrawn);
  }
  return picture;
}

}  // namespace talon
