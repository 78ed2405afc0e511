#include "model/load/quantized/quantized_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/half.h"
#include "model/load/quantized/quantized_floats.h"
#include "model/load/quantized/quantized_mlx.h"

namespace talon {
namespace {

using Method = Quantization::Method;
constexpr int kBlock = 32;  // of q4_0 and q8_0
constexpr int kWord = 32;   // bits

/// value = scale of (row, group of the column) * code.
struct WholeNumbers {
  int rows = 0, cols = 0, groups = 0;
  std::vector<std::int16_t> codes;     // [rows, cols]
  std::vector<float> scales;           // [rows, groups]
  std::vector<std::int32_t> group_of;  // of each column

  std::size_t place_of_scale(int row, int col) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(groups) +
           static_cast<std::size_t>(group_of[static_cast<std::size_t>(col)]);
  }
  float scale(int row, int col) const { return scales[place_of_scale(row, col)]; }
  std::int16_t& code(int row, int col) {
    return codes[static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
                 static_cast<std::size_t>(col)];
  }
};

WholeNumbers whole_numbers(const MatrixParts& parts, const Quantization& q, int rows, int cols) {
  const int group = q.group > 0 ? q.group : cols;
  if (cols * q.bits % kWord != 0) {
    parts.refuse(fmt::format("inputs whose codes of {} bits fill words", q.bits), cols);
  }
  WholeNumbers w;
  w.rows = rows;
  w.cols = cols;
  w.groups = (cols + group - 1) / group;  // the last may be shorter
  w.codes.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  w.scales.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(w.groups));
  w.group_of.resize(static_cast<std::size_t>(cols));
  for (int col = 0; col < cols; ++col) w.group_of[static_cast<std::size_t>(col)] = col / group;
  return w;
}

/// The code that begins at bit `shift` of a word and may go on in the next.
int code_across(std::uint32_t word, std::uint32_t next, std::size_t shift, int bits) {
  const std::uint64_t both = word | std::uint64_t{next} << kWord;
  return static_cast<int>(both >> shift & ((1U << bits) - 1));
}

/// Codes of a matrix [lines, bits of the codes in words], the low ones first.
int code_at(const std::vector<std::uint32_t>& words, std::size_t words_of_line, std::size_t line,
            std::size_t place, int bits) {
  const std::size_t first = place * static_cast<std::size_t>(bits), shift = first % kWord;
  const std::size_t word = line * words_of_line + first / kWord;
  const bool goes_on = shift + static_cast<std::size_t>(bits) > kWord;
  return code_across(words[word], goes_on ? words[word + 1] : 0, shift, bits);
}

void read_groups(const MatrixParts& parts, WholeNumbers& w) {
  if (!parts.has("g_idx") && !parts.has("weight_g_idx")) return;
  const auto groups = parts.words(parts.has("g_idx") ? "g_idx" : "weight_g_idx", {w.cols});
  constexpr auto kUnset = static_cast<std::uint32_t>(-1);  // of all: in their order
  if (std::ranges::all_of(groups, [](std::uint32_t group) { return group == kUnset; })) return;
  for (std::size_t col = 0; col < groups.size(); ++col) {
    if (groups[col] >= static_cast<std::uint32_t>(w.groups)) {
      parts.refuse(fmt::format("inputs of {} groups", w.groups), static_cast<long>(groups[col]));
    }
    w.group_of[col] = static_cast<std::int32_t>(groups[col]);
  }
}

/// Scales and zero points are [groups, outputs].
void transpose_scales(const std::vector<float>& scales, WholeNumbers& w) {
  for (int row = 0; row < w.rows; ++row) {
    for (int group = 0; group < w.groups; ++group) {
      w.scales[static_cast<std::size_t>(row) * static_cast<std::size_t>(w.groups) +
               static_cast<std::size_t>(group)] =
          scales[static_cast<std::size_t>(group) * static_cast<std::size_t>(w.rows) +
                 static_cast<std::size_t>(row)];
    }
  }
}

