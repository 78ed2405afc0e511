#include "draw/film.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace talon {
namespace {

constexpr int kLeastWidth = 192;  // of a panel; small pictures are shown larger
constexpr int kGap = 8, kFewestFrames = 32, kMostFrames = 320;
constexpr std::size_t kMostBytes = 96u << 20;  // of all frames
constexpr int kFrameMs = 60, kLastMs = 2500;
constexpr int kDigitRows = 5, kDigitColumns = 3, kDigitPixels = 3;  // of a dot
constexpr int kCaption = kDigitRows * kDigitPixels + 2 * kGap;

using Colour = std::array<int, 3>;
constexpr Colour kEmpty = {226, 226, 226}, kOwn = {110, 110, 110}, kText = {40, 40, 40};

/// Dots of 0 to 9 and a slash, row after row from the most significant bit.
constexpr std::uint16_t kGlyphs[] = {0b111101101101111, 0b010110010010111, 0b111001111100111,
                                     0b111001111001111, 0b101101111001001, 0b111100111001111,
                                     0b111100111101111, 0b111001001001001, 0b111101111101111,
                                     0b111101111001111, 0b001001010100100};

void paint(Picture& picture, int x, int y, const Colour& colour) {
  auto* pixel = picture.rgb.data() + (static_cast<std::ptrdiff_t>(y) * picture.width + x) * 3;
  for (std::size_t i = 0; i < 3; ++i) pixel[i] = static_cast<std::uint8_t>(colour[i]);
}

void write(Picture& picture, int left, int top, const std::string& text) {
  for (const char letter : text) {
    const std::uint16_t glyph = kGlyphs[letter == '/' ? 10 : letter - '0'];
    for (int y = 0; y < kDigitRows * kDigitPixels; ++y) {
      for (int x = 0; x < kDigitColumns * kDigitPixels; ++x) {
        const int dot = y / kDigitPixels * kDigitColumns + x / kDigitPixels;
        if (glyph >> (kDigitRows * kDigitColumns - 1 - dot) & 1) {
          if (left + x < picture.width) paint(picture, left + x, top + y, kText);
        }
      }
    }
    left += (kDigitColumns + 1) * kDigitPixels;
  }
}

/// What is seen of a cell.
struct Tint {
  bool drawn = false;
  double strength = 0;
  Colour colour = kEmpty;
};

/// share: of the second.
Colour between(const Colour& first, const Colour& second, double share) {
  Colour colour{};
  for (std::size_t i = 0; i < 3; ++i)
    colour[i] = static_cast<int>(first[i] * (1 - share) + second[i] * share);
  return colour;
}

Tint tint_of(const CellOrigin& origin) {
  if (origin.depth == 0) return {true, 0.3, kOwn};
  const int shade = std::max(60, 210 - 18 * origin.depth);
  const Colour green = {0, shade, shade / 4}, orange = {shade + 45, shade / 2, 0};
  return {true, 0.45, between(green, orange, origin.relaxed)};
}

Colour mixed(const Picture& picture, int x, int y, const Tint& tint) {
  const auto at = (static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) +
                   static_cast<std::size_t>(x)) *
                  3;
  const Colour own = {picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]};
  return between(own, tint.colour, tint.strength);
}

/// Both panels of a frame.
class Screen {
 public:
  Screen(const ImagePlan& plan, const Picture& picture)
      : plan_(plan), picture_(picture), scale_(std::max(1, kLeastWidth / picture.width)) {
    expects(picture.width % plan.columns == 0 && picture.height % plan.rows == 0,
            "cells of one size");
    width_ = picture.width * scale_;
    height_ = picture.height * scale_;
  }

  Picture blank() const {
    const int width = 2 * width_ + 3 * kGap, height = height_ + kGap + kCaption;
    return {width, height,
            std::vector<std::uint8_t>(
                static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3, 255)};
  }

