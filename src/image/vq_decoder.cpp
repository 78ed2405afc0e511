#include "image/vq_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "image/vq_layers.h"
#include "io/pictures/vq_names.h"
#include "io/sha256.h"

namespace talon {
namespace {

constexpr std::int64_t kMostCodes = 1 << 20, kMostWidth = 1 << 12;
constexpr int kMostSide = 1 << 13;  // pixels
constexpr int kMostLevels = 16, kMostBlocks = 64;

/// Blocks at one resolution, then one that is twice as large.
struct Level {
  std::vector<ResidualBlock> blocks;
  std::vector<CellAttention> attentions;  // behind each block, or none
  std::unique_ptr<Convolution> upsample;  // null: the last level
};

/// What the published tokenizers call their parts, and how they use codes.
struct Layout {
  std::string_view middle_first, middle_attention, middle_second;
  std::string_view level, block;  // "{}": its number
  bool counts_down = false;       // the last level is number 0
  bool unit_codes = true;         // divided by their norms
};

constexpr Layout kLlamaGen = {.middle_first = "decoder.mid.0",
                              .middle_attention = "decoder.mid.1",
                              .middle_second = "decoder.mid.2",
                              .level = "decoder.conv_blocks.{}.",
                              .block = "res.{}"};
constexpr Layout kChameleon = {.middle_first = "decoder.mid.block_1",
                               .middle_attention = "decoder.mid.attn_1",
                               .middle_second = "decoder.mid.block_2",
                               .level = "decoder.up.{}.",
                               .block = "block.{}",
                               .counts_down = true,
                               .unit_codes = false};

std::string numbered(std::string_view name, int number) {
  return fmt::format(fmt::runtime(name), number);
}

/// Levels that follow the first, of a layout that numbers them downwards.
int count_levels(const VqTensors& tensors, const Layout& layout) {
  int levels = 0;
  while (levels < kMostLevels &&
         tensors.has(numbered(layout.level, levels) + numbered(layout.block, 0) + ".norm1.weight"))
    ++levels;
  return levels;
}

struct Codebook {
  int codes = 0, width = 0;
  std::vector<float> vectors;  // as they are used
};

Codebook read_codebook(const VqTensors& tensors, bool unit) {
  const std::string name(kVqCodebook);
  const auto shape = tensors.shape(name);
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMostCodes || shape[1] < 1 ||
      shape[1] > kMostWidth) {
    tensors.refuse(name, fmt::format("[1 to {} codes, 1 to {}]", kMostCodes, kMostWidth),
                   fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  Codebook book{static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                tensors.values(name, shape)};
  for (int code = 0; unit && code < book.codes; ++code) {
    const auto row =
        std::span(book.vectors)
            .subspan(static_cast<std::size_t>(code) * static_cast<std::size_t>(book.width),
                     static_cast<std::size_t>(book.width));
    double squares = 0;
    for (const float value : row) squares += static_cast<double>(value) * value;
    if (!(squares > 0)) tensors.refuse(name, "rows that are not zero", fmt::format("row {}", code));
    for (float& value : row) value = static_cast<float>(value / std::sqrt(squares));
  }
  return book;
}

std::string fingerprint_of(const Checkpoint& checkpoint) {
  constexpr std::size_t kDigits = 16, kMostBytes = 4096;  // of a tensor
  std::vector<const StoredTensor*> tensors;
  for (const StoredTensor& tensor : checkpoint.tensors) tensors.push_back(&tensor);
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  Sha256 hash;
  for (const StoredTensor* tensor : tensors) {
    const std::string shape = fmt::format("{} [{}] ", tensor->name, fmt::join(tensor->shape, ", "));
    hash.update(std::as_bytes(std::span(shape)));
    hash.update(tensor->bytes.first(std::min(kMostBytes, tensor->bytes.size())));
  }
  return hash.finish().substr(0, kDigits);
}

}  // namespace

struct VqDecoder::State {
  State(const Checkpoint& checkpoint, int grid_rows, int grid_columns, int most_threads);
  Level read_level(const VqTensors& tensors, int index);
  Plane run(Plane x) const;

