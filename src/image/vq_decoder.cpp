#include "image/vq_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/machine/available_memory.h"
#include "image/vq_parts.h"

namespace talon {
namespace {

/// Level `index` of the decoder, of `count` that follow the first by their names.
VqLevel read_level_up(VqReader& reader, int index, int count) {
  const bool counts_down = reader.layout.counts_down;
  const int number = counts_down ? count - 1 - index : index;
  const std::string at = vq_name(reader.layout.up, number);
  VqLevel level = reader.level(at);
  const std::string up = at + "upsample.conv";
  const bool grows = reader.tensors.has(up + ".weight");
  if (counts_down && grows != (number > 0)) {
    reader.tensors.refuse(up + ".weight", "one in every level but number 0",
                          grows ? "one" : "none");
  }
  if (!grows) return level;
  const int side = std::max(reader.size.rows, reader.size.columns);
  if (index + 1 == kMostVqLevels || 2 * side > kMostVqSide) {
    reader.tensors.refuse(up + ".weight",
                          fmt::format("pictures of at most {} pixels a side", kMostVqSide),
                          "larger ones");
  }
  level.resize = std::make_unique<Convolution>(reader.convolution(up, ConvolutionKind::doubling));
  return level;
}

}  // namespace

struct VqDecoder::State {
  State(const Checkpoint& checkpoint, int grid_rows, int grid_columns, int most_threads);
  Plane run(Plane x) const;

  std::string fingerprint;
  int threads;
  int rows, columns;          // of the grid
  int width = 0, height = 0;  // of a picture
  bool truncates;             // pixels, else they are rounded
  VqCodebook book;
  std::vector<Convolution> first;  // post_quant_conv, conv_in
  std::unique_ptr<VqMiddle> middle;
  std::vector<VqLevel> levels;
  std::unique_ptr<GroupNorm> norm;
  std::unique_ptr<Convolution> last;
  mutable PlaneMemory planes;
};

VqDecoder::State::State(const Checkpoint& checkpoint, int grid_rows, int grid_columns,
                        int most_threads)
    : fingerprint(vq_fingerprint(checkpoint)),
      threads(most_threads),
      rows(grid_rows),
      columns(grid_columns),
      truncates(is_chameleon_vq(checkpoint) || vq_prefix(checkpoint) == kJanusVq) {
  expects(rows > 0 && columns > 0, "a grid with cells");
  const OneDnnThreads at_most(threads);
  const VqTensors tensors(checkpoint);
  const VqLayout& layout = vq_layout(checkpoint);
  book = read_vq_codebook(tensors, layout.unit_codes);
  VqReader reader{tensors, layout, "decoder.", {rows, columns, book.width}};
  for (const char* name : {"post_quant_conv", "decoder.conv_in"})
    first.push_back(reader.convolution(name));
  middle = std::make_unique<VqMiddle>(reader.middle());
  const int count = reader.count_levels(layout.up);
  do {
    levels.push_back(read_level_up(reader, static_cast<int>(levels.size()), count));
  } while (levels.back().resize);
  norm = std::make_unique<GroupNorm>(tensors, "decoder.norm_out", reader.size, true);
  width = reader.size.columns;
  height = reader.size.rows;
  const std::string out = "decoder.conv_out";
  last = std::make_unique<Convolution>(reader.convolution(out));
  if (last->out().channels != 3) {
    tensors.refuse(out + ".weight", "3 channels out", fmt::to_string(last->out().channels));
  }
  checkpoint.check_whole();
  require_available(reader.bytes(),
                    fmt::format("decode pictures of {} by {} cells", columns, rows));
}

Plane VqDecoder::State::run(Plane x) const {
  for (const Convolution& convolution : first) x = convolution(x);
  x = (*middle)(std::move(x));
  for (const VqLevel& level : levels) x = level(std::move(x));
  return (*last)((*norm)(x));
}

VqDecoder::VqDecoder(const Checkpoint& checkpoint, int rows, int columns, int threads)
    : state_(std::make_unique<State>(checkpoint, rows, columns, threads)) {}
VqDecoder::~VqDecoder() = default;
VqDecoder::VqDecoder(VqDecoder&&) noexcept = default;

int VqDecoder::codes() const { return state_->book.codes; }
const std::string& VqDecoder::fingerprint() const { return state_->fingerprint; }
int VqDecoder::width() const { return state_->width; }
int VqDecoder::height() const { return state_->height; }

std::vector<float> VqDecoder::values(std::span<const TokenId> codes) const {
  const State& s = *state_;
  expects(std::ssize(codes) == static_cast<std::ptrdiff_t>(s.rows) * s.columns,
          "a code for every cell");
  Plane x({s.rows, s.columns, s.book.width}, &s.planes);
  auto to = x.values().begin();
  for (const TokenId code : codes) {
    expects(code >= 0 && code < s.book.codes, "codes of the codebook");
    const auto from = s.book.vectors.begin() + static_cast<std::ptrdiff_t>(code) * s.book.width;
    to = std::copy_n(from, s.book.width, to);
  }
  const OneDnnThreads at_most(s.threads);
  std::vector<float> values = s.run(std::move(x)).copy();
  s.planes.keep_at_most(kMostVqKept);
  return values;
}

Picture VqDecoder::decode(std::span<const TokenId> codes) const {
  Picture picture{width(), height(), {}};
  for (const float value : values(codes)) {
    if (!std::isfinite(value))
      fail("decode a picture: expected finite values, found NaN or infinity");
    const double level = (std::clamp(static_cast<double>(value), -1.0, 1.0) + 1) * 127.5;
    const double half = state_->truncates ? 0 : 0.5;
    picture.rgb.push_back(static_cast<std::uint8_t>(std::floor(level + half)));
  }
  return picture;
}

}  // namespace talon
