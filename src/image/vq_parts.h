#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/vq_layers.h"

namespace talon {

// What both halves of a VQ tokenizer are made of: vq_decoder.h, vq_encoder.h.

inline constexpr int kMostVqSide = 1 << 13;  // pixels
inline constexpr int kMostVqLevels = 16;
inline constexpr std::size_t kMostVqKept = std::size_t{64}
                                           << 20;  // bytes of planes between pictures

/// What the published tokenizers call their parts, and how they use codes.
struct VqLayout {
  std::string_view middle_first, middle_attention, middle_second;  // behind the half's name
  std::string_view up, down, block;  // levels of the decoder, of the encoder; "{}": its number
  bool counts_down = false;          // the decoder's last level is number 0
  bool unit_codes = true;            // divided by their norms
};
const VqLayout& vq_layout(const Checkpoint& checkpoint);

/// With the number in the place of "{}".
std::string vq_name(std::string_view name, int number);

struct VqCodebook {
  int codes = 0, width = 0;
  std::vector<float> vectors;  // [codes, width], as they are used
};
/// unit: each is divided by its norm.
VqCodebook read_vq_codebook(const VqTensors& tensors, bool unit);

/// 16 hexadecimal digits by which a tokenizer is known: of the names and shapes of its tensors, in
/// any order, and of the first values of each.
std::string vq_fingerprint(const Checkpoint& checkpoint);

/// Blocks at one resolution, then a convolution that leads to the next.
struct VqLevel {
  Plane operator()(Plane x) const;

  std::vector<ResidualBlock> blocks;
  std::vector<CellAttention> attentions;  // behind each block, or none
  std::unique_ptr<Convolution> resize;    // null: the last level
};

/// Where the cells are fewest.
struct VqMiddle {
  Plane operator()(Plane x) const { return second(attention(first(std::move(x)))); }

  ResidualBlock first;
  CellAttention attention;
  ResidualBlock second;
};

/// Reads the layers of a half, "decoder." or "encoder.", in their order. Throws Error naming the
/// tensor for one that is missing, of another shape, or not finite.
struct VqReader {
  Convolution convolution(const std::string& name, ConvolutionKind kind = ConvolutionKind::same);
  ResidualBlock block(const std::string& name);
  CellAttention attention(const std::string& name);
  VqMiddle middle();
  /// The blocks of the level whose names begin with `at`.
  VqLevel level(const std::string& at);
  /// Levels that follow the first. `name`: up or down of the layout.
  int count_levels(std::string_view name) const;
  /// Of planes while the layers that were read are run: those of the block that needs most, and
  /// beside them, since PlaneMemory may still hold them, those of the attention that does.
  std::size_t bytes() const { return sizeof(float) * (block_values + attention_values); }

  const VqTensors& tensors;
  const VqLayout& layout;
  std::string half;
  PlaneSize size;                                      // of the plane that the next layer gets
  std::size_t block_values = 0, attention_values = 0;  // the most of one
};

}  // namespace talon