  std::string fingerprint;
  int threads;
  int rows, columns;          // of the grid
  int now_rows, now_columns;  // while loading: of the level
  int channels = 0;           // while loading: of the level
  const Layout& layout;
  bool truncates;       // pixels, else they are rounded
  int numbered_levels;  // of a layout that counts down
  Codebook book;
  std::vector<Convolution> first;  // post_quant_conv, conv_in
  std::vector<ResidualBlock> middle;
  std::vector<CellAttention> middle_attention;
  std::vector<Level> levels;
  std::unique_ptr<GroupNorm> norm;
  std::unique_ptr<Convolution> last;
};

VqDecoder::State::State(const Checkpoint& checkpoint, int grid_rows, int grid_columns,
                        int most_threads)
    : fingerprint(fingerprint_of(checkpoint)),
      threads(most_threads),
      rows(grid_rows),
      columns(grid_columns),
      now_rows(grid_rows),
      now_columns(grid_columns),
      layout(is_chameleon_vq(checkpoint) ? kChameleon : kLlamaGen),
      truncates(&layout == &kChameleon || vq_prefix(checkpoint) == kJanusVq),
      numbered_levels(count_levels(VqTensors(checkpoint), layout)) {
  expects(rows > 0 && columns > 0, "a grid with cells");
  const OneDnnThreads at_most(threads);
  const VqTensors tensors(checkpoint);
  book = read_codebook(tensors, layout.unit_codes);
  channels = book.width;
  for (const char* name : {"post_quant_conv", "decoder.conv_in"}) {
    first.emplace_back(tensors, name, channels, rows, columns);
    channels = first.back().out_channels();
  }
  for (const std::string_view name : {layout.middle_first, layout.middle_second}) {
    middle.emplace_back(tensors, std::string(name), channels, rows, columns);
    channels = middle.back().out_channels();
    if (!middle_attention.empty()) continue;
    const std::string attention(layout.middle_attention);
    middle_attention.emplace_back(tensors, attention, channels, rows, columns);
  }
  do {
    levels.push_back(read_level(tensors, static_cast<int>(levels.size())));
  } while (levels.back().upsample);
  norm = std::make_unique<GroupNorm>(tensors, "decoder.norm_out", channels, true);
  const std::string out = "decoder.conv_out";
  last = std::make_unique<Convolution>(tensors, out, channels, now_rows, now_columns);
  if (last->out_channels() != 3) {
    tensors.refuse(out + ".weight", "3 channels out", fmt::to_string(last->out_channels()));
  }
  checkpoint.check_whole();
}

Level VqDecoder::State::read_level(const VqTensors& tensors, int index) {
  const int number = layout.counts_down ? numbered_levels - 1 - index : index;
  const std::string at = numbered(layout.level, number);
  const auto block_at = [&](int i) { return at + numbered(layout.block, i); };
  Level level;
  for (int i = 0; i == 0 || tensors.has(block_at(i) + ".norm1.weight"); ++i) {
    if (i == kMostBlocks) tensors.refuse(at, fmt::format("at most {} blocks", kMostBlocks), "more");
    level.blocks.emplace_back(tensors, block_at(i), channels, now_rows, now_columns);
    channels = level.blocks.back().out_channels();
    const std::string attention = at + numbered("attn.{}", i);
    if (!tensors.has(attention + ".norm.weight")) continue;
    if (static_cast<int>(level.attentions.size()) != i)
      tensors.refuse(attention, "attention behind every block or none", "some");
    level.attentions.emplace_back(tensors, attention, channels, now_rows, now_columns);
  }
  const std::string up = at + "upsample.conv";
  const bool grows = tensors.has(up + ".weight");
  if (layout.counts_down && grows != (number > 0))
    tensors.refuse(up + ".weight", "one in every level but number 0", grows ? "one" : "none");
  if (!grows) return level;
  now_rows *= 2;
  now_columns *= 2;
  if (index + 1 == kMostLevels || std::max(now_rows, now_columns) > kMostSide) {
    tensors.refuse(up + ".weight", fmt::format("pictures of at most {} pixels a side", kMostSide),
                   "larger ones");
  }
  level.upsample = std::make_unique<Convolution>(tensors, up, channels, now_rows, now_columns);
  channels = level.upsample->out_channels();
  return level;
}

Plane VqDecoder::State::run(Plane x) const {
  for (const Convolution& convolution : first) x = convolution(x);
  x = middle[1](middle_attention[0](middle[0](x)));
  for (const Level& level : levels) {
    for (std::size_t i = 0; i < level.blocks.size(); ++i) {
      x = level.blocks[i](x);
      if (i < level.attentions.size()) x = level.attentions[i](x);
    }
    if (level.upsample) x = (*level.upsample)(twice_as_large(x));
  }
  return (*last)((*norm)(x));
}

VqDecoder::VqDecoder(const Checkpoint& checkpoint, int rows, int columns, int threads)
    : state_(std::make_unique<State>(checkpoint, rows, columns, threads)) {}
VqDecoder::~VqDecoder() = default;
VqDecoder::VqDecoder(VqDecoder&&) noexcept = default;

int VqDecoder::codes() const { return state_->book.codes; }
const std::string& VqDecoder::fingerprint() const { return state_->fingerprint; }
int VqDecoder::width() const { return state_->now_columns; }
int VqDecoder::height() const { return state_->now_rows; }

std::vector<float> VqDecoder::values(std::span<const TokenId> codes) const {
  const State& s = *state_;
  expects(std::ssize(codes) == static_cast<std::ptrdiff_t>(s.rows) * s.columns,
          "a code for every cell");
  Plane x{s.rows, s.columns, s.book.width, {}};
  for (const TokenId code : codes) {
    expects(code >= 0 && code < s.book.codes, "codes of the codebook");
    const auto from = s.book.vectors.begin() + static_cast<std::ptrdiff_t>(code) * s.book.width;
    x.values.insert(x.values.end(), from, from + s.book.width);
  }
  const OneDnnThreads at_most(s.threads);
  return s.run(std::move(x)).values;
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