/// qweight: inputs share words, [inputs, outputs] otherwise. Codes of three bits go on from a word
/// to the next.
WholeNumbers read_gptq(const MatrixParts& parts, const Quantization& q, int rows, int cols) {
  WholeNumbers w = whole_numbers(parts, q, rows, cols);
  if (rows * q.bits % kWord != 0) {
    parts.refuse(fmt::format("outputs whose codes of {} bits fill words", q.bits), rows);
  }
  read_groups(parts, w);
  const int zero_words = rows * q.bits / kWord;
  const auto words = parts.words("qweight", {cols * q.bits / kWord, rows});
  const auto zeros = parts.words("qzeros", {w.groups, zero_words});
  transpose_scales(parts.numbers("scales", {w.groups, rows}), w);
  const auto outputs = static_cast<std::size_t>(rows);
  for (int col = 0; col < cols; ++col) {
    const auto group = static_cast<std::size_t>(w.group_of[static_cast<std::size_t>(col)]);
    const auto first = static_cast<std::size_t>(col * q.bits), shift = first % kWord;
    const bool goes_on = shift + static_cast<std::size_t>(q.bits) > kWord;
    const std::size_t line = first / kWord * outputs;
    for (std::size_t row = 0; row < outputs; ++row) {
      const std::uint32_t next = goes_on ? words[line + outputs + row] : 0;
      const int code = code_across(words[line + row], next, shift, q.bits);
      const int zero = code_at(zeros, static_cast<std::size_t>(zero_words), group, row, q.bits) +
                       (q.zeros_less_1 ? 1 : 0);
      w.code(static_cast<int>(row), col) = static_cast<std::int16_t>(code - zero);
    }
  }
  return w;
}

/// Outputs share words, in the order of the program that multiplies them.
WholeNumbers read_awq(const MatrixParts& parts, const Quantization& q, int rows, int cols) {
  constexpr int kOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};  // output i of eight lies in this nibble
  WholeNumbers w = whole_numbers(parts, q, rows, cols);
  if (rows % 8 != 0) parts.refuse("outputs in words of 8", rows);
  const auto words_of_line = static_cast<std::size_t>(rows / 8);
  const auto words = parts.words("qweight", {cols, rows / 8});
  std::vector<std::uint32_t> zeros;
  if (!q.symmetric) zeros = parts.words("qzeros", {w.groups, rows / 8});
  transpose_scales(parts.numbers("scales", {w.groups, rows}), w);
  const auto place_of = [&](int row) {
    return static_cast<std::size_t>(row / 8 * 8 + kOrder[row % 8]);
  };
  for (int col = 0; col < cols; ++col) {
    const auto group = static_cast<std::size_t>(w.group_of[static_cast<std::size_t>(col)]);
    for (int row = 0; row < rows; ++row) {
      const int code =
          code_at(words, words_of_line, static_cast<std::size_t>(col), place_of(row), 4);
      const int zero = zeros.empty() ? 8 : code_at(zeros, words_of_line, group, place_of(row), 4);
      w.code(row, col) = static_cast<std::int16_t>(code - zero);
    }
  }
  return w;
}

/// For each group of inputs or for each output, or one for all.
std::vector<float> scales_of_groups(const MatrixParts& parts, const WholeNumbers& w) {
  return w.groups > 1 ? parts.numbers("weight_scale", {w.rows, w.groups})
                      : scales_of_outputs(parts, w.rows, "weight_scale");
}

/// Zero points in a byte each, as many as there are scales.
void subtract_zeros(const MatrixParts& parts, WholeNumbers& w) {
  const std::vector<TensorShape> one_group = {{w.rows, 1}, {w.rows}, {1}, {}};
  const std::vector<TensorShape> groups = {TensorShape{w.rows, w.groups}};
  const auto zeros = parts.bytes_of("weight_zero_point", w.groups > 1 ? groups : one_group);
  const bool is_one = zeros.size() == 1;
  for (int row = 0; row < w.rows; ++row) {
    for (int col = 0; col < w.cols; ++col) {
      const int zero = zeros[is_one ? std::size_t{0} : w.place_of_scale(row, col)];
      w.code(row, col) = static_cast<std::int16_t>(w.code(row, col) - zero);
    }
  }
}