  void show(Picture& frame, int panel, std::span<const Tint> cells, int tokens,
            int forwards) const {
    const int left = kGap + panel * (width_ + kGap);
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x)
        paint(frame, left + x, kGap + y, colour_at(x / scale_, y / scale_, cells));
    }
    write(frame, left, height_ + 2 * kGap, fmt::format("{}/{}", tokens, forwards));
  }

 private:
  Colour colour_at(int x, int y, std::span<const Tint> cells) const {
    const int row = y * plan_.rows / picture_.height, column = x * plan_.columns / picture_.width;
    const Tint& tint = cells[static_cast<std::size_t>(row * plan_.columns + column)];
    if (!tint.drawn) return kEmpty;
    return mixed(picture_, x, y, tint);
  }

  const ImagePlan& plan_;
  const Picture& picture_;
  int scale_, width_ = 0, height_ = 0;
};

/// Tokens of an answer after so many forwards, the prompt's among them.
std::vector<int> tokens_after(std::span<const int> accepted, int tokens) {
  std::vector<int> after = {0, 1};
  for (const int count : accepted) after.push_back(std::min(tokens, after.back() + count + 1));
  return after;
}

}  // namespace

std::vector<AnimationFrame> film_of(const ImagePlan& plan, const Picture& picture,
                                    std::span<const int> accepted,
                                    std::span<const double> relaxed) {
  const std::vector<CellOrigin> origins = origins_of(plan, accepted, relaxed);
  expects(std::ssize(origins) == plan.cells(), "an origin of every cell");
  const Screen screen(plan, picture);
  const int tokens = plan.answer_tokens();
  const std::vector<int> drawn = tokens_after(accepted, tokens);
  const auto fitting = static_cast<int>(kMostBytes / screen.blank().rgb.size());
  const int most = std::clamp(fitting, kFewestFrames, kMostFrames);
  const int step = (tokens + most - 1) / most;
  const auto cells_before = [&](int token) {
    return token - (plan.row_end < 0 ? 0 : token / plan.row_tokens());
  };
  std::vector<AnimationFrame> frames;
  for (int forwards = 0; forwards < tokens; forwards += step) {
    const auto done =
        static_cast<std::size_t>(std::min<std::ptrdiff_t>(forwards, std::ssize(drawn) - 1));
    std::vector<Tint> plain(origins.size()), drafted(origins.size());
    for (int cell = 0; cell < cells_before(forwards); ++cell)
      plain[static_cast<std::size_t>(cell)] = tint_of({});
    for (std::size_t cell = 0; cell < origins.size(); ++cell) {
      if (origins[cell].forward < forwards) drafted[cell] = tint_of(origins[cell]);
    }
    AnimationFrame frame{screen.blank(), kFrameMs};
    screen.show(frame.picture, 0, plain, forwards, forwards);
    screen.show(frame.picture, 1, drafted, drawn[done], static_cast<int>(done));
    frames.push_back(std::move(frame));
  }
  const std::vector<Tint> all(origins.size(), Tint{true, 0, {}});
  AnimationFrame last{screen.blank(), kLastMs};
  screen.show(last.picture, 0, all, tokens, tokens);
  screen.show(last.picture, 1, all, tokens, static_cast<int>(std::ssize(drawn)) - 1);
  frames.push_back(std::move(last));
  return frames;
}

Picture tinted(const ImagePlan& plan, const Picture& picture, std::span<const CellOrigin> origins) {
  expects(picture.width % plan.columns == 0 && picture.height % plan.rows == 0,
          "cells of one size");
  Picture shown = picture;
  for (std::size_t cell = 0; cell < origins.size(); ++cell) {
    const Tint tint = tint_of(origins[cell]);
    const int width = picture.width / plan.columns, height = picture.height / plan.rows;
    const int left = static_cast<int>(cell) % plan.columns * width;
    const int top = static_cast<int>(cell) / plan.columns * height;
    for (int y = top; y < top + height; ++y) {
      for (int x = left; x < left + width; ++x) paint(shown, x, y, mixed(picture, x, y, tint));
    }
  }
  return shown;
}

}  // namespace talon
