#pragma once

#include <span>
#include <vector>

#include "image/picture.h"
#include "image/png.h"

namespace talon {

struct AnimationFrame {
  Picture picture;
  int ms = 0;  // how long it is shown
};

/// The bytes of an animated PNG (APNG, PNG specification, third edition): the frames one after the
/// other, over and over. A program that knows no animations shows `still`. REQUIRES: one size, at
/// least one frame.
std::vector<std::byte> encode_animation(const Picture& still,
                                        std::span<const AnimationFrame> frames,
                                        const PngTexts& texts = {});

}  // namespace talon