/// Zero points of neighbouring outputs lie in one word, in older folders in a byte each.
WholeNumbers read_packed(const MatrixParts& parts, const Quantization& q, int rows, int cols) {
  WholeNumbers w = whole_numbers(parts, q, rows, cols);
  const int in_word = 32 / q.bits;
  read_groups(parts, w);
  const auto words = parts.words("weight_packed", {rows, cols / in_word});
  const bool in_bytes = !q.symmetric && parts.type_of("weight_zero_point") == StorageType::i8;
  std::vector<std::uint32_t> zeros;
  if (!q.symmetric && !in_bytes) {
    zeros = parts.words("weight_zero_point", {(rows + in_word - 1) / in_word, w.groups});
  }
  w.scales = scales_of_groups(parts, w);
  const int middle = 1 << (q.bits - 1);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      const int code =
          code_at(words, static_cast<std::size_t>(cols / in_word), static_cast<std::size_t>(row),
                  static_cast<std::size_t>(col), q.bits);
      int zero = middle;
      if (!zeros.empty()) {
        const auto word = static_cast<std::size_t>(row / in_word * w.groups +
                                                   w.group_of[static_cast<std::size_t>(col)]);
        zero = static_cast<int>(zeros[word] >> (q.bits * (row % in_word)) & ((1U << q.bits) - 1));
      }
      w.code(row, col) = static_cast<std::int16_t>(code - zero);
    }
  }
  if (in_bytes) subtract_zeros(parts, w);
  return w;
}

WholeNumbers read_whole_numbers(const MatrixParts& parts, const Quantization& q, int rows,
                                int cols) {
  WholeNumbers w = whole_numbers(parts, q, rows, cols);
  const auto bytes = parts.bytes("weight", StorageType::i8, {rows, cols});
  w.scales = scales_of_groups(parts, w);
  for (std::size_t i = 0; i < bytes.size(); ++i) w.codes[i] = static_cast<std::int8_t>(bytes[i]);
  if (!q.symmetric) subtract_zeros(parts, w);
  return w;
}

bool is_half(float value) { return half_to_float(float_to_half(value)) == value; }

/// The type of blocks of 32 that hold the numbers as they are, or f32.
StorageType smallest_type(const WholeNumbers& w) {
  if (w.cols % kBlock != 0) return StorageType::f32;
  if (!std::ranges::all_of(w.scales, is_half)) return StorageType::f32;
  for (int col = 0; col < w.cols; ++col) {
    if (w.group_of[static_cast<std::size_t>(col)] !=
        w.group_of[static_cast<std::size_t>(col / kBlock * kBlock)]) {
      return StorageType::f32;
    }
  }
  const auto [least, most] = std::ranges::minmax_element(w.codes);
  if (*least >= -8 && *most <= 7) return StorageType::q4_0;
  return *least >= -128 && *most <= 127 ? StorageType::q8_0 : StorageType::f32;
}

MadeMatrix pack(WholeNumbers& w) {
  const StorageType type = smallest_type(w);
  if (type == StorageType::f32) {
    std::vector<float> values(w.codes.size());
    auto value = values.begin();
    for (int row = 0; row < w.rows; ++row) {
      for (int col = 0; col < w.cols; ++col) {
        *value++ = w.scale(row, col) * static_cast<float>(w.code(row, col));
      }
    }
    return f32_matrix(values);
  }
  MadeMatrix made;
  made.type = type;
  made.bytes.reserve(w.codes.size() / kBlock * block_shape(type).bytes);
  for (int row = 0; row < w.rows; ++row) {
    for (int first = 0; first < w.cols; first += kBlock) {
      const std::uint16_t d = float_to_half(w.scale(row, first));
      made.bytes.push_back(static_cast<std::byte>(d & 255U));
      made.bytes.push_back(static_cast<std::byte>(d >> 8));
      const auto at = [&](int i) { return static_cast<int>(w.code(row, first + i)); };
      if (type == StorageType::q8_0) {
        for (int i = 0; i < kBlock; ++i) made.bytes.push_back(static_cast<std::byte>(at(i)));
        continue;
      }
      for (int i = 0; i < kBlock / 2; ++i) {
        made.bytes.push_back(static_cast<std::byte>((at(i) + 8) | (at(i + kBlock / 2) + 8) << 4));
      }
    }
  }
  return made;
}

