#include "image/vq_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/machine/available_memory.h"
#include "image/vq_parts.h"
#include "io/quote.h"

namespace talon {
namespace {

/// Level `index` of the encoder, the finest first, of `count`.
VqLevel read_level_down(VqReader& reader, int index, int count) {
  const std::string at = vq_name(reader.layout.down, index);
  VqLevel level = reader.level(at);
  const std::string down = at + "downsample.conv";
  const bool shrinks = reader.tensors.has(down + ".weight");
  if (shrinks != (index + 1 < count)) {
    reader.tensors.refuse(down + ".weight", "one in every level but the last",
                          shrinks ? "one" : "none");
  }
  if (shrinks) {
    level.resize =
        std::make_unique<Convolution>(reader.convolution(down, ConvolutionKind::halving));
  }
  return level;
}

/// For distances to all codes at once: the values of the first place of each code, then those of
/// the second, ...
std::vector<float> by_place(const VqCodebook& book) {
  const auto codes = static_cast<std::size_t>(book.codes);
  const auto width = static_cast<std::size_t>(book.width);
  std::vector<float> values(book.vectors.size());
  for (std::size_t code = 0; code < codes; ++code) {
    for (std::size_t i = 0; i < width; ++i)
      values[i * codes + code] = book.vectors[code * width + i];
  }
  return values;
}

/// Half of the squares of the lengths of codes; of unit codes nothing, as they differ by rounding.
std::vector<double> half_squares(const VqCodebook& book, bool unit) {
  const auto width = static_cast<std::size_t>(book.width);
  std::vector<double> halves(static_cast<std::size_t>(book.codes));
  for (std::size_t i = 0; !unit && i < book.vectors.size(); ++i)
    halves[i / width] += 0.5 * static_cast<double>(book.vectors[i]) * book.vectors[i];
  return halves;
}

void make_unit(std::span<float> row) {
  double squares = 0;
  for (const float value : row) squares += static_cast<double>(value) * value;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : row) value = static_cast<float>(value / length);
}

void require_encodable(const Checkpoint& checkpoint, int width, int height, int cell) {
  if (width % cell == 0 && height % cell == 0 && std::max(width, height) <= kMostVqSide) return;
  fail(
      "encode pictures with {}: expected sides of a multiple of {} pixels, at most {}, found {} by "
      "{}",
      quote(checkpoint.path.string()), cell, kMostVqSide, width, height);
}

}  // namespace

struct VqEncoder::State {
  State(const Checkpoint& checkpoint, int picture_width, int picture_height, int most_threads);
  Plane run(Plane x) const;
  TokenId nearest(std::span<const float> vector) const;

  int threads;
  int width, height;          // of a picture
  int rows = 0, columns = 0;  // of the grid
  int codes = 0, code_width = 0;
  bool unit_codes;
  std::vector<float> places;   // by_place()
  std::vector<double> halves;  // half_squares()
  std::unique_ptr<Convolution> first;
  std::vector<VqLevel> levels;
  std::unique_ptr<VqMiddle> middle;
  std::unique_ptr<GroupNorm> norm;
  std::vector<Convolution> last;  // conv_out, quant_conv
  mutable PlaneMemory planes;
};