/// The part that holds the codes of MLX's stacks ends as that of a matrix.
std::optional<MadeMatrix> make_of_mlx_stack(const Checkpoint& folder, const Quantization& q,
                                            const std::string& name, const StackedMatrix& place) {
  constexpr std::string_view kEnd = "weight";
  if (!name.ends_with(kEnd)) return std::nullopt;
  const MatrixParts parts(folder, name.substr(0, name.size() - kEnd.size()));
  if (!parts.has("scales")) return std::nullopt;
  return read_groups_of_codes(parts, q.groups_of(name), place);
}

}  // namespace

std::optional<MadeMatrix> make_quantized(const Checkpoint& folder, const Quantization& q,
                                         const std::string& name, int rows, int cols) {
  constexpr std::string_view kEnd = "weight";
  if (!name.ends_with(kEnd)) return std::nullopt;
  const MatrixParts parts(folder, name.substr(0, name.size() - kEnd.size()));
  const auto whole = [&](auto read) {
    WholeNumbers w = read(parts, q, rows, cols);
    return pack(w);
  };
  switch (q.method) {
    case Method::gptq:
      if (parts.has("qweight")) return whole(read_gptq);
      break;
    case Method::awq:
      if (parts.has("qweight")) return whole(read_awq);
      break;
    case Method::packed:
      if (parts.has("weight_packed")) return whole(read_packed);
      break;
    case Method::whole_numbers:
      if (parts.has("weight_scale")) return whole(read_whole_numbers);
      break;
    case Method::floats:
    case Method::float_blocks:
      if (parts.has("weight_scale") || parts.has("weight_scale_inv")) {
        return read_floats(parts, q, rows, cols);
      }
      break;
    case Method::nvfp4:
      if (parts.has("weight_packed") || parts.has("weight_scale_2")) {
        return read_nvfp4(parts, rows, cols);
      }
      break;
    case Method::bitsandbytes:
      if (parts.has("SCB")) return read_scaled_bytes(parts, rows, cols);
      if (parts.has("weight.absmax")) return read_table_codes(parts, rows, cols);
      break;
    case Method::mlx:
      if (parts.has("scales")) {
        return read_groups_of_codes(parts, q.groups_of(name), {.rows = rows, .cols = cols});
      }
      break;
    case Method::mxfp4:
      break;
  }
  return std::nullopt;
}

std::optional<MadeMatrix> make_quantized_of_stack(const Checkpoint& folder, const Quantization& q,
                                                  const std::string& name,
                                                  const StackedMatrix& place) {
  if (q.method == Method::mlx) return make_of_mlx_stack(folder, q, name, place);
  if (q.method != Method::floats && q.method != Method::float_blocks) return std::nullopt;
  const MatrixParts parts(folder, name);
  for (const char* scales : {"_scale_inv", "_scale", "_weight_scale"}) {
    if (parts.has(scales)) return read_floats_of_stack(parts, q, scales, place);
  }
  return std::nullopt;
}

const StoredTensor* factor_beside(const Checkpoint& file, std::string_view name) {
  constexpr std::string_view kEnd = ".weight";
  if (file.format != CheckpointFormat::gguf || !name.ends_with(kEnd)) return nullptr;
  const auto architecture = file.metadata.find("general.architecture");
  if (architecture != file.metadata.end() && *architecture == "gemma4") return nullptr;
  return file.find(std::string(name.substr(0, name.size() - kEnd.size())) + ".scale");
}

}  // namespace talon