VqEncoder::State::State(const Checkpoint& checkpoint, int picture_width, int picture_height,
                        int most_threads)
    : threads(most_threads),
      width(picture_width),
      height(picture_height),
      unit_codes(vq_layout(checkpoint).unit_codes) {
  expects(width > 0 && height > 0, "a picture with pixels");
  const OneDnnThreads at_most(threads);
  const VqTensors tensors(checkpoint);
  const VqLayout& layout = vq_layout(checkpoint);
  const VqCodebook book = read_vq_codebook(tensors, unit_codes);
  codes = book.codes;
  code_width = book.width;
  places = by_place(book);
  halves = half_squares(book, unit_codes);
  VqReader reader{tensors, layout, "encoder.", {height, width, 3}};
  const int count = std::max(reader.count_levels(layout.down), 1);
  require_encodable(checkpoint, width, height, 1 << (count - 1));
  first = std::make_unique<Convolution>(reader.convolution("encoder.conv_in"));
  for (int i = 0; i < count; ++i) levels.push_back(read_level_down(reader, i, count));
  rows = reader.size.rows;
  columns = reader.size.columns;
  middle = std::make_unique<VqMiddle>(reader.middle());
  norm = std::make_unique<GroupNorm>(tensors, "encoder.norm_out", reader.size, true);
  for (const char* name : {"encoder.conv_out", "quant_conv"})
    last.push_back(reader.convolution(name));
  if (reader.size.channels != code_width) {
    tensors.refuse("quant_conv.weight", fmt::format("{} channels out, as codes have", code_width),
                   fmt::to_string(reader.size.channels));
  }
  checkpoint.check_whole();
  require_available(reader.bytes(),
                    fmt::format("encode pictures of {} by {} pixels", width, height));
}

Plane VqEncoder::State::run(Plane x) const {
  x = (*first)(x);
  for (const VqLevel& level : levels) x = level(std::move(x));
  x = (*norm)((*middle)(std::move(x)));
  for (const Convolution& convolution : last) x = convolution(x);
  return x;
}

TokenId VqEncoder::State::nearest(std::span<const float> vector) const {
  std::vector<double> distances = halves;  // half of their squares, without what all have
  const auto all = static_cast<std::size_t>(codes);
  for (std::size_t i = 0; i < vector.size(); ++i) {
    const double value = vector[i];
    const float* const place = places.data() + i * all;
    for (std::size_t code = 0; code < all; ++code) distances[code] -= value * place[code];
  }
  return static_cast<TokenId>(std::ranges::min_element(distances) - distances.begin());
}

VqEncoder::VqEncoder(const Checkpoint& checkpoint, int width, int height, int threads)
    : state_(std::make_unique<State>(checkpoint, width, height, threads)) {}
VqEncoder::~VqEncoder() = default;
VqEncoder::VqEncoder(VqEncoder&&) noexcept = default;

int VqEncoder::codes() const { return state_->codes; }
int VqEncoder::rows() const { return state_->rows; }
int VqEncoder::columns() const { return state_->columns; }

std::vector<float> VqEncoder::vectors(std::span<const float> pixels) const {
  const State& s = *state_;
  Plane x({s.height, s.width, 3}, &s.planes);
  expects(x.values().size() == pixels.size(), "three values a pixel");
  std::ranges::copy(pixels, x.values().begin());
  const OneDnnThreads at_most(s.threads);
  std::vector<float> values = s.run(std::move(x)).copy();
  s.planes.keep_at_most(kMostVqKept);
  for (const float value : values) {
    if (!std::isfinite(value))
      fail("encode a picture: expected finite values, found NaN or infinity");
  }
  const auto width = static_cast<std::size_t>(s.code_width);
  for (std::size_t at = 0; s.unit_codes && at < values.size(); at += width)
    make_unit(std::span(values).subspan(at, width));
  return values;
}

std::vector<TokenId> VqEncoder::codes_of(std::span<const float> pixels) const {
  const std::vector<float> all = vectors(pixels);
  const auto width = static_cast<std::size_t>(state_->code_width);
  std::vector<TokenId> found;
  for (std::size_t at = 0; at < all.size(); at += width)
    found.push_back(state_->nearest(std::span(all).subspan(at, width)));
  return found;
}

std::vector<TokenId> VqEncoder::encode(const Picture& picture) const {
  expects(picture.width == state_->width && picture.height == state_->height,
          "a picture of the encoder's size");
  std::vector<float> pixels;
  pixels.reserve(picture.rgb.size());
  for (const std::uint8_t value : picture.rgb)
    pixels.push_back(static_cast<float>(value) / 127.5F - 1.0F);
  return codes_of(pixels);
}

}  // namespace talon
